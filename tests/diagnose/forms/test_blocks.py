"""Can bytes be looked at before they are taken?"""

from __future__ import annotations

from preflight.diagnose.forms.blocks import Blocks, Reading


def test_what_was_looked_at_stays():
    """And what was given back comes first; fewer than asked for come only at the end."""
    blocks = Blocks(iter([b"ab", b"cd", b"ef"]), Reading("x"))
    assert (blocks.peek(3), blocks.read(1), next(blocks)) == (b"abc", b"a", b"bcd")
    blocks.give_back(b"Z")
    assert (blocks.read(9), blocks.peek(1), list(blocks)) == (b"Zef", b"", [])


def test_the_first_reason_counts():
    """What the layers above meet follows from it."""
    reading = Reading("x")
    reading.cut_short("one")
    reading.cut_short("two")
    assert reading.cut == "one"
