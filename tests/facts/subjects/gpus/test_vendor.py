"""Tests of preflight.facts.subjects.gpus.vendor."""

import msgspec
import pytest

from preflight.facts.decode import SCHEMA, Document, decode
from preflight.facts.subjects.gpus.vendor import Vendor
from preflight.said.errors import FactMissing

pytestmark = pytest.mark.unit


def test_what_a_node_tells_is_typed():
    """Lists of JSON become findings and copies; what was not asked for is absent."""
    told = {"dcgmi": [["Memory", "0", "fail", "ECC"]], "nvbandwidth": [[["h2d", 0, 1, 55.0]], ""]}
    found = msgspec.convert(told, type=Vendor, strict=True)
    assert found.dcgmi[0].words == "ECC"
    assert found.nvbandwidth.cells[0].gbytes_per_s == 55.0
    assert found.rvs.kind == "absent"
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"dcgmi": [["Memory", "0", "good", ""]]}, type=Vendor, strict=True)


def test_a_node_that_nobody_asked_has_no_answer_to_give():
    """In every run without --vendor-tests the subject is absent, and not an answer that failed."""
    node = decode(Document(SCHEMA, "node1", 0, "10.0.0.1", 0, {}, {}))
    with pytest.raises(FactMissing, match="not asked for") as caught:
        _ = node.vendor
    assert caught.value.kind == "absent"
