"""Is there a type for every subject, strict and frozen, that can be read from JSON?"""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path

import msgspec
import pytest

import preflight
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


def test_every_fact_that_nodes_give_is_read():
    """By an attribute, or by its name in a table: what nobody reads costs every node time, and checks nothing."""
    root = Path(preflight.__file__).parent
    read: set[object] = set()
    for path in (*root.rglob("*.py"), *(root.parent / "checks").glob("*.py")):
        top = path.relative_to(root.parent).parts[1]
        nodes = list(ast.walk(ast.parse(path.read_text()))) if top not in ("node", "testing") else []
        read |= {one.attr for one in nodes if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Load)}
        if top not in ("launch", "diagnose", "cli"):  # whose words are those of files and logs
            read |= {one.value for one in nodes if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    values = [kind for subject in SUBJECTS.values() for kind in structs_of(subject)]
    assert {f"{kind.__name__}.{name}" for kind in values for name in fields_of(kind) if name not in read} == set()


def structs_of(kind):
    """The typed values that a subject is made of, itself among them."""
    module = sys.modules[kind.__module__]
    return [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]


def fields_of(kind):
    """The names of its facts, of a struct and of a tuple with names."""
    return getattr(kind, "__struct_fields__", None) or getattr(kind, "_fields", ())
