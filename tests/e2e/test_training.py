"""Real hosts: the reference training runs through each launcher, and a spoilt one is blamed on the right host."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from importlib.util import find_spec
from shutil import which

import pytest

from tests.e2e import thresholds
from tests.lab import faults
from tests.lab.reports import of_verdict, report_of, told
from tests.lab.spaces import LabError

NAN = """
import os
if "RANK" in os.environ:
    import torch
    ddp = torch.nn.parallel.DistributedDataParallel
    make = ddp.__init__
    def spoilt(self, *words, **named):
        make(self, *words, **named)
        next(self.module.parameters()).register_hook(lambda gradient: gradient * float("nan"))
    ddp.__init__ = spoilt
"""
OTHERS_SHARD = """
import os
if "RANK" in os.environ:
    from torch.utils import data
    class Repeated(data.DistributedSampler):
        def __init__(self, *words, rank, **named):
            super().__init__(*words, rank=0, **named)
    data.DistributedSampler = Repeated
"""
OTHER_SEED = """
import json, os
if "PREFLIGHT_SETTINGS" in os.environ:
    settings = json.loads(os.environ["PREFLIGHT_SETTINGS"])
    os.environ["PREFLIGHT_SETTINGS"] = json.dumps({**settings, "seed": 1})
"""
SAME_RANK = """
import os
if os.environ.get("RANK") == "1":
    os.environ["RANK"] = "0"
"""
KILLED = """
import os, signal
if os.environ.get("RANK") == "1" and "TORCHELASTIC_RUN_ID" not in os.environ:
    from torch.optim.optimizer import register_optimizer_step_pre_hook
    register_optimizer_step_pre_hook(lambda *_: os.kill(os.getpid(), signal.%s))
"""
# The checks before the job have seen everything in order: these two come with the ranks.
OTHER_INTERFACE = """
import os
if "RANK" in os.environ:
    os.environ["GLOO_SOCKET_IFNAME"] = "eth1"
"""
FIREWALL = """
import os, subprocess
if "RANK" in os.environ:
    subprocess.run(["/usr/sbin/nft", "-f", "-"], check=True, text=True, input='''
table inet late_firewall {
  chain output {
    type filter hook output priority 0; policy accept;
    oifname != "lo" tcp flags & (syn | ack) == syn tcp dport >= 1024 drop
  }
}
''')
"""
JOINED = "training.every_rank_joined_where_planned"
SHARDS = "training.data_shards_are_disjoint_and_complete"


@pytest.fixture(scope="module")
def lab(lab_is_possible):
    """Four hosts for all tests of this file; most need two."""
    from tests.lab.lab import Lab

    with Lab.create(4) as made:
        yield made


class Trained:
    """One finished `preflight train` against the lab."""

    def __init__(self, lab, folder, *words, hosts="node[1-2]"):
        if not any(word.startswith("--settings") for word in words):
            words = (*words, thresholds.for_busy_machine(folder))
        argv = [sys.executable, "-m", "preflight", "train", f"--hosts={hosts}", f"--python={sys.executable}"]
        done = lab.run([*argv, f"--report-dir={folder}", *words], timeout_s=200)
        self.output = done.stdout + done.stderr
        self.code = done.returncode
        self.folder = folder
        self.report = report_of(folder)
        self.training = self.report["training"]

    def of(self, verdict: str) -> list[tuple[str, tuple[str, ...]]]:
        return of_verdict(self.report, verdict)

    def told(self) -> str:
        return told(self.report, self.output)


def passed(run, launcher, nodes):
    """Exit 0, a rank where each was planned, losses that fall, and a log of every rank."""
    assert run.code == 0, run.told()
    assert run.training["launcher"] == launcher
    assert [rank["node"] for rank in run.training["ranks"]] == nodes
    assert run.training["losses"][-1] < 0.8 * run.training["losses"][0]
    assert run.training["scaling_efficiency"] > 0
    logs = {path.name for path in (run.folder / "logs").iterdir()}
    assert {f"training-rank{rank}-{node}.log" for rank, node in enumerate(nodes)} <= logs


@pytest.mark.parametrize(
    ("launcher", "count"),
    [
        ("direct", 2),
        ("torchrun", 2),
        ("env", 4),
        pytest.param(
            "mpirun", 2, marks=pytest.mark.skipif(not which("mpirun"), reason="needs Debian's openmpi-bin, or mpich")
        ),
        pytest.param("ray", 2, marks=pytest.mark.skipif(not find_spec("ray"), reason="Ray is not installed here")),
    ],
)
def test_the_job_passes_through_each_launcher(lab, tmp_path, launcher, count):
    """Real agents on all hosts, losses that fall, a log for each rank, and nothing left."""
    before = lab.residue()
    run = Trained(lab, tmp_path / "report", f"--launcher={launcher}", hosts=f"node[1-{count}]")

    passed(run, launcher, [f"node{number + 1}" for number in range(count)])
    assert lab.left_since(before) == {}


def test_the_job_passes_through_accelerate(lab, tmp_path):
    """One YAML a machine and two ranks each: four ranks on two hosts see a world of four, and nothing is left."""
    before = lab.residue()
    run = Trained(lab, tmp_path / "report", "--launcher=accelerate", "--ranks-per-node=2")

    passed(run, "accelerate", ["node1", "node1", "node2", "node2"])
    assert lab.left_since(before) == {}


@pytest.mark.skipif(not find_spec("deepspeed"), reason="DeepSpeed is not installed here")
def test_deepspeed_learns_in_shards_what_others_learn(lab, tmp_path):
    """ZeRO-2 under torchrun, on processors: the same losses as ranks that hold everything, and nothing left."""
    before = lab.residue()
    whole = Trained(lab, tmp_path / "whole")
    shards = Trained(lab, tmp_path / "shards", "--launcher=deepspeed")

    assert shards.code == 0, shards.told()
    assert shards.training["strategy"] == "zero2"
    assert shards.training["losses"] == pytest.approx(whole.training["losses"], rel=1e-4)
    assert lab.left_since(before) == {}


def test_a_checkpoint_is_read_by_all_and_a_killed_job_starts_again(lab, tmp_path):
    """With a shared folder and a drill: resumed and restarted losses are those of the run that nothing befell."""
    shared = lab.shared / tmp_path.name
    shared.mkdir()
    run = Trained(lab, tmp_path / "report", f"--checkpoint-dir={shared}", "--drill")

    assert run.code == 0, run.told()
    assert [rank["resume_error"] for rank in run.training["ranks"]] == [0.0, 0.0]
    assert run.training["drill"]["named"] == ["node2"]
    assert run.training["drill"]["restarted_losses"] == run.training["losses"][6:]
    assert list(shared.iterdir()) == []


def hide(host, folder):
    """Something else lies at this path: an empty folder of the host's own."""
    host.check(["mount", "-t", "tmpfs", "none", str(folder)])
    return faults.Planted(lambda: host.check(["umount", str(folder)]) and None)


