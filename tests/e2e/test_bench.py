"""A rank that dies, hangs or delivers a wrong element in mid-benchmark is named with its node, and in time."""

from __future__ import annotations

import json
import sys
import time

import pytest

from tests import patience
from tests.lab import faults

# Acts on the tenth whole-buffer sum of that rank, when the measurement is under way.
SPOIL = """
import os
if "PREFLIGHT_RECORDS" in os.environ:
    import signal
    import torch.distributed as dist
    whole, calls = dist.all_reduce, []
    def all_reduce(tensor, *words, **named):
        calls.append(tensor.numel() > 100000)
        done = whole(tensor, *words, **named)
        if calls[-1] and sum(calls) == 10:
            {act}
        return done
    dist.all_reduce = all_reduce
"""
ACTS = {
    "killed": 'print("out of luck", flush=True); os.kill(os.getpid(), signal.SIGKILL)',
    "stopped": "os.kill(os.getpid(), signal.SIGSTOP)",
    "spoilt": "tensor[4321] += 1",
}
PATIENCE_SECONDS = 60  # 30 until the others give up on a silent rank, and what starting and ending take


@pytest.fixture(scope="module")
def judged(lab3, tmp_path_factory):
    """The report and the seconds of a benchmark over three hosts, of which node2's rank is spoilt."""

    def run(act):
        folder = tmp_path_factory.mktemp("report")
        words = [f"--hosts={lab3.names}", f"--python={sys.executable}", f"--report-dir={folder}", "-b", "1M"]
        before, began = lab3.residue(), time.monotonic()
        with faults.python_site(lab3["node2"], SPOIL.format(act=ACTS[act])):
            done = lab3.run([sys.executable, "-m", "preflight", "bench", *words, "--iters", "20"], timeout_s=150)
        seconds = time.monotonic() - began
        assert lab3.left_since(before) == {}
        return json.loads((folder / "report.json").read_text()), seconds, done

    return run


@pytest.mark.parametrize(("act", "words"), [("killed", ("ended with -9", "out of luck")), ("stopped", ())])
def test_a_rank_that_ends_or_hangs_is_named_with_its_node(judged, act, words):
    """Not measured, exit 3, the rank and its node and nobody else, its last line, and nothing is left there."""
    report, seconds, done = judged(act)

    assert done.returncode == 3, done.stdout + done.stderr
    assert report["bench"]["not_measured_nodes"] == ["node2"]
    assert report["bench"]["not_measured"].startswith("rank 1 on node2 stopped at stage running")
    assert all(word in report["bench"]["not_measured"] for word in words)
    assert seconds < PATIENCE_SECONDS * patience.of_this_machine()


@pytest.mark.parametrize(
    ("scope", "groups"),
    [("intra", {"node1", "node2"}), ("inter", {"one rank a node"}), ("rails", {"rail 0", "rail 1"})],
)
def test_groups_of_ranks_are_told_apart(make_lab, tmp_path, scope, groups):
    """Two ranks a node: each scope has results of its own groups, right, and every device has its figures."""
    lab = make_lab(hosts=2)
    words = [f"--hosts={lab.names}", f"--python={sys.executable}", f"--report-dir={tmp_path}", "-b", "1M"]
    more = ["--iters", "6", "--ranks-per-node=2", f"--scope={scope}", *(["--burn-in"] if scope == "inter" else [])]
    done = lab.run([sys.executable, "-m", "preflight", "bench", *words, *more], timeout_s=150)
    bench = json.loads((tmp_path / "report.json").read_text())["bench"]

    assert done.returncode == 0, done.stdout + done.stderr
    assert {result["group"] for result in bench["results"]} == groups
    assert {(result["ranks"], result["wrong"]) for result in bench["results"]} == {(2, 0)}
    assert len(bench["devices"]) == (4 if scope == "inter" else 0)


def test_a_wrong_element_is_counted_and_fails(judged):
    """One element, on rank 1: exit 1, one failed check, node2."""
    report, _, done = judged("spoilt")

    (result,) = report["bench"]["results"]
    failed = [(f["check"], f["nodes"]) for f in report["findings"] if f["verdict"] == "fail"]
    assert (result["wrong"], result["wrong_ranks"]) == (1, [1])
    assert failed == [("bench.all_reduce_is_correct", ["node2"])], done.stdout
    assert done.returncode == 1
