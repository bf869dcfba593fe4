"""Three real hosts over ssh: a healthy cluster passes, and each planted fault is the only fail, on the right host."""

from __future__ import annotations

import sys
from contextlib import ExitStack

import pytest

from tests.e2e import thresholds
from tests.lab import faults, rdma
from tests.lab.reports import of_verdict, report_of, told

GRADIENT_BEFORE = """
import os
if "RANK" in os.environ:
    import torch
    ddp = torch.nn.parallel.DistributedDataParallel
    make = ddp.__init__
    def spoilt(self, *words, **named):
        make(self, *words, **named)
        next(self.module.parameters()).register_hook(lambda gradient: gradient * 1.5)
    ddp.__init__ = spoilt
"""
GRADIENT_AFTER = """
import os
if "RANK" in os.environ:
    from torch.optim.optimizer import register_optimizer_step_pre_hook
    def spoil(optimizer, *_):
        optimizer.param_groups[0]["params"][0].grad.mul_(1.5)
    register_optimizer_step_pre_hook(spoil)
"""
NO_BENCH = ("-k", "not test_bench.py")  # nothing spoilt here is in what it runs
NO_MEMLOCK = "[limits]\nmemlock_min_bytes = 65536\n"


class Judged:
    """One finished run against the lab, with the thresholds of a busy machine where the test has none of its own."""

    def __init__(self, lab, folder, *words, hosts="node[1-3]"):
        if not any(word.startswith("--settings") for word in words):
            words = (*words, thresholds.for_busy_machine(folder))
        argv = [sys.executable, "-m", "pytest", f"--hosts={hosts}", f"--python={sys.executable}", "--color=no"]
        argv += ["-p", "no:hypothesispytest"]  # it costs each of these runs a second, and none uses it
        done = lab.run([*argv, f"--report-dir={folder}", *words], timeout_s=200)
        self.output = done.stdout + done.stderr
        self.code = done.returncode
        self.report = report_of(folder)

    def of(self, verdict: str) -> list[tuple[str, tuple[str, ...]]]:
        return of_verdict(self.report, verdict)

    def finding(self, check: str, verdict: str) -> dict:
        return next(f for f in self.report["findings"] if (f["check"], f["verdict"]) == (check, verdict))

    def told(self) -> str:
        return told(self.report, self.output)


@pytest.mark.exclusive  # a busy machine makes stragglers
def test_a_healthy_cluster_passes(lab3, tmp_path):
    """Three hosts on 1 Gbit links: exit 0, nothing failed, warned or left unmeasured, and nothing left behind."""
    before = lab3.residue()
    run = Judged(lab3, tmp_path / "report", thresholds.defaults(tmp_path / "report"))

    assert run.code == 0, run.told()
    assert run.of("fail") + run.of("warn") + run.of("error") == [], run.told()
    assert run.report["verdict"] == "pass"
    assert run.report["mesh"]["ok"] == run.report["mesh"]["edges"] == 6
    assert run.report["bench"]["world_size"] == run.report["training"]["world_size"] == 3
    assert sorted(path.name for path in (tmp_path / "report" / "facts").iterdir()) == [
        "node1.json",
        "node2.json",
        "node3.json",
    ]
    assert lab3.left_since(before) == {}


def slow_link(host):
    host.shape(egress="200mbit", ingress="200mbit")
    return faults.Planted(lambda: host.shape(egress="1gbit", ingress="1gbit"))


# fault -> (how it is planted on the host, words of the command line, the check that must fail)
FAULTS = {
    "hostname": (
        lambda host: faults.hostname_resolves_to(host, "127.0.1.1"),
        (),
        "names.own_hostname_is_not_loopback",
    ),
    "firewall": (
        faults.drop_incoming_high_ports,
        (),
        "mesh.every_node_reaches_every_other_on_random_ports",
    ),
    "torch": (lambda host: faults.torch_version(host, "2.12.0"), (), "software.versions_are_the_same_on_every_node"),
    "slow link": (slow_link, (), "bench.no_node_is_slower_than_its_peers"),
    "gradient before": (
        lambda host: faults.python_site(host, GRADIENT_BEFORE),
        NO_BENCH,
        "training.first_step_gradients_are_right",
    ),
    "gradient after": (
        lambda host: faults.python_site(host, GRADIENT_AFTER),
        NO_BENCH,
        "training.parameters_are_the_same_on_every_rank",
    ),
}


def the_only_fail(run: Judged, check: str, node: str) -> None:
    the_only_fails(run, {check: node})


def the_only_fails(run: Judged, wanted: dict[str, str]) -> None:
    assert run.code == 1, run.told()
    assert dict(run.of("fail")) == {check: (node,) for check, node in wanted.items()}, run.told()
    assert len(run.of("fail")) == len(wanted), run.told()
    assert all(run.finding(check, "fail")["fix"] for check in wanted), run.told()
    for finding in run.report["findings"]:
        if finding["verdict"] == "error":
            assert finding["message"].startswith(("blocked by", "not started", "not measured")), run.told()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_on_one_host_is_the_only_fail(lab3, tmp_path, fault):
    """Exit 1, one failed check, exactly the host it was planted on, and a fix."""
    plant, words, check = FAULTS[fault]
    with plant(lab3["node3"]):
        run = Judged(lab3, tmp_path / "report", *words)

    the_only_fail(run, check, "node3")


