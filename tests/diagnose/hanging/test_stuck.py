"""Is the rank named that holds the others up?"""

from __future__ import annotations

import pytest

from preflight.diagnose.hanging.live import Process, Seen, Socket
from preflight.diagnose.hanging.stuck import compare, doing
from preflight.facts.value import Missing

IN_TORCH = "all_reduce (/env/site-packages/torch/distributed/distributed_c10d.py:3252)"
STEP, LOADER = "step (/job/train.py:40)", "next_batch (/job/data.py:7)"


def rank(number: int, *frames: str, state: str = "S", cpu: float = 0.0, world: int = 3, **others) -> Process:
    """A rank whose frames are these."""
    given = {
        "pid": 100 + number,
        "threads": 4,
        "command": "python train.py",
        "local_rank": number,
        "wchan": "futex_wait",
        "kernel_stack": (),
        "frames": frames or Missing("py-spy is not installed", "absent"),
        "sockets": (Socket("10.0.0.2:2000", "established", 9, 0),),
        "gpu_memory_mib": 0,
        **others,
    }
    return Process(state=state, rank=number, world_size=world, cpu=cpu, **given)


def test_a_rank_that_is_not_in_the_collective_is_named():
    """With the line of the program that it is at."""
    stuck = compare({"a": (rank(0, IN_TORCH, STEP), rank(1, LOADER, STEP)), "b": (rank(2, IN_TORCH, STEP),)})
    assert [one.name for one in stuck.guilty] == ["rank 1 on a"]
    assert stuck.guilty[0].at == "/job/data.py:7"
    assert "wait in all_reduce" in stuck.verdict


def test_a_stopped_rank_is_named_before_anything_else():
    """So is one that hangs in the kernel, with where."""
    others = (rank(1, IN_TORCH), rank(2, IN_TORCH))
    assert compare({"a": (rank(0, state="T"), *others)}).guilty[0].what == "stopped by a signal"
    assert "nfs_wait" in compare({"a": (rank(0, state="D", wchan="nfs_wait"), *others)}).guilty[0].what


def test_a_rank_that_runs_computes_however_little_its_node_leaves_to_it():
    """It waits for nothing but a core."""
    assert doing("a", rank(0, LOADER, state="R", cpu=0.1)).what.startswith("computes outside of any collective")
    assert doing("a", rank(0, LOADER, cpu=0.1)).what.startswith("waits outside of any collective")


def test_a_rank_without_a_process_is_missing():
    """By the number of ranks that the others were told."""
    stuck = compare({"a": (rank(0, IN_TORCH), rank(1, IN_TORCH))})
    assert stuck.missing == (2,)
    assert stuck.verdict.startswith("rank 2 has no process")


def test_ranks_that_do_not_know_how_many_there_are_leave_it_to_those_that_do():
    """Most of them say nothing; rank 2 is missing all the same."""
    others = (rank(0, IN_TORCH, world=0), rank(1, IN_TORCH, world=0), rank(3, IN_TORCH, world=4))
    assert compare({"a": others}).missing == (2,)


def test_another_collective_differs_too():
    """Calls in another order: the minority is named."""
    barrier = "barrier (/env/site-packages/torch/distributed/distributed_c10d.py:4000)"
    stuck = compare({"a": (rank(0, IN_TORCH, STEP), rank(1, barrier, STEP), rank(2, IN_TORCH, STEP))})
    assert [one.process.rank for one in stuck.guilty] == [1]


def test_all_in_the_same_call_blames_no_rank():
    """Then it is the network, or a GPU."""
    stuck = compare({"a": tuple(rank(number, IN_TORCH, STEP) for number in range(3))})
    assert stuck.guilty == ()
    assert stuck.verdict == "all ranks wait in the same call: the network between them, or a GPU, lost it"


