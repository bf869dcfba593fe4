"""Of the checks that blame a value which facts know, how many say what to type? Can a node's words break out of it?"""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from preflight.facts.subjects.files import Mount
from preflight.judge.ledger.findings import Command, Finding, Verdict
from preflight.report.document import Counts, NodeInfo, RunInfo, RunReport
from preflight.report.formats.commands import script
from preflight.testing import FakeRun, healthy, roce
from tests.checks.samples import Broken, checks, files_have, judge, with_interface, with_netdevs
from tests.checks.test_files import checkpoint
from tests.judge.commands.typed import as_root
from tests.shares import some_first

FOLDER = Path(__file__).parents[2] / "checks"
MEASURED = "a figure was measured; no fact says which value is wrong"
HARDWARE = "a cable, a slot, a board or memory has to be changed"
ELSEWHERE = "what has to change is on a switch, a firewall, a file server or in a scheduler"
SCRIPT = "a line of the user's own script has to be changed"
UNKNOWN = "the right value is the site's to choose: an address, a number of a user, a folder"
# Those that blame no value which the facts of the nodes know.
FIXED = "the fix says the line with the value"
WITHOUT = {
    **{name: MEASURED for name in checks() if name.startswith(("bench.", "training."))},
    **{name: ELSEWHERE for name in checks() if name.startswith("mesh.")},
    **{name: SCRIPT for name in checks() if name.startswith("rehearse.")},
    **{name: FIXED for name in checks() if name.startswith("caches.")},
    "environment.nothing_stands_before_cuda": FIXED,
    "names.own_hostname_is_no_link_local_address": ELSEWHERE,
    "network.data_interfaces_are_alike": ELSEWHERE,
    "network.horovod_finds_an_interface_of_one_name": FIXED,
    "network.mpi_takes_no_bridge_of_every_machine": FIXED,
    "network.serving_stacks_take_the_training_address": FIXED,
    "rdma.libfabric_may_open_every_device": ELSEWHERE,
    "rdma.nccl_finds_the_module_of_gpu_memory": FIXED,
    "trust.programs_of_the_launch_are_there": ELSEWHERE,
    "ports.no_proxy_takes_every_connection": ELSEWHERE,
    "software.ray_that_runs_is_the_one_installed": FIXED,
    "files.there_is_room": UNKNOWN,
    "files.shared_files_are_seen_soon": ELSEWHERE,
    "files.shared_paths_take_writes_fast_enough": ELSEWHERE,
    "files.the_user_has_one_id_on_every_node": UNKNOWN,
    "files.network_file_systems_are_mounted_on_every_node": UNKNOWN,
    "gpu.adapters_are_as_near_on_every_node": HARDWARE,
    "gpu.gpus_reach_each_others_memory": HARDWARE,
    "gpu.none_is_reserved_for_others": ELSEWHERE,
    **{name: HARDWARE for name in checks() if name.startswith("vendor.")},
    "gpu.an_nvlink_domain_is_of_one_clique": HARDWARE,
    "gpu.firmware_is_the_same_on_every_node": HARDWARE,
    "gpu.none_broke_during_the_run": HARDWARE,
    "gpu.none_counted_pcie_errors_during_the_run": HARDWARE,
    "gpu.nvlinks_counted_no_errors_during_the_run": HARDWARE,
    "kernel.memory_is_the_same_on_every_node": HARDWARE,
    "kernel.log_tells_of_nothing_broken": HARDWARE,
    "kernel.no_process_was_killed_during_the_run": MEASURED,
    "network.hardware_addresses_are_unique": UNKNOWN,
    "network.peers_are_taken_for_their_own_cards": UNKNOWN,
    "network.training_interface_is_fast_enough_for_gpus": HARDWARE,
    "network.no_interface_counted_errors_during_the_run": HARDWARE,
    "network.training_addresses_are_unique": UNKNOWN,
    "network.training_interfaces_have_the_same_rate": HARDWARE,
    "rdma.ports_are_in_the_subnet_of_their_rail": HARDWARE,
    "rdma.plugin_of_nccl_is_there": ELSEWHERE,
    "rdma.infiniband_addresses_are_unique": HARDWARE,
    "rdma.infiniband_ports_have_a_subnet_manager": ELSEWHERE,
    "rdma.roce_ports_have_an_address": UNKNOWN,
    "rdma.ports_are_sound": ELSEWHERE,
    "rdma.adapters_ask_for_memory_alike_on_every_node": HARDWARE,
    "rdma.no_link_went_down_during_the_run": HARDWARE,
    "rdma.no_errors_were_counted_during_the_run": HARDWARE,
    "rdma.port_count_is_the_same_on_every_node": HARDWARE,
    "rdma.ports_have_the_same_rate": HARDWARE,
    "reach.every_node_answers": "a node that does not answer tells no facts",
}
# The facts know the value, and what changes it is no line for a shell of the node.
KNOWN_AND_NOT_TYPED = {
    "reach.no_machine_is_named_twice": "--hosts of the next run",
    "trust.python_is_found_over_ssh": "the file of the shell, or the interpreter's full path in the launch",
    "trust.start_files_print_nothing_over_ssh": "the file of the shell that prints",
    "trust.first_address_of_the_first_node_is_the_one_to_reach": "an option of deepspeed's own command line",
    "limits.nothing_else_is_limited": "ulimit in the line that starts the job, or files of the login",
    "environment.files_that_variables_name_exist": "a file that another node may have, or another path",
}


