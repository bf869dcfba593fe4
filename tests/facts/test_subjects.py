"""Is there a type for every subject, strict and frozen, that can be read from JSON?"""

from __future__ import annotations

import inspect

import msgspec
import pytest

from preflight.facts.node import NodeFacts
from preflight.facts.subjects import SUBJECTS
from preflight.facts.value import Value
from preflight.node.calls.collect import COLLECTORS


def test_every_collector_has_its_type_and_every_type_its_question():
    """What a node sends is read, and a check can read all of it; a clock is measured from here."""
    assert set(COLLECTORS) <= set(SUBJECTS)
    assert {"peers", "clock"} <= set(SUBJECTS) - set(COLLECTORS)
    assert set(SUBJECTS) <= {name for name, _ in inspect.getmembers(NodeFacts)}


def test_every_type_is_frozen_and_refuses_keys_that_it_does_not_know():
    """So that no check changes what the next one sees, and no key is skipped."""
    kinds = [Value]
    for kind in kinds:
        kinds += kind.__subclasses__()
        assert kind.__struct_config__.frozen, kind.__name__
        assert kind.__struct_config__.forbid_unknown_fields, kind.__name__
    assert set(SUBJECTS.values()) <= set(kinds)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_type_can_be_read_from_json(subject):
    """A union of two kinds of objects cannot be told apart: Missing stands beside plain values only."""
    try:
        msgspec.convert({}, SUBJECTS[subject])
    except msgspec.ValidationError:
        return
