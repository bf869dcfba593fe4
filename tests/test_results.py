"""Do the sections of a report keep to their names, and say when there is no figure?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.errors import NotMeasured
from preflight.results import Bench, Edge, Mesh, Stream
from preflight.testing import healthy, roce

replace = msgspec.structs.replace


@pytest.mark.parametrize("run", [healthy(), roce()])
def test_sections_come_back_from_their_file(run):
    """What is written is read as it was."""
    for section in (run.mesh(), run.bench(), run.training()):
        assert msgspec.json.decode(msgspec.json.encode(section), type=type(section)) == section


def test_the_ends_of_an_edge_are_called_from_and_to():
    """As report.json promises them."""
    assert msgspec.to_builtins(Edge(source="node1", target="node2", port=40001, reason="filtered"))["from"] == "node1"
    assert msgspec.to_builtins(Stream(source="node1", target="node2", shift=1, gbytes_per_s=0.1))["to"] == "node2"


@pytest.mark.parametrize(
    "document",
    [
        {"edges": 2, "ok": 2},
        {"edges": 2, "ok": 2, "failed": [], "extra": 1},
        {"edges": "2", "ok": 2, "failed": []},
        {"edges": 2, "ok": 1, "failed": [{"from": "a", "to": "b", "port": 1, "reason": "bad luck"}]},
        {"edges": 2, "ok": 1, "failed": [{"source": "a", "target": "b", "port": 1, "reason": "reset"}]},
    ],
)
def test_a_section_of_another_shape_is_refused(document):
    """A stored run that was edited does not read as something else."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(document, Mesh)


def test_the_result_of_a_collective_is_that_of_its_largest_size():
    """Small ones measure latency."""
    bench = healthy().bench()
    small = replace(bench.results[0], bytes=1024, busbw_gbytes_per_s=0.01)
    assert replace(bench, results=(small, bench.results[0])).result("all_reduce") == bench.results[0]


def test_a_collective_that_was_not_run_is_not_measured():
    """With the reason why the job ended, where it did."""
    bench = healthy().bench()
    with pytest.raises(NotMeasured, match="no all_gather was run"):
        bench.result("all_gather")
    empty: Bench = replace(bench, results=(), not_measured="rank 1 on node2 stopped")
    with pytest.raises(NotMeasured, match="rank 1 on node2 stopped"):
        empty.result("all_reduce")


def test_a_training_without_ranks_is_not_measured():
    """Never an empty success."""
    training = healthy().training()
    assert training.joined() == training.ranks
    with pytest.raises(NotMeasured, match="node2 hung"):
        replace(training, ranks=(), not_measured="node2 hung").joined()
    with pytest.raises(NotMeasured, match="gave no result"):
        replace(training, ranks=()).joined()
