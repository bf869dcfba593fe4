"""Is a test held to all that comes of the launch files that it makes?"""

from __future__ import annotations

import ast

import pytest

from preflight.launch.read import read_texts
from preflight.launch.rules.check import check_texts
from tests.house import ROOT
from tests.launch import listing

LINE = "torchrun --nnodes=2 --node_rank=0 --master_addr=10.0.0.1 --master_port={} --nproc_per_node=8 t.py\n"


def heard(line: str, function=check_texts) -> listing.Heard:
    """What comes of a script of one line."""
    found = listing.Heard()
    found.hear(function)({"n.sh": line})
    return found


@pytest.fixture
def one_list(monkeypatch):
    """A list of one test that judges one script."""
    right = heard(LINE.format(22))
    held = listing.Listed({"test_it": right.told("test_it")}, right.lines, right.values)
    text = "".join(f"{line}\n" for line in ["##### test_a.py", *held.written()])
    monkeypatch.setattr(listing, "lists", lambda: listing.parsed(text))


@pytest.mark.usefixtures("one_list")
def test_what_is_listed_holds():
    """As it was written and is read again."""
    listing.assert_listed("test_a.py", "test_it", heard(LINE.format(22)))
    listing.assert_listed("test_a.py", "test_another", listing.Heard())


@pytest.mark.parametrize(
    "line",
    [
        LINE.format(66000),
        LINE.format(29500),
        "\n" + LINE.format(22),
        LINE.format(22).replace("=2", "=3"),
        LINE.format(22) * 2,
    ],
)
@pytest.mark.usefixtures("one_list")
def test_another_finding_place_or_value_fails(line):
    """Of the start too, whatever the findings are."""
    with pytest.raises(AssertionError):
        listing.assert_listed("test_a.py", "test_it", heard(line))


@pytest.mark.usefixtures("one_list")
def test_what_is_read_and_not_judged_is_listed_too():
    """A test that is not listed yet fails."""
    with pytest.raises(AssertionError):
        listing.assert_listed("test_a.py", "test_new", heard(LINE.format(22), read_texts))


def test_every_test_that_is_listed_is_there():
    """One that went, or has another name, leaves the list with the next `python -m tests.found`."""
    for file, listed in listing.lists().items():
        tree = ast.parse((ROOT / listing.FOLDER / file).read_text(encoding="utf-8"))
        there = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert {name.partition("[")[0] for name in listed.findings} <= there, file
