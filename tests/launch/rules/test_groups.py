"""Which starts of several files belong together: one job, a file for each node?"""

from __future__ import annotations

import pytest

from preflight.launch.read import read_texts
from preflight.launch.rules.groups import groups
from tests.launch.samples import config, exports, failed, torchrun


def c10d(identifier: str, address: str = "10.0.0.1") -> str:
    """A start whose rendezvous hands the ranks out."""
    return (
        f"torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_id={identifier}"
        f" --rdzv_endpoint={address}:29500 train.py\n"
    )


@pytest.mark.parametrize(
    "names", [("node0.sh", "node1.sh"), ("master.sh", "worker.sh"), ("a/run.sh", "b/run.sh"), ("x.sh", "y.sh")]
)
def test_as_many_files_as_nodes_are_one_job_whatever_they_are_called(names):
    """So the second rank 0 is seen."""
    assert failed({name: torchrun(0) for name in names}) == ["ranks_are_distinct"]


def test_more_files_than_nodes_are_parted_by_their_names():
    """Two jobs of two nodes each, with names that differ in a number or a role."""
    first = {f"a-node{rank}.sh": torchrun(rank) for rank in (0, 1)}
    second = {f"b-{role}.sh": torchrun(rank, address="10.0.9.1") for rank, role in enumerate(("master", "worker"))}
    assert failed({**first, **second}) == []
    assert failed({**first, **second, "b-worker.sh": torchrun(0, address="10.0.9.1")}) == ["ranks_are_distinct"]


def test_files_that_meet_at_one_address_are_one_job():
    """Though they are called differently, and another job's files lie beside them."""
    texts = {"red.sh": torchrun(0), "blue.sh": torchrun(0), "other.yaml": config(0, main_process_ip="10.9.9.9")}
    assert failed(texts) == ["ranks_are_distinct"]
    apart = {name: torchrun(0, address=f"10.0.{index}.1") for index, name in enumerate(("red.sh", "blue.sh", "x.sh"))}
    assert failed(apart) == []


def test_stages_of_the_same_files_are_jobs_one_after_the_other():
    """The first start of each file is one job, the second another."""
    right = {f"node{rank}.sh": torchrun(rank) + torchrun(rank, port=29600) for rank in (0, 1)}
    assert failed(right) == []
    wrong = {**right, "node1.sh": torchrun(1) + torchrun(0, port=29600)}
    assert failed(wrong) == ["ranks_are_distinct"]


def test_ranks_by_hand_are_one_job_over_all_files():
    """A file starts one process for each GPU, so the world size counts processes and not files."""
    texts = {
        f"n{node}.sh": "".join(exports(2 * node + local, size=4, local=local).replace("train.py", "train.py &")
        for local in (0, 1)) for node in (0, 1)
    }  # fmt: skip
    assert failed(texts) == []
    assert failed({**texts, "n1.sh": texts["n0.sh"]}) == ["ranks_are_distinct"]


def test_a_rendezvous_that_hands_out_ranks_needs_none():
    """Both files say nothing of a rank, and that is right; a number of the user's own is not compared."""
    assert failed({"n0.sh": c10d("j1"), "n1.sh": c10d("j1")}) == []
    numbered = c10d("j1").replace("--nnodes=2", "--nnodes=2 --node_rank=0")
    assert failed({"n0.sh": numbered, "n1.sh": numbered}) == []


def test_a_file_alone_is_judged_alone():
    """Its siblings may lie on the other nodes."""
    assert failed({"node1.yaml": config(1)}) == []


APART = (("--nnodes=2", "--nnodes=3"), ("29500", "29501"), ("10.0.0.1", "10.0.9.1"), ("train.py", "other.py"))


def changed(text: str, differences: int) -> str:
    """A start that differs from another in so much: in the port, and in what else there is."""
    for old, new in APART[1 : 1 + differences] if differences < len(APART) else APART:
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    ("names", "first", "second", "most"),
    [
        (("node0.sh", "node1.sh"), torchrun(0), torchrun(1), 3),
        (("red.sh", "blue.sh"), torchrun(0), torchrun(1), 2),
        (("node0.sh", "node1.sh"), torchrun(0), torchrun(0), 0),
        (("node0.sh", "node1.sh"), c10d("j"), c10d("j"), 1),
        (("node0.sh", "node1.sh"), exports(0), exports("$R"), 1),
    ],
)
def test_files_of_one_job_differ_in_little(names, first, second, most):
    """The more two files have in common beside that, the more they may differ in; in one more they are two jobs."""
    for differences in range(len(APART) + 1):
        files = read_texts(dict(zip(names, (first, changed(second, differences)), strict=True)))
        assert len(groups(files)) == (1 if differences <= most else 2), differences


def test_files_of_more_nodes_than_a_job_has_are_no_job_by_their_numbers_alone():
    """Where neither the names are alike nor an address is the same."""
    texts = {name: torchrun(rank, address=f"10.0.{rank}.1") for rank, name in enumerate(("red.sh", "blue.sh", "x.sh"))}
    assert len(groups(read_texts(texts))) == 3
    assert len(groups(read_texts({name: texts[name] for name in ("red.sh", "blue.sh")}))) == 1
