"""Are exceptions read out of tracebacks that several ranks print at once?"""

from __future__ import annotations

from preflight.diagnose import diagnose

INTERLEAVED = """\
[rank0]: Traceback (most recent call last):
[rank1]: Traceback (most recent call last):
[rank0]:   File "/job/train.py", line 7, in <module>
[rank1]:   File "/job/train.py", line 9, in main
[rank1]:     raise Odd("b")
[rank0]:     raise Strange("a")
[rank1]:   File "/env/site-packages/lib.py", line 3, in call
[rank1]: lib.errors.Odd: b
[rank0]: Strange: a
"""


def test_interleaved_tracebacks_are_told_apart():
    """The first exception is the program's failure, with the line of the program, not of a library."""
    found = diagnose(INTERLEAVED.splitlines()).causes[0]
    assert found.cause.name == "program-error"
    assert "Odd: b (at /job/train.py:9)" in found.cause.meaning
    assert found.ranks == (1,)


def test_an_exception_of_the_table_is_not_unknown():
    """Its cause stands, and no second one beside it."""
    lines = [
        "Traceback (most recent call last):",
        '  File "/job/a.py", line 1, in f',
        "OSError: [Errno 28] No space left on device",
    ]
    assert [finding.cause.name for finding in diagnose(lines).causes] == ["disk-full"]


def test_a_traceback_without_an_end_ends_with_the_file():
    """Nothing is made up of it."""
    lines = ["Traceback (most recent call last):", '  File "/job/a.py", line 1, in f', *(["    x"] * 900), "Late: no"]
    assert not diagnose(lines).has_failed