def test_pruning_measures_the_good_hosts_and_stays_a_fail(lab3, tmp_path):
    """Bandwidth and training ran on the two others, the report says so, and the exit code is still 1."""
    with faults.mtu(lab3["node3"], 1400):
        run = Judged(lab3, tmp_path / "report", "--prune")

    the_only_fail(run, "network.mtu_is_the_same_on_every_node", "node3")
    assert run.report["bench"]["nodes"] == run.report["training"]["world_size"] == 2
    assert run.finding("training.the_loss_falls", "pass")["nodes"] == ["node1", "node2"]
    assert run.finding("training.the_loss_falls", "error")["message"].startswith("not started: pruned for network.mtu")
    assert any("node3 left out; later jobs ran on node[1-2]" in note for note in run.report["notes"])


def test_an_interface_only_the_others_have_is_named(lab3, tmp_path):
    """NCCL_SOCKET_IFNAME that matches nothing on one host fails there, before any hang."""
    with ExitStack() as planted:
        for number, name in enumerate(("node1", "node2"), start=1):
            planted.enter_context(faults.add_interface(lab3[name], "eth1", f"10.78.0.{number}/24"))
        run = Judged(lab3, tmp_path / "report", "--env", "NCCL_SOCKET_IFNAME=eth1")

    the_only_fail(run, "network.interface_variables_match_an_interface", "node3")


def test_a_held_master_port_is_named_with_its_holder(lab3, tmp_path):
    """MASTER_PORT taken on rank 0's node fails there and nowhere else."""
    words = ("--env", f"MASTER_ADDR={lab3['node1'].address}", "--env", "MASTER_PORT=29500")
    with faults.hold_port(lab3["node1"], 29500):
        run = Judged(lab3, tmp_path / "report", *words)

    the_only_fail(run, "master.port_is_free_on_the_first_node", "node1")
    assert "29500" in run.finding("master.port_is_free_on_the_first_node", "fail")["message"]


def test_faults_that_keep_no_job_from_running_are_the_only_fails(lab3, tmp_path):
    """An MTU of one host, and index 3 empty on another of three RoCE hosts: both are named, and the jobs have run."""
    settings = tmp_path / "preflight.toml"
    settings.write_text(NO_MEMLOCK + thresholds.BUSY)
    with ExitStack() as planted:
        for name in ("node1", "node2", "node3"):
            missing = {3} if name == "node2" else set()
            planted.enter_context(faults.rdma_tree(lab3[name], [rdma.RdmaDevice()], missing_gids=missing))
        planted.enter_context(faults.mtu(lab3["node3"], 1400))
        run = Judged(lab3, tmp_path / "report", "--env", "NCCL_IB_GID_INDEX=3", f"--settings={settings}")

    the_only_fails(
        run,
        {"network.mtu_is_the_same_on_every_node": "node3", "rdma.gid_index_exists_on_every_node": "node2"},
    )
    assert run.finding("bench.all_reduce_is_correct", "pass")["nodes"] == ["node1", "node2", "node3"]
    assert run.finding("training.the_loss_falls", "pass")["nodes"] == ["node1", "node2", "node3"]


def test_an_unreachable_host_is_an_error_and_the_others_are_judged(lab3, tmp_path):
    """Exit 3, the host as error, the rest of the facts judged."""
    run = Judged(lab3, tmp_path / "report", hosts="node[1-2],10.77.255.250")

    assert run.code == 3, run.told()
    assert run.of("fail") == []
    assert ("reach.every_node_answers", ("10.77.255.250",)) in run.of("error")
    assert ("network.mtu_is_the_same_on_every_node", ("node1", "node2")) in run.of("pass")
    assert run.report["nodes"]["10.77.255.250"]["reached"] is False


def test_of_more_hosts_than_needed_the_good_ones_are_chosen(lab3, tmp_path):
    """The verdict is that of the two chosen; the third is told with its fault, and two files name the chosen."""
    folder = tmp_path / "report"
    with faults.mtu(lab3["node1"], 1400):
        run = Judged(lab3, folder, "--need=2", "--preflight-profile=quick")
        too_few = Judged(lab3, folder, "--need=3", "--preflight-profile=quick")
    assert (run.code, run.report["verdict"]) == (0, "pass"), run.told()
    assert run.report["choice"]["nodes"] == ["node2", "node3"]
    assert run.report["choice"]["left_out"]["node1"].startswith("fail network.mtu_is_the_same_on_every_node: mtu")
    assert "GO  on 2 of 3 nodes, node[2-3]" in run.output
    assert (too_few.code, "2 nodes good, 3 needed" in too_few.output) == (1, True), too_few.told()
    assert not (folder / "nodes-chosen.txt").exists()
