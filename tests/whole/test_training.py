"""Two real hosts: the reference training runs through each launcher, and a spoilt one is blamed on the right host."""

from __future__ import annotations

import json
import sys

import pytest

from tests.lab import faults

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
JOINED = "training.every_rank_joined_where_planned"
SHARDS = "training.data_shards_are_disjoint_and_complete"


@pytest.fixture(scope="module")
def lab2(lab_is_possible):
    """Two hosts for all tests of this file."""
    from tests.lab.lab import Lab

    with Lab.create(2) as lab:
        yield lab


class Trained:
    """One finished `preflight train` against the lab."""

    def __init__(self, lab, folder, *words):
        argv = [sys.executable, "-m", "preflight", "train", "--hosts=node[1-2]", f"--python={sys.executable}"]
        done = lab.run([*argv, f"--report-dir={folder}", *words], timeout_s=200)
        self.output = done.stdout + done.stderr
        self.code = done.returncode
        self.folder = folder
        self.report = json.loads((folder / "report.json").read_text())
        self.training = self.report["training"]

    def of(self, verdict: str) -> list[tuple[str, tuple[str, ...]]]:
        return [(f["check"], tuple(f["nodes"])) for f in self.report["findings"] if f["verdict"] == verdict]

    def told(self) -> str:
        lines = [f"{f['verdict']} {f['check']} {f['nodes']} {f['message']}" for f in self.report["findings"]]
        return "\n".join([self.output, *(line for line in lines if not line.startswith(("pass", "skip")))])


@pytest.mark.parametrize("launcher", ["direct", "torchrun", "accelerate", "env"])
def test_the_job_passes_through_each_launcher(lab2, tmp_path, launcher):
    """Real agents on both hosts, the same losses through all of them, a log for each rank, and nothing left."""
    before = lab2.residue()
    run = Trained(lab2, tmp_path / "report", f"--launcher={launcher}")

    assert run.code == 0, run.told()
    assert run.training["launcher"] == launcher
    assert [(rank["rank"], rank["node"]) for rank in run.training["ranks"]] == [(0, "node1"), (1, "node2")]
    assert run.training["losses"][-1] < 0.8 * run.training["losses"][0]
    assert 0 < run.training["scaling_efficiency"] < 1.5
    logs = {path.name for path in (tmp_path / "report" / "logs").iterdir()}
    assert {"training-rank0-node1.log", "training-rank1-node2.log"} <= logs
    assert lab2.left_since(before) == {}


def test_accelerate_is_one_yaml_a_machine_and_two_ranks_each(lab2, tmp_path):
    """Four ranks on two hosts see a world of four through accelerate too."""
    run = Trained(lab2, tmp_path / "report", "--launcher=accelerate", "--ranks-per-node=2")

    assert run.code == 0, run.told()
    assert [rank["node"] for rank in run.training["ranks"]] == ["node1", "node1", "node2", "node2"]


def test_a_checkpoint_is_read_by_all_and_a_killed_job_starts_again(lab2, tmp_path):
    """With a shared folder and a drill: resumed and restarted losses are those of the run that nothing befell."""
    shared = lab2.shared / tmp_path.name
    shared.mkdir()
    run = Trained(lab2, tmp_path / "report", f"--checkpoint-dir={shared}", "--drill")

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


@pytest.mark.parametrize("fault", FAULTS)
def test_a_spoilt_rank_is_the_only_fail(lab2, tmp_path, fault):
    """Exit 1, one failed check, on node2 alone; the rest of the training is blocked by it."""
    program, check = FAULTS[fault]
    with faults.python_site(lab2["node2"], program):
        run = Trained(lab2, tmp_path / "report")

    assert run.code == 1, run.told()
    assert run.of("fail") == [(check, ("node2",))], run.told()
    errors = [f for f in run.report["findings"] if f["verdict"] == "error"]
    assert all(f["message"].startswith("blocked by") for f in errors), run.told()


def test_a_seed_that_differs_is_told_by_its_shards(lab2, tmp_path):
    """Of two seeds rank 0's counts: the other host deals its ranks other samples."""
    with faults.python_site(lab2["node2"], OTHER_SEED):
        run = Trained(lab2, tmp_path / "report")

    assert run.of("fail") == [(SHARDS, ("node2",))], run.told()


def test_a_folder_that_is_not_shared_is_named(lab2, tmp_path):
    """The host whose path is another file system finds no checkpoint there."""
    shared = lab2.shared / tmp_path.name
    shared.mkdir()
    with hide(lab2["node2"], shared):
        run = Trained(lab2, tmp_path / "report", f"--checkpoint-dir={shared}")

    assert run.of("fail") == [("training.checkpoint_is_read_by_every_rank", ("node2",))], run.told()
