"""Does a record count only if a rank of the job could have sent it?"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.facts.results import RING
from preflight.job.measure.scope import Group, as_settings
from preflight.job.start import records
from preflight.launch.job import Job, Placement
from preflight.said.errors import BadReply
from tests.job.measure.test_bench import joined, result
from tests.node.agent.test_frames import VALUES

RANKS = Path(records.__file__).parents[1] / "ranks"
PLACEMENTS = tuple(Placement(rank, f"node{rank + 1}", 0, 1) for rank in range(4))
ASKED = {"operations": ["all_reduce", "broadcast"], "sizes": [1 << 28], "dtype": "float32"}


def job(**asked: Any) -> Job:
    """Four ranks that were asked for two collectives of one size."""
    return Job("collectives", {**ASKED, **asked}, PLACEMENTS, "10.0.0.1", (), 60.0)


def of(rank: int, **fields: Any) -> dict[str, Any]:
    """A good result with some other fields."""
    return {**result(3.0), "ranks": 4, "rank": rank, **fields}


TRAINED = {
    "record": "trained",
    "rank": 2,
    "device": "cpu",
    "step_seconds_median": 0.1,
    "step_seconds_p95": 0.1,
    "parameters_digest": "d",
    "gradient_error": 0.0,
    "parameters_error": 0.0,
    "import_seconds": 2.0,
    "finite": True,
}
GOOD = (
    of(0),
    {**joined(3), "rank": 3},
    TRAINED,
    {"record": "losses", "rank": 0, "losses": [3.0, 2.0], "tokens_per_s": 10.0, "begin": 0},
    {"record": "matrix", "rank": 3, "op": "all_reduce", "bytes": 1 << 28, "seconds": [0.1, 0.2]},
    {"record": "stage", "rank": 1, "stage": "running", "op": "all_reduce", "bytes": 4},
    {"record": "failed", "rank": 1, "stage": "running", "error": "out of memory"},
    {"record": "done", "rank": 1},
    {"record": "matrix", "rank": 1, "op": "all_reduce", "bytes": 4, "seconds": [0.1], "group": "rail 1"},
    {"record": "nccl_log", "rank": 1, "lines": ["NET/IB"]},
)


@pytest.mark.parametrize("record", GOOD)
def test_what_a_rank_was_asked_for_is_taken_as_it_is(record):
    """With whatever it holds besides."""
    assert records.checked(record, "node1", job()) == record


def test_a_result_over_a_ring_is_taken_where_it_was_asked_for():
    """Rank 0 speaks for all ranks once more; of one that nobody asked for it is a bad reply."""
    record = of(0, group=RING)
    assert records.checked(record, "node1", job(holds_to_ring=True)) == record
    with pytest.raises(BadReply, match="does not lead"):
        records.checked(record, "node1", job())


@pytest.mark.parametrize("kind", ["nccl", "trace", "passwd"])
def test_what_nccl_wrote_is_taken_under_two_names(kind):
    """Of any other file a node has no word to say."""
    event = {"file": kind, "rank": 0, "text": "NCCL INFO"}
    if kind == "passwd":
        with pytest.raises(BadReply):
            records.checked_event(event, "node1", job())
    else:
        assert records.checked_event(event, "node1", job()) == event


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (of(0, bytes=1 << 40), "not asked for"),
        (of(0, op="all_to_all"), "'all_to_all' was not asked for"),
        (of(0, dtype="float16"), "of 'float16', and float32 was asked for"),
        (of(0, ranks=2), "of 2 ranks, and 4 were asked"),
        (of(0, wrong_ranks=[7]), "ranks that do not exist"),
        (of(0, algbw_gbytes_per_s=300.0), "300 GB/s are not"),
        (of(0, seconds_median=0.0, seconds_p5=0.0), "are not"),
        (of(0, busbw_gbytes_per_s=9.0), "bus bandwidth"),
        (of(0, seconds_p95=0.0001), "outside its quantiles"),
        (of(0, seconds_median=-1.0), "cannot be"),
        (of(0, wrong=-1), "cannot be"),
        (of(0, cv="0.1"), "got `str`"),
        (of(0, iterations=True), "got `bool`"),
        ({key: value for key, value in of(0).items() if key != "wrong"}, "missing required field"),
        (of(1), "reports a result, for which it was not asked"),
        (of(0, group="rail 7"), "does not lead"),
        ({"record": "losses", "rank": 1, "losses": [], "tokens_per_s": 1.0}, "not asked"),
        ({"record": "losses", "rank": 0, "losses": [1e300], "tokens_per_s": 1.0}, "cannot be"),
        ({**TRAINED, "step_seconds_median": 1e300}, "cannot be"),
        ({**TRAINED, "gradient_error": None}, "got `null`"),
        ({"record": "verdict", "rank": 0}, "no workload sends that"),
        ({"record": "done", "rank": "0"}, "no workload sends that"),
        ({"record": "done", "rank": True}, "no workload sends that"),
        ({"record": ["done"], "rank": 0}, "no workload sends that"),
        ([], "got `array`"),
    ],
)
def test_what_no_rank_was_asked_for_is_a_bad_reply_of_its_node(record, words):
    """Other operations, sizes, types and ranks; figures that do not follow from each other, or cannot be."""
    with pytest.raises(BadReply, match=words) as refused:
        records.checked(record, "node3", job())
    assert refused.value.host == "node3"


def test_a_group_is_spoken_for_by_its_first_rank():
    """With as many ranks as it has."""
    rounds = as_settings((((Group("rail 0", (0, 2)), Group("rail 1", (1, 3)))),))
    asked = job(rounds=rounds)
    assert records.checked(of(1, group="rail 1", ranks=2), "node2", asked)
    for wrong in (of(1, group="rail 0", ranks=2), of(1, group="rail 1", ranks=4), of(3, group="rail 1", ranks=2)):
        with pytest.raises(BadReply):
            records.checked(wrong, "node2", asked)


PAIR = {"record": "pair", "source": 2, "round": 1, "bytes": 1 << 28, "seconds": 0.01, "gbytes_per_s": 26.8435456}


@pytest.mark.parametrize(
    ("rank", "fields", "is_asked"),
    [
        (3, {}, True),
        (3, {"round": 0}, False),
        (3, {"round": 7}, False),
        (3, {"source": 1}, False),
        (2, {"source": 3}, False),
        (3, {"gbytes_per_s": 48.0}, False),
        (3, {"seconds": 0.0}, False),
    ],
)
def test_a_pair_is_told_by_its_receiver(rank, fields, is_asked):
    """In the round in which it was asked to, with a rate that follows from bytes and seconds."""
    record, asked = {**PAIR, "rank": rank, **fields}, job(pairs=[[[0, 1]], [[2, 3], [1, 0]]])
    if is_asked:
        assert records.checked(record, "node4", asked) == record
        return
    with pytest.raises(BadReply):
        records.checked(record, "node4", asked)


def test_the_all_reduce_over_a_ring_is_told_by_the_first_rank():
    """Where it was asked for."""
    assert records.checked(of(0, group=RING), "node1", job(holds_to_ring=True))
    for rank, asked in ((1, job(holds_to_ring=True)), (0, job())):
        with pytest.raises(BadReply):
            records.checked(of(rank, group=RING), "node1", asked)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(["record", "exit", "name", "log", "x"]), VALUES, max_size=4), VALUES)
def test_nonsense_is_a_bad_reply_and_never_anything_else(event, value):
    """Whatever a node sends in the place of a record or of an exit."""
    for said in (event, {"record": value}):
        try:
            records.checked_event(said, "node3", job())
        except BadReply as error:
            refused = error.host
            assert refused == "node3"


@pytest.mark.parametrize("kind", sorted(records.KINDS))
@pytest.mark.parametrize("value", [None, [], {}, "x", -1, 1e300, [[1]], True])
def test_each_field_of_each_kind_with_a_wrong_value_is_refused_or_taken_whole(kind, value):
    """No shape of a field raises anything but BadReply."""
    base = next((record for record in GOOD if record["record"] == kind), {"record": kind, "rank": 0})
    for name in base:
        if name not in ("record", "rank"):
            changed = {**base, name: value}
            try:
                assert records.checked(changed, "node1", job()) == changed
            except BadReply:
                continue


def test_every_record_that_a_workload_sends_is_known():
    """A new kind needs its row: without one it would be taken for a lie."""
    paths = (path for path in RANKS.rglob("*.py") if "rehearsal" not in path.parts)  # whose lines are read apart
    sent = {kind for path in paths for kind in re.findall(r'"record": "(\w+)"', path.read_text())}
    assert sent == set(records.KINDS)
