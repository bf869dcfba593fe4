"""Do the sections of a report keep to their names and their shape?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.results import Edge, Stream
from preflight.testing import healthy, roce


@pytest.mark.parametrize("run", [healthy(), roce()])
def test_sections_come_back_from_their_file(run):
    """What is written is read as it was."""
    for section in (run.mesh(), run.bench(), run.training()):
        assert msgspec.json.decode(msgspec.json.encode(section), type=type(section)) == section


def test_the_ends_of_an_edge_are_called_from_and_to():
    """As report.json promises them."""
    assert msgspec.to_builtins(Edge(source="node1", target="node2", port=40001, reason="filtered"))["from"] == "node1"
    assert msgspec.to_builtins(Stream(source="node1", target="node2", shift=1, gbytes_per_s=0.1))["to"] == "node2"
