"""Is what is said about the logs of the tests word for word what was written down?"""

from __future__ import annotations

from tests import said


def test_every_word_is_what_was_written_down():
    """Causes, lines, ranks, the job, words; `python -m tests.said` writes it, and its diff is to be read."""
    now = dict(said.of_logs())
    for name, text in said.written("logs-*.txt").items():
        assert now[name].splitlines() == text.splitlines(), name
    assert now.keys() == said.written("logs-*.txt").keys()
