"""Is the node that cannot log in to its peers named?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.subjects.trust import Trust
from preflight.job.collect.trust import called
from preflight.job.options.launch import with_files
from preflight.job.options.options import Options
from preflight.judge.ledger.findings import Verdict
from preflight.launch.read import read_files
from preflight.node.calls import trust
from preflight.testing import healthy, roce
from tests.checks.samples import Broken, judge, logs_in, with_interface

BROKEN = (
    Broken(
        "trust.every_node_logs_in_to_the_others",
        logs_in(roce(), "node1", peer="node1", trouble="Permission denied (publickey).", launchers=("colossalai",)),
        ("node1",),
        "cannot log in to itself (Permission denied (publickey).)",
    ),
    Broken(
        "trust.programs_of_the_launch_are_there",
        roce().broken("node1", "trust", programs={"pdsh": ""}),
        ("node1",),
        "the launch calls pdsh, which PATH does not have",
    ),
    Broken(
        "trust.every_node_logs_in_to_the_others",
        logs_in(roce(), "node1", peer="node2", trouble="Permission denied (publickey).", launchers=("mpirun",)),
        ("node1",),
        "cannot log in to node2 (Permission denied (publickey).)",
    ),
    Broken(
        "trust.python_is_found_over_ssh",
        logs_in(roce(), "node2", python=""),
        ("node2",),
        "the job's Python is not found on node1",
    ),
    Broken(
        "trust.start_files_print_nothing_over_ssh",
        logs_in(roce(), "node1", peer="node2", printed="Now using node v12"),
        ("node2",),
        "over ssh, node2 prints 'Now using node v12' before the output of a command",
    ),
    Broken(
        "trust.start_files_print_nothing_over_ssh",
        logs_in(roce(), "node1", peer="10.0.0.9", printed="Welcome"),
        ("node1",),
        "over ssh, 10.0.0.9 prints 'Welcome' before the output of a command",
    ),
    Broken(
        "trust.first_address_of_the_first_node_is_the_one_to_reach",
        with_interface(roce(), "node1", "virbr1", "192.168.121.122", first=True),
        ("node1",),
        "`hostname -I` on node1 begins with 192.168.121.122; its training interface has 10.0.0.1",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to fix it."""
    broken.assert_named()


def test_trust_is_not_judged_where_nobody_asked_for_it():
    """Most launchers log in from outside, or not at all."""
    assert {finding.verdict for finding in judge("trust.python_is_found_over_ssh", healthy())} == {Verdict.SKIP}


def test_what_start_files_print_is_judged_though_only_the_first_node_logs_in():
    """As among many nodes; one that could not tell is an error of its own, whatever the first one heard."""
    check = "trust.start_files_print_nothing_over_ssh"
    run = roce().without(("node2", "node3"), "trust", "only node1 logs in", "absent").without("node4", "trust")
    assert {(one.verdict, one.nodes) for one in judge(check, run)} == {
        (Verdict.PASS, ("node1",)),
        (Verdict.SKIP, ("node2", "node3")),
        (Verdict.ERROR, ("node4",)),
    }
    run = logs_in(run, "node1", peer="node2", printed="Welcome")
    assert ("node2",) in {one.nodes for one in judge(check, run) if one.verdict is Verdict.WARN}


@pytest.mark.parametrize(
    ("node", "peer", "launchers"),
    [("node2", "node1", ()), ("node1", "node2", ()), ("node1", "node1", ("mpirun",))],
)
def test_a_login_that_the_launch_does_without_is_a_warning(node, peer, launchers):
    """From another node than the first, where nothing logs in, and to the first itself, where mpirun starts anyway."""
    run = logs_in(roce(), node, peer=peer, trouble="Permission denied (publickey).", launchers=launchers)
    found = judge("trust.every_node_logs_in_to_the_others", run)
    assert {one.verdict for one in found if node in one.nodes} == {Verdict.WARN}


@pytest.mark.parametrize(
    ("line", "launchers"),
    [
        ("colossalai run --nproc_per_node 8 --hostfile hosts train.py", ["colossalai"]),
        ("deepspeed --hostfile=hosts train.py", ["pdsh"]),
        ("deepspeed --hostfile=hosts --launcher=slurm train.py", []),
        ("mpirun -np 16 --hostfile hosts python train.py", ["mpirun"]),
    ],
)
def test_what_logs_in_is_read_from_the_start(tmp_path, line, launchers):
    """By the command in the launch file."""
    (tmp_path / "hosts").write_text("node1 slots=8\nnode2 slots=8\n" if "colossal" not in line else "node1\nnode2\n")
    (tmp_path / "start.sh").write_text(f"{line}\n")
    read = read_files([str(tmp_path / "start.sh"), str(tmp_path / "hosts")])
    assert called(with_files(Options(), read, launcher=None))["launchers"] == launchers


HOSTFILE = "node1 slots=8\nnode2 slots=8\n"
START = "deepspeed --hostfile=hostfile {options} train.py\n"
PROGRAMS = "trust.programs_of_the_launch_are_there"


def started(tmp_path, options, *, has, deepspeed="0.14.0", variables=()):
    """What the first node reports where this command starts the job and its PATH has these programs."""
    (tmp_path / "bin").mkdir()
    for name in has:
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "hostfile").write_text(HOSTFILE)
    (tmp_path / "start.sh").write_text(START.format(options=options))
    read = with_files(Options(), read_files([str(tmp_path / "start.sh"), str(tmp_path / "hostfile")]), launcher=None)
    layers = [["--env", {"PATH": str(tmp_path / "bin"), **dict(variables)}]]
    asked = {**called(read), "environment": layers, "peers": [], "python": "python3", "seconds": 1.0}
    found = msgspec.convert(trust.run(asked, None), type=Trust)
    run = roce().broken("node1", "trust", programs=found.programs, unset=found.unset)
    return run.broken("node1", "software", packages={"deepspeed": deepspeed})


@pytest.mark.parametrize(
    ("options", "has", "words"),
    [
        ("", [], "the launch calls pdsh"),
        ("--launcher=openmpi", ["pdsh"], "the launch calls mpirun"),
        ("--ssh_port 20023", ["pdsh"], "deepspeed 0.14.0 with --ssh_port needs PDSH_SSH_ARGS_APPEND= set"),
    ],
)
def test_what_the_start_calls_is_looked_for(tmp_path, options, has, words):
    """By the command in the launch file, on the PATH of the job."""
    (told,) = [one for one in judge(PROGRAMS, started(tmp_path, options, has=has)) if one.verdict is Verdict.FAIL]
    assert told.nodes == ("node1",)
    assert words in told.message


@pytest.mark.parametrize(
    ("options", "has", "fields"),
    [
        ("", ["pdsh"], {}),
        ("--launcher=openmpi", ["mpirun"], {}),
        ("--ssh_port 20023", ["pdsh"], {"deepspeed": "0.14.1"}),
        # As the command in the finding sets it.
        ("--ssh_port 20023", ["pdsh"], {"variables": {"PDSH_SSH_ARGS_APPEND": ""}.items()}),
    ],
)
def test_what_is_there_is_well(tmp_path, options, has, fields):
    """The launcher that is asked for, and no other, and DeepSpeed that no longer takes the variable for set."""
    found = judge(PROGRAMS, started(tmp_path, options, has=has, **fields))
    assert {one.verdict for one in found if "node1" in one.nodes} == {Verdict.PASS}