def test_ranks_that_work_in_the_same_call_may_be_slow():
    """A job that does little else is always there; so is one whose library asks without end for what was lost."""
    stuck = compare({"a": tuple(rank(number, IN_TORCH, STEP, cpu=0.04) for number in range(3))})
    assert stuck.guilty == ()
    assert "some work in it: the job is slow there, or" in stuck.verdict


def test_two_of_two_that_differ_are_no_majority():
    """It is not guessed which is right."""
    stuck = compare({"a": (rank(0, LOADER, world=2), rank(1, STEP, world=2))})
    assert stuck.guilty == ()
    assert "no majority" in stuck.verdict


def test_without_stacks_state_and_cpu_tell():
    """A rank that computes among others that sleep."""
    stuck = compare({"a": (rank(0), rank(1, cpu=1.0), rank(2))})
    assert [one.process.rank for one in stuck.guilty] == [1]
    assert doing("a", rank(0)).what == "sleeps in futex_wait"


def test_nothing_found_is_no_verdict_of_a_rank():
    """No group, nobody guilty."""
    stuck = compare({"a": ()})
    assert (stuck.groups, stuck.guilty) == ((), ())


def seen(*frames: str, state: str = "S", wchan: str = "futex_wait") -> Seen:
    """A rank at an earlier look."""
    return Seen(state, wchan, frames or Missing("py-spy is not installed", "absent"))


def test_a_job_that_goes_on_blames_no_rank():
    """One that has left a collective since the first look shows it, whoever is late at the last."""
    moved = rank(0, IN_TORCH, STEP, earlier=(seen(IN_TORCH, STEP), seen(STEP), seen(IN_TORCH, STEP)))
    stuck = compare({"a": (moved, rank(1, LOADER, STEP)), "b": (rank(2, IN_TORCH, STEP),)})
    assert stuck.guilty == ()
    assert stuck.verdict == "the job goes on: rank 0 on a left all_reduce at /job/train.py:40 while it was looked at"
    backward = rank(0, STEP, earlier=(seen(LOADER, STEP),))
    stuck = compare({"a": (backward, rank(1, LOADER)), "b": (rank(2, STEP, earlier=(seen(LOADER),)),)})
    assert stuck.guilty == ()
    assert "were in several places" in stuck.verdict


def test_only_the_rank_that_is_late_moves():
    """It computes for ever, or has just come: the others stayed where they wait, so it is named still."""
    busy = rank(1, LOADER, STEP, cpu=1.0, earlier=(seen("batch (/job/data.py:9)", STEP),))
    stuck = compare({"a": (rank(0, IN_TORCH, STEP), busy), "b": (rank(2, IN_TORCH, STEP),)})
    assert [one.process.rank for one in stuck.guilty] == [1]
    came = rank(0, IN_TORCH, STEP, earlier=(seen(STEP),))
    stuck = compare({"a": (came, rank(1, LOADER, STEP)), "b": (rank(2, IN_TORCH, STEP),)})
    assert [one.process.rank for one in stuck.guilty] == [1]


def test_a_stopped_rank_is_named_while_others_go_on_and_one_that_reads_a_disk_is_not():
    """Nobody stops a rank of a sound job, but each sleeps in the kernel now and then."""
    moving = tuple(rank(number, STEP, earlier=(seen(IN_TORCH, STEP),)) for number in (0, 1))
    assert [one.process.rank for one in compare({"a": (*moving, rank(2, state="T"))}).guilty] == [2]
    reading = rank(2, LOADER, state="D", earlier=(seen(LOADER),))
    assert compare({"a": (*moving, reading)}).guilty == ()


def test_without_stacks_ranks_that_change_their_place_are_not_judged():
    """What py-spy would have told is not known; where all stay, state and cpu tell."""
    moving = rank(1, cpu=0.2, wchan="hrtimer_nanosleep", earlier=(seen(wchan="futex_wait"), seen(wchan="")))
    stuck = compare({"a": (rank(0), moving, rank(2))})
    assert stuck.guilty == ()
    assert "their Python was not read" in stuck.verdict


MEETING = "init_process_group (/env/site-packages/torch/distributed/distributed_c10d.py:1899)"