def mounted(run: FakeRun, *nodes: str) -> FakeRun:
    """The shared path is on a file server for some nodes only."""
    for name in run.names:
        mounts = (Mount("/data", "nfs4", "filer:/export/data", ""),) if name in nodes else ()
        run = run.broken(name, "files", mounts=mounts)
    return run


def port_off(run: FakeRun, node: str) -> FakeRun:
    """A port of RoCE whose interface somebody switched off."""
    return run.broken_rdma_port(node, state="DOWN").broken_interface(node, "rdma0", is_up=False)


# Where the rows of the checks' own tests plant a fault whose right value is not among the facts.
MORE = (
    Broken(
        "names.localhost_is_the_node_itself",
        healthy().broken("node3", "identity", localhost_addresses=()),
        ("node3",),
        "",
    ),
    Broken(
        "files.shared_paths_are_shared",
        mounted(
            files_have(roce(), "node3", "shared", trouble="this node sees another folder", writer="node1"),
            *("node1", "node2", "node4"),
        ),
        ("node3",),
        "",
    ),
    Broken(
        "files.the_checkpoint_folder_is_shared",
        mounted(checkpoint("node3"), *("node1", "node2", "node4")),
        ("node3",),
        "",
    ),
    Broken(
        "network.training_addresses_share_a_subnet",
        with_interface(
            roce().broken("node3", "environment", variables={}).with_variables("node3", NCCL_SOCKET_IFNAME="ens9"),
            *("node3", "ens9", "10.5.0.3"),
        ),
        ("node3",),
        "",
    ),
    Broken(
        "rdma.gid_index_exists_on_every_node",
        with_netdevs(roce()).with_variables("node2", NCCL_IB_GID_INDEX="7"),
        ("node2",),
        "",
    ),
    Broken("rdma.ports_are_active", port_off(with_netdevs(roce()), "node2"), ("node2",), ""),
    Broken(
        "rdma.active_mtu_is_the_same_on_every_node",
        with_netdevs(roce()).broken_rdma_port("node2", active_mtu=1024).broken_interface("node2", "rdma0", mtu=1500),
        ("node2",),
        "",
    ),
    Broken(
        "rdma.active_mtu_is_enough_for_device_initiated_traffic",
        with_netdevs(roce()).with_variables(NVSHMEM_IB_ENABLE_IBGDA="1").broken_rdma_port("node2", active_mtu=1024),
        ("node2",),
        "",
    ),
)


@cache
def rows() -> tuple[Broken, ...]:
    """Every broken cluster of the checks' own tests, and ours."""
    modules = [importlib.import_module(f"tests.checks.{path.stem}") for path in sorted(FOLDER.glob("test_*.py"))]
    return (*(row for module in modules for row in getattr(module, "BROKEN", ())), *MORE)


def commands_of(check: str, run: FakeRun) -> list[Command]:
    """What a check's findings say to type."""
    bad = (Verdict.FAIL, Verdict.WARN)
    return [command for finding in judge(check, run) if finding.verdict in bad for command in finding.commands]


def test_nine_of_ten_checks_that_blame_a_known_value_say_what_to_type():
    """Without a placeholder, for a cluster that is broken in this one thing; those that cannot are listed."""
    typed = {row.name: command for row in rows() for command in commands_of(row.name, as_root(row.run))}
    lacking = set(checks()) - set(typed)
    assert lacking <= set(WITHOUT) | set(KNOWN_AND_NOT_TYPED)
    assert set(KNOWN_AND_NOT_TYPED) <= lacking
    assert not {name for name in WITHOUT if name in typed and not name.startswith("bench.")}
    assert len(typed) / (len(typed) + len(KNOWN_AND_NOT_TYPED)) >= 0.9
    holes = {name: command.now for name, command in typed.items() if re.search(r"<[a-zA-Z ]+>|cuXYZ", command.now)}
    assert holes == {}


BEGINNINGS = (
    "eth",
    "ens",
    "node",
    "mlx5_",
    "/",
    "rdma",
    "0000:",
    "accelerate",
    "tqdm",
    "Simple",
    "nfs",
    "filer",
    "mgmt",
)


FIELDS = ("rdma_core", "rdma_driver", "node_type", "missing")


