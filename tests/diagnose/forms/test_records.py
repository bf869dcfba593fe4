"""Are the words of a record of JSON read as if a launcher had printed them, and other records left alone?"""

from __future__ import annotations

import json

import pytest

from preflight.diagnose import diagnose
from preflight.diagnose.forms.records import MOST_LINES, spoken

TRACE = """Traceback (most recent call last):
  File "/job/train.py", line 9, in main
    ids = batch['input_ids']
KeyError: 'input_ids'"""


def lines(*records):
    """What is read of these records."""
    given = [(number, json.dumps(one).encode()) for number, one in enumerate(records, 1)]
    return [(number, line.decode()) for number, line in spoken(given)]


def test_an_error_is_read_with_its_time_node_and_rank():
    """In the prefixes that logs of launchers have."""
    record = {"level": "error", "ts": "2025-07-11T08:12:11Z", "rank": "3", "host": "n4", "msg": "no memory"}
    assert lines(record) == [(1, "2025-07-11T08:12:11 [pod/n4] [rank3]: no memory")]


def test_a_traceback_in_a_record_names_the_rank_that_raised():
    """Each of its lines counts as one of the record."""
    record = {"severity": "ERROR", "rank": 5, "message": "training failed", "exc_info": TRACE}
    finding = diagnose([json.dumps(record)]).causes[0]
    assert (finding.cause.name, finding.ranks) == ("program-error", (5,))
    assert "KeyError" in finding.cause.meaning
    assert {number for number, _ in lines(record)} == {1}


@pytest.mark.parametrize(
    "line",
    [
        b'{"level": "info", "msg": "step 3", "loss": 2.1}',
        b'{"step": 3, "loss": 2.1}',
        b'{"level": "error", "rank": 3}',
        b'{"level": "error", "msg": ',
        b'{"level": 40, "msg": "words"}',
        b"level=error msg=words",
    ],
)
def test_any_other_line_stays_what_it_is(line):
    """Of steps a record holds the numbers; one cut short holds what it holds."""
    assert list(spoken([(7, line)])) == [(7, line)]


@pytest.mark.parametrize("odd", [{"rank": "x"}, {"rank": -1}, {"rank": 1 << 40}, {"host": "a b"}, {"ts": 17.5}])
def test_what_is_no_rank_node_or_time_is_left_out(odd):
    """The words stay."""
    assert lines({"level": "warning", "msg": "words", **odd}) == [(1, "words")]


def test_of_a_long_record_the_beginning_is_read():
    """A record is at most so many lines."""
    assert len(lines({"level": "error", "msg": "word\n" * 2 * MOST_LINES})) == MOST_LINES
