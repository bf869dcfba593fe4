"""Do the sections of a report keep to their names and their shape?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.results import Device, Edge, Stream
from preflight.testing import healthy, roce

FIGURES = {"matmul_tflops_per_s": 700.0, "matmul_dtype": "bfloat16", "wrong": 0}


@pytest.mark.parametrize("run", [healthy(), roce()])
def test_sections_come_back_from_their_file(run):
    """What is written is read as it was."""
    for section in (run.mesh(), run.bench(), run.training()):
        assert msgspec.json.decode(msgspec.json.encode(section), type=type(section)) == section


def test_the_ends_of_an_edge_are_called_from_and_to():
    """As report.json promises them."""
    assert msgspec.to_builtins(Edge(source="node1", target="node2", port=40001, reason="filtered"))["from"] == "node1"
    assert msgspec.to_builtins(Stream(source="node1", target="node2", shift=1, gbytes_per_s=0.1))["to"] == "node2"


def test_a_section_of_a_rank_has_what_the_rank_sent_for_it():
    """A list as a tuple; what the record holds for others is left out."""
    record = {
        "record": "device",
        "rank": 3,
        "device": "cuda:1",
        "model": "H100",
        "slowed_by": ["heat"],
        "ours": 1,
        **FIGURES,
    }
    found = Device.told(record, node="node2")
    assert (found.rank, found.node, found.device, found.model) == (3, "node2", "cuda:1", "H100")
    assert found.slowed_by == ("heat",)
