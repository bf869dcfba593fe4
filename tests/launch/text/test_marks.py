"""Does a text remember which of its parts are unknown, and where each part was written?"""

from __future__ import annotations

import pytest

from preflight.launch.field import Sourced, Unknown
from preflight.launch.text import marks as module
from preflight.launch.text.marks import Marks, clean, is_firm, is_known, plain, varies, without_lines


@pytest.mark.parametrize(
    ("expression", "differs"),
    [
        ("$RANDOM", True),
        ("$(hostname -I | awk '{print $1}')", True),
        ("$(date +%s)", True),
        ("$$", True),
        ("$(scontrol show hostnames | head -n 1)", False),
        ("$(ssh n1 hostname)", False),
        ("$(ssh n1 echo $RANDOM)", True),
        ("$SLURM_JOB_ID", False),
        ("$(cat /shared/id)", False),
    ],
)
def test_what_comes_out_different_on_every_node(expression, differs):
    """Chance, clocks and the node's own name do; what another node or Slurm is asked for does not."""
    assert varies(expression) is differs


def test_an_unknown_part_keeps_its_place_in_the_text():
    """A text splits at ":" as any other, and each half knows what it lacks."""
    marks = Marks("x.sh")
    text = marks.unknown("$HOST", 3) + ":29500"
    host, _, port = text.partition(":")
    assert (is_known(text), is_known(host), is_known(port)) == (False, False, True)
    assert marks.spelled(text) == "$HOST:29500"
    assert marks.field(host, 3) == Unknown("$HOST", "x.sh", 3)
    assert marks.field(port, 3) == Sourced("29500", "x.sh", 3)


def test_a_default_is_known_but_not_firm():
    """It counts until whoever starts the script says otherwise."""
    marks = Marks("x.sh")
    text = marks.default("8")
    assert (plain(text), is_known(text), is_firm(text), is_firm("8")) == ("8", True, False, True)
    assert marks.field(text, 2).origin == "environment"
    assert is_firm(marks.unknown("$A", 1)) is False


def test_a_value_points_at_the_line_that_it_was_written_in():
    """Not at the command that uses it, until the mark of the line is taken away."""
    marks = Marks("x.sh")
    text = marks.at_line("8", 5)
    assert marks.field(text, 9).line == 5
    assert marks.field(without_lines(text)[0], 9).line == 9
    assert plain(text) == "8"
    assert marks.at_line("", 5) == ""


def test_a_field_varies_if_one_of_its_parts_does():
    """So does one that is worked out inside a container."""
    marks = Marks("x.sh")
    text = marks.unknown("$A", 1) + "-" + marks.unknown("$RANDOM", 1, varies=True, in_container=True)
    field = marks.field(text, 1)
    assert (field.expression, field.varies, field.in_container) == ("$A-$RANDOM", True, True)


def test_one_expression_twice_in_a_row_is_one_part():
    """A loop of thousands does not use up the characters, and where they end the rest is still unknown."""
    marks = Marks("x.sh")
    assert marks.unknown("$A", 1) == marks.unknown("$A", 1)
    texts = [marks.unknown(f"$A{number}", 1) for number in range(40_000)]
    assert not any(map(is_known, texts))
    assert marks.spelled(texts[0]) == "$A0"
    assert isinstance(marks.field(texts[-1], 1), Unknown)


def test_a_files_own_private_characters_are_no_marks():
    """Else a file could pretend to know less, or to stand elsewhere."""
    hostile = "a\U000f0000b\U00100005c"
    assert clean(hostile) == "a\ufffdb\ufffdc"
    assert is_known(clean(hostile))
    assert Marks("x.sh").spelled("\U000f0007") == "..."


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        (["--a=1 --b=2", "--a=1 --b=3"], "--a=1 --b=2 or 3"),
        (["--a=1 --b=2", "--a=1 --c"], "--a=1 $X"),
        (["--a 1 --b", "--a 1"], "--a 1 $X"),
        (["--a 1", "--b 1"], ""),
        (["--a", "--a"], ""),
        (["--a 1; ls", "--a 1; cd"], ""),
    ],
)
def test_alternatives_keep_the_options_that_they_share(texts, kept):
    """The first words up to the first that differs; an option with two values is one whose value is not known."""
    marks = Marks("x.sh")
    assert marks.spelled(marks.shared(texts, "X", 1)) == kept


def test_more_unknown_parts_than_there_are_letters_for_share_the_last(monkeypatch):
    """Each is still unknown."""
    monkeypatch.setattr(module, "DEFAULT_BASE", module.UNKNOWN_BASE + 2)
    marks = Marks("a.sh")
    found = [marks.unknown(f"${name}", 1) for name in "abcd"]
    assert found[1:] == [found[1]] * 3 != [found[0]] * 3
    assert [one.expression for one in marks.unknowns] == ["$a", "$b"]


def test_what_is_spelled_is_cut_where_it_grows(monkeypatch):
    """Behind the part that goes over the limit."""
    marks = Marks("a.sh")
    text = "".join(f"{marks.unknown(f'${name}', 1)}-" for name in "abcd")
    assert marks.spelled(text) == "$a-$b-$c-$d-"
    monkeypatch.setattr(module, "SPELLED_LIMIT", 3)
    assert marks.spelled(text) == "$a-$b-..."
