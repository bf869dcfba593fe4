"""What does a check say of itself?"""

from __future__ import annotations

import pytest

from preflight.judge.check import docstring_fix


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("T.\n\n    Why.\n    Fix: `ulimit -n`\n      and log in again.\n    ", "`ulimit -n` and log in again."),
        ("T.", ""),
        ("", ""),
        ("Fix: a. Fix: b", "a. Fix: b"),
    ],
)
def test_the_fix_is_what_the_docstring_says_after_the_word(text, fix):
    """On one line, whatever its shape in the file."""
    assert docstring_fix(text) == fix
