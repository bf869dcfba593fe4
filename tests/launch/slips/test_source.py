"""Is the text of a program parsed without being run, and is what cannot be parsed left alone?"""

from __future__ import annotations

import ast

import pytest

from preflight.launch.slips import source


@pytest.mark.parametrize("text", ["this is no Python", "x = 1\n" * 300_000, "(" * 5000, "a\0b"])
def test_what_cannot_be_parsed_is_nothing(text):
    """No Python, too long, too deep."""
    assert source.parsed(text) is None


def test_only_what_runs_in_any_case_counts():
    """What stands in a branch may be for another way to start; `if __name__` is none."""
    text = "import os\nif debug:\n    os.environ['A'] = '1'\nif __name__ == '__main__':\n    os.environ['A'] = '2'\n"
    assert list(source.settings_of(source.always(source.parsed(text)), "A")) == [(5, "2")]


@pytest.mark.parametrize(
    ("text", "reads"),
    [("os.environ['LOCAL_RANK']", True), ("int(environ['LOCAL_RANK'])", True), ("os.getpid()", False), ("3", False)],
)
def test_a_variable_is_known_by_how_it_is_read(text, reads):
    """Also as a number."""
    assert source.reads(ast.parse(text, mode="eval").body, "LOCAL_RANK") is reads


def test_names_and_methods_are_found():
    """A function is no method."""
    tree = source.parsed("rank = f()\na.b = 1\ntorch.cuda.set_device(rank)\n")
    assert [name for name, _ in source.assigned(tree)] == ["rank"]
    assert [source.method(node) for node in ast.walk(tree) if isinstance(node, ast.Call)] == ["", "set_device"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("def f():\n    os.environ['A'] = '1'\nf()\n", [2]),
        ("def f():\n    os.environ['A'] = '1'\nspawn(f)\n", [2]),
        ("def f():\n    os.environ['A'] = '1'\n", []),
        ("def f():\n    os.environ['A'] = '1'\nif x:\n    f()\n", []),
        ("def g():\n    f()\ndef f():\n    os.environ['A'] = '1'\nif __name__ == '__main__':\n    g()\n", [4]),
    ],
)
def test_a_function_counts_where_it_is_named_by_what_runs(text, lines):
    """One that nothing calls may be for another use of the file."""
    assert [line for line, _ in source.settings_of(source.reached(source.parsed(text)), "A")] == lines
