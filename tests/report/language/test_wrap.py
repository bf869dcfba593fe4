"""Do lines of Chinese keep to the width of a terminal?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from preflight.report.language.wrap import width_of, wrapped


def test_a_long_sentence_is_broken_between_its_letters():
    """Two columns a letter; punctuation does not begin a line, a path stays whole."""
    lines = wrapped("网卡速率较低，请检查 /sys/class/infiniband/mlx5_0/ports/1/rate 的值。", 20, first=2, rest=4)
    assert lines[0] == "  网卡速率较低，请检"
    assert lines[1:] == ["    查", "    /sys/class/infiniband/mlx5_0/ports/1/rate", "    的值。"]


def test_a_list_of_names_is_broken_behind_its_commas():
    """A name of Latin letters keeps what ends its clause."""
    assert wrapped("local、slurm、torchrun、node1", 15, first=0, rest=0) == ["local、slurm、", "torchrun、node1"]


@given(st.text("网卡，。 ab", max_size=80), st.integers(12, 40))
def test_nothing_is_lost_and_no_line_is_too_long(text: str, width: int):
    """Whatever the text; a word alone may be longer."""
    lines = wrapped(text, width, first=0, rest=2)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(width_of(line) <= width or " " not in line.strip() for line in lines)
