"""Are the figures of collectives right? A wrong element, a rank that leaves and one that is absent must be told."""

from __future__ import annotations

import statistics

import msgspec
import pytest

from preflight.facts.results import RING, Result
from preflight.job.ranks import collectives
from preflight.job.ranks.bench.figures import median_interval, summary
from preflight.job.ranks.bench.operations import COLLECTIVES
from preflight.job.ranks.bench.settings import MIB

QUICK = {"target_seconds": 0.02, "cap_seconds": 0.3}
FEW = {"sizes": [MIB], "warmup": 1, "min_iterations": 6, "max_iterations": 6}

# Acts on the third whole-buffer sum of that rank: a warm-up, then a timed one, then this one.
SPOIL_AN_ELEMENT = """
import torch.distributed as dist
whole, calls = dist.all_reduce, []
def all_reduce(tensor, *args, **kwargs):
    large = tensor.numel() > 1000
    calls.append(large)
    if {before} and large and sum(calls) == 3:
        tensor[70000] += 1
    done = whole(tensor, *args, **kwargs)
    if not {before} and large and sum(calls) == 3:
        tensor[70000] += 1
    return done
dist.all_reduce = all_reduce
"""
LEAVE = """
import os, torch.distributed as dist
dist.broadcast = lambda *args, **kwargs: os._exit(7)
"""


def of_kind(records, kind):
    return [record for record in records if record["record"] == kind]


def as_result(record):
    return msgspec.convert({key: value for key, value in record.items() if key not in ("record", "rank")}, Result)


@pytest.fixture(scope="module")
def by_variables(ranks_by_variables):
    """Records by rank of two separate processes, size found by probing."""
    return ranks_by_variables("collectives", ranks=2, settings=QUICK)


@pytest.fixture(scope="module")
def played(forked_scenarios):
    """Every scenario of this file, played once."""
    return forked_scenarios(
        "collectives",
        {
            "all": {"ranks": 3, "settings": {**FEW, "operations": list(COLLECTIVES)}},
            "pipelined": {"ranks": 3, "settings": {**FEW, "operations": list(COLLECTIVES), "mode": "pipelined"}},
            "ring too": {"ranks": 2, "settings": {**FEW, "operations": ["broadcast"], "holds_to_ring": True}},
            "small bfloat16": {
                "ranks": 3,
                "settings": {**FEW, "sizes": [8], "operations": list(COLLECTIVES), "dtype": "bfloat16"},
            },
            "groups": {
                "ranks": 4,
                "settings": {
                    **FEW,
                    "sizes": [4096],
                    "operations": list(COLLECTIVES),
                    "rounds": [
                        [{"name": "a", "ranks": [0, 2]}, {"name": "b", "ranks": [1, 3]}],
                        [{"name": "c", "ranks": [1, 2, 3]}],
                    ],
                },
            },
            "element in a group": {
                "ranks": 3,
                "settings": {**FEW, "rounds": [[{"name": "late", "ranks": [1, 2]}]]},
                "plants": {"2": SPOIL_AN_ELEMENT.format(before=False)},
            },
            "sizes of each": {
                "ranks": 2,
                "settings": {
                    **FEW,
                    "operations": ["all_reduce", "broadcast", "reduce"],
                    "sizes": [],
                    "sizes_by_operation": {"all_reduce": [4096, 8192], "broadcast": [1024]},
                },
            },
            "too large": {"ranks": 1, "settings": {"sizes": [1 << 60]}},
            "partly too large": {"ranks": 1, "settings": {**FEW, "sizes": [4096, 1 << 60]}},
            "alone": {"ranks": 1, "settings": {**FEW, "operations": list(COLLECTIVES)}},
            "element after": {
                "ranks": 3,
                "settings": FEW,
                "plants": {"1": SPOIL_AN_ELEMENT.format(before=False)},
            },
            "element before": {
                "ranks": 2,
                "settings": FEW,
                "plants": {"1": SPOIL_AN_ELEMENT.format(before=True)},
            },
            "rank leaves": {"ranks": 2, "settings": {**FEW, "operations": ["broadcast"]}, "plants": {"1": LEAVE}},
            "rank absent": {"ranks": 2, "started": [0], "settings": {"join_seconds": 1}},
            "unknown setting": {"ranks": 1, "settings": {"size": 1}},
        },
    )


def test_importing_the_program_does_not_import_torch():
    """The plain figures can be had without torch: nothing at module level imports it."""
    assert not hasattr(collectives, "torch")
    assert not hasattr(collectives, "dist")


def test_each_rank_joins_and_ends(by_variables):
    """Every rank says where it is, on what device it runs and that it is done."""
    for rank, records in by_variables.items():
        stages = [record["stage"] for record in of_kind(records, "stage")]
        assert stages == ["import", "rendezvous", "communicator", "running", "running", "done"]
        (joined,) = of_kind(records, "joined")
        assert (joined["rank"], joined["device"], joined["nccl"]) == (rank, "cpu", "")
        assert joined["import_seconds"] > 0
        assert records[-1] == {"record": "done"}


def test_figures_and_fields_of_a_result_are_the_same(by_variables):
    """What a rank measures and the report has no field for would be lost, a field that no rank fills stay empty."""
    fields = set(Result.__struct_fields__)
    figures = set(summary([0.1, 0.2], size_bytes=8, bus_factor=1.0))
    assert figures <= fields
    (record,) = of_kind(by_variables[0], "result")
    assert set(record) - {"record"} == fields
    assert figures <= set(record)


