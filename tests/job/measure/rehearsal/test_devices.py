"""Is it told which ranks of a node are to use one device, or one that they do not see?"""

from __future__ import annotations

import pytest

from preflight.job.measure.rehearsal.devices import judged
from preflight.job.start.rehearsal.story import Loaded
from tests.job.measure.rehearsal.stories import TEXT, cast, node, rank, story

OF_SLURM = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")


def ranks(*each, names=("RANK", "WORLD_SIZE", "LOCAL_RANK"), on=("node1", "node1")):
    """What is said of two ranks: of each its LOCAL_RANK, its CUDA_VISIBLE_DEVICES and the devices that it sees."""
    made = []
    for number, (local, visible, devices) in enumerate(each):
        came = rank(number, on[number], names=names, variables={names[2]: local, "CUDA_VISIBLE_DEVICES": visible})
        came.loaded = Loaded("2.8.0", "/opt/torch", "12.4", "2.21", devices)
        made.append(came)
    nodes = [node(name, *(made[i] for i in range(2) if on[i] == name)) for name in dict.fromkeys(on)]
    return list(judged(story(*nodes), cast(TEXT.replace("cd /srv", "export CUDA_VISIBLE_DEVICES=0"))))


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        (("0", "", ("GPU-a", "GPU-b")), ("1", "", ("GPU-a", "GPU-b")), ("RANK", "WORLD_SIZE", "LOCAL_RANK")),
        (("0", "0", ("GPU-a",)), ("0", "1", ("GPU-b",)), ("RANK", "WORLD_SIZE", "LOCAL_RANK")),
        (("0", "0", ("GPU-a",)), ("1", "1", ("GPU-b",)), OF_SLURM),  # --gpus-per-task=1
        (("0", "", ()), ("1", "", ()), ("RANK", "WORLD_SIZE", "LOCAL_RANK")),
        (("0", "-1", ()), ("1", "-1", ()), ("RANK", "WORLD_SIZE", "LOCAL_RANK")),
    ],
    ids=["by number", "one for each", "one for each by Slurm", "no GPU", "none wanted"],
)
def test_a_device_for_each_rank_is_good(first, second, names):
    """However they were given."""
    assert ranks(first, second, names=names) == []


def test_the_same_device_on_two_nodes_is_good():
    """Each node has its own first GPU."""
    each = ("0", "0", ("GPU-a",))
    assert ranks(each, each, on=("node1", "node2")) == []


def test_two_ranks_that_see_the_same_device_are_named_with_the_line():
    """A variable of the script holds for all ranks of the node."""
    (cause,) = ranks(("0", "0", ("GPU-a",)), ("0", "0", ("GPU-a",)))
    assert cause.message == (
        "ranks 0, 1 on node1 are to use one device, GPU-a: rank 0: CUDA_VISIBLE_DEVICES=0 LOCAL_RANK=0, "
        "rank 1: CUDA_VISIBLE_DEVICES=0 LOCAL_RANK=0"
    )
    assert (cause.nodes, cause.where, cause.is_advisory) == (("node1",), (("run.sh", 2),), False)


def test_two_tasks_of_slurm_with_one_device_are_named():
    """Without --gpus-per-task each sees what the script set."""
    (cause,) = ranks(("0", "0", ("GPU-a",)), ("1", "0", ("GPU-a",)), names=OF_SLURM)
    assert cause.message.startswith("ranks 0, 1 on node1 are to use one device, GPU-a")


def test_a_rank_whose_device_is_not_there_is_named():
    """Two processes were started and one device is seen."""
    (cause,) = ranks(("0", "0", ("GPU-a",)), ("1", "0", ("GPU-a",)))
    assert cause.message == "rank 1 on node1 is to use device 1, and sees 1 (CUDA_VISIBLE_DEVICES=0)"


def test_where_no_gpu_is_seen_it_is_a_warning():
    """Nobody fights for a device there, and the file is wrong all the same."""
    (cause,) = ranks(("0", "0", ()), ("0", "0", ()))
    assert cause.is_advisory