def test_another_number_of_ranks_is_named():
    """They never find each other; where no most is there, all are named."""
    found = {"a": (rank(0, MEETING),), "b": (rank(1, MEETING),), "c": (rank(2, MEETING, world=4),)}
    stuck = compare(found)
    assert [one.name for one in stuck.guilty] == ["rank 2 on c"]
    assert stuck.verdict == "rank 2 on c expects 4 ranks, the others 3: WORLD_SIZE must be the same for all"
    assert len(compare({"a": (rank(0, MEETING, world=2),), "b": (rank(1, MEETING),)}).guilty) == 2


def test_a_number_that_two_nodes_have_is_named():
    """One of them should have the number that is missing."""
    stuck = compare({"a": (rank(0, MEETING),), "b": (rank(1, MEETING),), "c": (rank(1, MEETING),)})
    assert [one.name for one in stuck.guilty] == ["rank 1 on b", "rank 1 on c"]
    assert stuck.verdict == "rank 1 runs on b and on c: each process needs a RANK of its own"


def test_ranks_that_do_not_find_each_other_were_told_different_places():
    """No network has lost a call that none has begun."""
    stuck = compare({"a": (rank(0, MEETING), rank(1, MEETING)), "b": (rank(2, MEETING),)})
    assert stuck.guilty == ()
    assert "compare MASTER_ADDR, MASTER_PORT" in stuck.verdict


WAITING = """
    all_reduce all_gather all_gather_into_tensor all_gather_object reduce reduce_scatter reduce_scatter_tensor broadcast
    broadcast_object_list scatter gather gather_object all_to_all all_to_all_single barrier monitored_barrier send recv
    isend irecv batch_isend_irecv init_process_group _store_based_barrier new_group all_reduce_coalesced
    _verify_param_shape_across_processes _sync_module_states scatter_object_list wait_for_everyone
"""


@pytest.mark.parametrize("name", WAITING.split())
def test_a_rank_waits_in_each_call_that_waits_for_others(name):
    """Of torch.distributed and accelerate, by the name of the function."""
    assert doing("a", rank(0, f"{name} (/env/lib.py:3)", STEP)).call == name


@pytest.mark.parametrize(
    "file",
    [
        *("/env/site-packages/lib.py", "/usr/dist-packages/lib.py", "/usr/lib/python3.11/queue.py"),
        *("/src/torch/nn.py", "<frozen runpy>", "<string>"),
    ],
)
def test_a_frame_of_a_library_is_no_line_of_the_program(file):
    """The next one outside of it is."""
    assert doing("a", rank(0, f"call ({file}:3)", STEP)).at == "/job/train.py:40"


@pytest.mark.parametrize("state", ["T", "t", "Z"])
def test_a_process_that_is_stopped_waits_in_no_call(state):
    """Whatever its frames show."""
    found = doing("a", rank(0, IN_TORCH, STEP, state=state))
    assert (found.call, found.at) == ("", "")


@pytest.mark.parametrize(
    ("cpu", "state", "word"), [(0.5, "S", "computes"), (0.49, "S", "waits"), (0.1, "R", "computes")]
)
def test_half_a_core_or_a_running_thread_computes(cpu, state, word):
    """Less is a rank that waits for something of its own."""
    assert doing("a", rank(0, LOADER, STEP, cpu=cpu, state=state)).what.startswith(f"{word} outside of any collective")


def test_a_size_of_the_world_counts_where_a_rank_waits_by_it():
    """One outside of any call, or that tells none, is no other opinion."""
    two = {"a": (rank(0, MEETING), rank(1, MEETING))}
    assert "expects" not in compare({**two, "c": (rank(2, LOADER, world=4),)}).verdict
    assert "expects" not in compare({**two, "c": (rank(2, MEETING, world=0),)}).verdict
    assert "rank 2 on c expects 4" in compare({**two, "c": (rank(2, MEETING, world=4),)}).verdict