def test_an_iteration_takes_as_long_as_its_slowest_rank(by_variables):
    """The result's figures are those of the maximum over ranks of each iteration, and rank 0 alone sends it."""
    (result,) = [as_result(record) for record in of_kind(by_variables[0], "result")]
    assert not of_kind(by_variables[1], "result")
    (ours,), (theirs,) = (of_kind(by_variables[rank], "matrix") for rank in (0, 1))
    slowest = [max(pair) for pair in zip(ours["seconds"], theirs["seconds"], strict=True)]
    assert result.iterations == len(slowest)
    assert result.seconds_median == pytest.approx(statistics.median(slowest))
    assert (result.seconds_low, result.seconds_high) == median_interval(slowest)
    assert result.algbw_gbytes_per_s == pytest.approx(result.bytes / result.seconds_median / 1e9)
    assert result.busbw_low_gbytes_per_s <= result.busbw_gbytes_per_s <= result.busbw_high_gbytes_per_s
    assert result.busbw_gbytes_per_s == result.algbw_gbytes_per_s  # of two ranks


@pytest.mark.parametrize("scenario", ["all", "alone", "pipelined", "small bfloat16"])
def test_every_operation_delivers_the_right_elements(played, scenario):
    """Each operation runs over gloo, its timed buffers hold exactly what they must, also with a rank alone."""
    results = {record["op"]: as_result(record) for record in of_kind(played[scenario]["records"], "result")}
    assert list(results) == list(COLLECTIVES)
    assert {result.wrong for result in results.values()} == {0}
    assert {result.in_place for name, result in results.items() if name in ("all_reduce", "broadcast")} == {True}


def test_an_element_spoilt_in_one_ranks_buffer_is_counted_there(played):
    """One element wrong in the timed buffer of one rank is one wrong element, of that rank."""
    (result,) = [as_result(record) for record in of_kind(played["element after"]["records"], "result")]
    assert (result.wrong, result.wrong_ranks) == (1, (1,))


def test_an_element_spoilt_before_the_operation_is_wrong_on_all(played):
    """What one rank puts in wrongly every rank counts."""
    (result,) = [as_result(record) for record in of_kind(played["element before"]["records"], "result")]
    assert (result.wrong, result.wrong_ranks) == (2, (0, 1))


def test_a_rank_that_leaves_fails_the_others_in_one_line(played):
    """The rank that is left says in which stage it failed, in one line, and ends with 1."""
    assert played["rank leaves"]["codes"] == [1, 7]
    (failed,) = of_kind(played["rank leaves"]["records"], "failed")
    assert (failed["rank"], failed["stage"]) == (0, "running")
    assert "\n" not in failed["error"]


def test_an_absent_rank_is_told_at_the_rendezvous(played):
    """With one rank never started the other gives up in the rendezvous, within its patience."""
    assert played["rank absent"]["codes"] == [1]
    (failed,) = of_kind(played["rank absent"]["records"], "failed")
    assert failed["stage"] == "rendezvous"


def test_groups_of_ranks_measure_by_themselves(played):
    """At once where they share no rank, then the next; each with its own figures, and every rank ends."""
    results = of_kind(played["groups"]["records"], "result")
    assert {(r["op"], r["group"], r["ranks"], r["rank"]) for r in results} == {
        (op, *group) for op in COLLECTIVES for group in (("a", 2, 0), ("b", 2, 1), ("c", 3, 1))
    }
    assert {result["wrong"] for result in results} == {0}
    assert played["groups"]["codes"] == [0, 0, 0, 0]
    assert len(of_kind(played["groups"]["records"], "done")) == 4


def test_a_wrong_element_in_a_group_is_of_the_rank_among_all(played):
    """Its number in the group would name another node."""
    (result,) = of_kind(played["element in a group"]["records"], "result")
    assert (result["wrong"], result["wrong_ranks"]) == (1, [2])


def test_several_at_once_are_told_as_such(played):
    """The result says in which mode and type it was taken."""
    for scenario, mode, dtype in (("pipelined", "pipelined", "float32"), ("small bfloat16", "blocking", "bfloat16")):
        for record in of_kind(played[scenario]["records"], "result"):
            assert (record["mode"], record["dtype"]) == (mode, dtype)


def test_a_size_that_memory_has_no_room_for_is_refused(played):
    """In one line, before anything is allocated."""
    (failed,) = of_kind(played["too large"]["records"], "failed")
    assert failed["error"].startswith("MemoryError: all_reduce of 1152921504606846976 bytes: the ranks have room for")


def test_the_sizes_that_fit_are_measured(played):
    """What does not fit is told, and costs none of the others."""
    records = played["partly too large"]["records"]
    assert [record["bytes"] for record in of_kind(records, "result")] == [4096]
    assert [record["bytes"] for record in of_kind(records, "left_out")] == [1 << 60]
    assert of_kind(records, "done")


def test_an_unknown_setting_is_an_error_that_names_it(played):
    """A mistyped setting is not ignored."""
    (failed,) = of_kind(played["unknown setting"]["records"], "failed")
    assert "'size'" in failed["error"]


def test_the_all_reduce_is_measured_once_more_over_a_ring(played):
    """Whatever else was asked for, with a name of its own; NCCL reads the variable when it makes the communicator."""
    told = [(as_result(r).title, as_result(r).wrong) for r in of_kind(played["ring too"]["records"], "result")]
    assert told == [("broadcast", 0), (f"all_reduce ({RING})", 0)]


def test_an_operation_has_the_sizes_given_for_it(played):
    """The others find theirs by probing."""
    found = {}
    for record in played["sizes of each"]["records"]:
        if record["record"] == "result":
            found.setdefault(record["op"], []).append(record["bytes"])
    assert (found["all_reduce"], found["broadcast"], len(found["reduce"])) == ([4096, 8192], [1024], 1)