def poisoned(value: Any, words: str) -> Any:
    """Facts whose names, paths and values a node ends with these words."""
    if isinstance(value, dict):
        return {key if key in FIELDS else poisoned(key, words): poisoned(one, words) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [poisoned(one, words) for one in value]
    return f"{value}{words}" if isinstance(value, str) and value.startswith(BEGINNINGS) else value


def poison(run: FakeRun, words: str) -> FakeRun:
    """A run all of whose nodes do so."""
    subjects = {
        name: {
            subject: msgspec.convert(poisoned(msgspec.to_builtins(facts), words), type=type(facts), strict=True)
            for subject, facts in held.items()
        }
        for name, held in run.subjects.items()
    }
    return replace(run, subjects=subjects)


STUBS = (
    *("ip", "sudo", "tee", "cat", "sed", "basename", "modprobe", "nvidia-smi", "systemctl", "mount", "umount", "mkdir"),
    *(
        "findmnt",
        "rsync",
        "git",
        "sysctl",
        "setpci",
        "mlnx_qos",
        "chmod",
        "rm",
        "swapoff",
        "hostnamectl",
        "ssh-copy-id",
    ),
    *("ssh-keyscan", "ssh-keygen", "netplan", "nmcli", "networkctl", "grubby", "ss", "timedatectl", "chronyc"),
)


EVERY = "$(touch BROKEN_OUT)`touch BROKEN_OUT`' ; touch BROKEN_OUT ; '\" && touch BROKEN_OUT \" || touch BROKEN_OUT"
HOSTILE = {"semicolon": "; touch BROKEN_OUT #", "every": EVERY}
SSH = '#!/bin/sh\nshift\nexec /bin/sh -c "$*"\n'  # as sshd hands the words to the shell of the node


def told(words: str) -> list[Finding]:
    """What is found wrong with every broken cluster all of whose nodes speak so."""
    by_check = {row.name: row for row in rows() if row.name not in WITHOUT}
    runs = {
        row.name: poison(row.run, words).broken(row.run.names, "machine", network_manager="NetworkManager")
        for row in by_check.values()
    }
    return [
        finding
        for name, run in runs.items()
        for finding in judge(name, run)
        if finding.verdict in (Verdict.FAIL, Verdict.WARN)
    ]


def report_of(findings: list[Finding]) -> RunReport:
    """The report of a run over ssh with these findings."""
    names = dict.fromkeys(name for finding in findings for name in finding.nodes)
    return RunReport(
        finished=True,
        run=RunInfo(id="x", started="2030-01-02T03:04:05+00:00", seconds=1.0, command=("preflight",), version="0"),
        verdict=Verdict.FAIL,
        exit_code=1,
        nodes={name: NodeInfo(host=name, address="10.0.0.1", reached=True) for name in names},
        ledger=Counts(expected=1, judged=1, not_asked=0),
        findings=tuple(findings),
    )


@pytest.mark.parametrize("words", some_first(HOSTILE.values(), [EVERY]), ids=HOSTILE)
def test_no_word_of_a_node_becomes_a_command(tmp_path, words):
    """Every command of every broken cluster, with such names, is run by a shell that has stubs and `touch` only.

    On the node itself, and from the script of a report, which goes by way of ssh and a second shell.
    """
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in STUBS:
        (programs / name).symlink_to(shutil.which("true") or "/bin/true")
    (programs / "touch").symlink_to(shutil.which("touch") or "/bin/touch")
    (programs / "ssh").write_text(SSH)
    (programs / "ssh").chmod(0o755)
    findings = told(words)
    found = [command for finding in findings for command in finding.commands]
    texts = dict.fromkeys(text for command in found for text in (command.now, command.lasting) if text[:1] != "#")
    assert sum("BROKEN_OUT" in text for text in texts) >= 12
    (tmp_path / "all.sh").write_text("".join(f"( {text}\n)\n" for text in texts if text))
    shown = [
        replace(finding, commands=tuple(replace(command, is_tried=True) for command in finding.commands))
        for finding in findings
    ]
    by_ssh = script(report_of(shown))  # each as a line that runs, those too that are shown as comments
    assert sum("BROKEN_OUT" in line for line in by_ssh.splitlines() if line.startswith("ssh ")) >= 12
    (tmp_path / "by_ssh.sh").write_text(by_ssh)
    there = {"PATH": str(programs), "HOME": str(tmp_path)}
    for name in ("all.sh", "by_ssh.sh"):
        assert subprocess.run(["/bin/sh", "-n", name], cwd=tmp_path, check=False, timeout=60).returncode == 0
        subprocess.run(["/bin/sh", name], cwd=tmp_path, env=there, check=False, capture_output=True, timeout=120)
        assert not (tmp_path / "BROKEN_OUT").exists(), name


def test_a_line_of_a_nodes_own_makes_no_command():
    """Quoted it would still be a line in /etc/hosts, /etc/fstab or whatever the command writes to."""
    commands = [command for finding in told("\n10.9.9.9 node1\n") for command in finding.commands]
    assert commands
    assert all(f"{command.now}{command.lasting}".isprintable() for command in commands)