# fault -> (the program that every Python of node2 runs at its start, the check that must fail)
FAULTS = {
    "nan": (NAN, "training.gradients_are_finite"),
    "shard": (OTHERS_SHARD, SHARDS),
    "killed": (KILLED % "SIGKILL", JOINED),
    "stopped": (KILLED % "SIGSTOP", JOINED),
    "same rank": (SAME_RANK, JOINED),
}


def other_interface(host):
    """Its ranks listen on a network that the others do not have."""
    with ExitStack() as planted:
        planted.enter_context(faults.add_interface(host, "eth1", "10.70.0.2/24"))
        planted.enter_context(faults.python_site(host, OTHER_INTERFACE))
        return faults.Planted(planted.pop_all().close)


def firewall(host):
    """It closes high ports when the job starts, and not before."""
    with ExitStack() as planted:
        planted.callback(host.check, ["nft", "delete", "table", "inet", "late_firewall"])
        planted.enter_context(faults.python_site(host, FIREWALL))
        return faults.Planted(planted.pop_all().close)


# fault -> (how it is planted on node2 of three, the check that must fail)
FAULTS_OF_HOSTS = {
    "wrong interface": (other_interface, JOINED),
    "port filtered": (firewall, JOINED),
    "slow": (lambda host: faults.cpu_quota(host, 10), "training.no_rank_halves_the_speed"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_spoilt_rank_is_the_only_fail(lab, tmp_path, fault):
    """Exit 1, one failed check, on node2 alone; the rest of the training is blocked by it."""
    program, check = FAULTS[fault]
    with faults.python_site(lab["node2"], program):
        run = Trained(lab, tmp_path / "report")

    assert run.code == 1, run.told()
    assert run.of("fail") == [(check, ("node2",))], run.told()
    errors = [f for f in run.report["findings"] if f["verdict"] == "error"]
    assert all(f["message"].startswith("blocked by") for f in errors), run.told()


@pytest.mark.parametrize("fault", FAULTS_OF_HOSTS)
def test_a_host_that_spoils_the_job_is_the_only_fail(lab, tmp_path, fault):
    """What no look at the host shows before the job starts is told by the job, with a cause and a fix."""
    plant, check = FAULTS_OF_HOSTS[fault]
    try:
        planted = plant(lab["node2"])
    except LabError as error:
        pytest.skip(str(error))
    with planted:
        report = tmp_path / "report"
        words = [thresholds.defaults(report)] if fault == "slow" else []
        run = Trained(lab, report, *words, hosts="node[1-3]")

    assert run.code == 1, run.told()
    assert run.of("fail") == [(check, ("node2",))], run.told()
    (finding,) = [f for f in run.report["findings"] if f["verdict"] == "fail"]
    assert finding["fix"], run.told()


def test_an_absent_host_is_named_and_the_job_is_not_started(lab, tmp_path):
    """Exit 3: nothing was measured, for a reason that has a name."""
    run = Trained(lab, tmp_path / "report", hosts="node[1-2],10.77.255.250")

    assert run.code == 3, run.told()
    assert run.of("fail") == [], run.told()
    assert ("reach.every_node_answers", ("10.77.255.250",)) in run.of("error"), run.told()
    told = [f["message"] for f in run.report["findings"] if f["check"] == JOINED]
    assert "not started: reach.every_node_answers on 10.77.255.250" in told, run.told()


def test_a_seed_that_differs_is_told_by_its_shards(lab, tmp_path):
    """Of two seeds rank 0's counts: the other host deals its ranks other samples."""
    with faults.python_site(lab["node2"], OTHER_SEED):
        run = Trained(lab, tmp_path / "report")

    assert run.of("fail") == [(SHARDS, ("node2",))], run.told()


def test_a_folder_that_is_not_shared_is_named(lab, tmp_path):
    """The host whose path is another file system finds no checkpoint there."""
    shared = lab.shared / tmp_path.name
    shared.mkdir()
    with hide(lab["node2"], shared):
        run = Trained(lab, tmp_path / "report", f"--checkpoint-dir={shared}")

    assert run.of("fail") == [("training.checkpoint_is_read_by_every_rank", ("node2",))], run.told()
