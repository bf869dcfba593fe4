"""What do the parts of a syntax tree say, and what do the shell's operators give?"""

from __future__ import annotations

import pytest

from preflight.launch.text.shell import parse
from preflight.launch.text.syntax import calculated, is_all, sequence, source, subscript, unquoted


def part(text: str, kind: str):
    """The first node of that kind in a script."""
    waiting = [parse(text)]
    while waiting:
        node = waiting.pop(0)
        if node.type == kind:
            return node
        waiting.extend(node.named_children)
    raise LookupError(kind)


def test_the_text_of_an_expansion_has_no_blanks_in_front():
    """The grammar counts them in inside quotes; they belong to the text around it."""
    assert source(part('run "a   $b"', "simple_expansion")) == "$b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a\\$b", "a$b"), ('\\"', '"'), ("a\\nb", "a\\nb"), ("a\\\nb", "ab"), ("\\\\", "\\")],
)
def test_a_backslash_in_quotes_protects_few_letters(text, expected):
    """Before any other it stays; at the end of a line it joins two lines."""
    assert unquoted(text) == expected


@pytest.mark.parametrize(("word", "every"), [("${a[@]}", True), ("${a[*]}", False), ("${a[0]}", False), ("$a", False)])
def test_every_element_a_word_of_its_own(word, every):
    """Only [@] does that inside quotes."""
    kind = "expansion" if "{" in word else "simple_expansion"
    assert is_all(part(f'run "{word}"', kind)) is every


@pytest.mark.parametrize(
    ("word", "parts"), [("${a[2]}", ("a", "2")), ("${a['k']}", ("a", "k")), ("${a[@]}", ("a", "@"))]
)
def test_a_subscript_is_name_and_index(word, parts):
    """Without the quotes that the index may have."""
    assert subscript(part(f"run {word}", "subscript")) == parts


def test_a_plain_name_has_no_index():
    """The empty text stands for none."""
    assert subscript(part("run ${a}", "variable_name")) == ("a", "")


@pytest.mark.parametrize(
    ("left", "operator", "right", "result"),
    [
        (2, "+", 3, 5),
        (2, "-", 3, -1),
        (8, "*", 2, 16),
        (7, "/", 2, 3),
        (-7, "/", 2, -3),
        (-7, "%", 2, -1),
        (7, "%", -2, 1),
        (7, "/", 0, None),
        (7, "%", 0, None),
        (2, "**", 3, None),
        (10**14, "*", 10**14, None),
    ],
)
def test_numbers_are_worked_out_as_a_shell_does(left, operator, right, result):
    """It rounds towards 0; what it refuses, or what would overflow, is not worked out."""
    assert calculated(left, operator, right) == result


@pytest.mark.parametrize(
    ("first", "last", "numbers"),
    [("1", "3", "1 2 3"), ("3", "1", "3 2 1"), ("08", "10", "08 09 10"), ("0", "1", "0 1"), ("9", "010", "009 010")],
)
def test_a_sequence_counts_in_either_direction(first, last, numbers):
    """Padded where one of the two is written with a zero in front."""
    assert sequence(first, last) == numbers.split()


def test_a_sequence_is_bounded():
    """A hostile one does not fill the memory."""
    assert len(sequence("0", "99999")) == 512
