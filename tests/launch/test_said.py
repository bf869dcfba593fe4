"""Is what is read of the launch files of the tests, and said about them, word for word what was written down?"""

from __future__ import annotations

from tests import said


def test_every_word_is_what_was_written_down():
    """Verdict, rule, place, message, fix, edits, plan: `python -m tests.said` writes it, and its diff is to be read."""
    now = dict(said.of_launch_files())
    for name, text in said.written("launch-*.txt").items():
        assert now[name].splitlines() == text.splitlines(), name
    assert now.keys() == said.written("launch-*.txt").keys()


def test_every_sentence_is_still_said():
    """Of the launch files that are parameters of tests, and of the cases against nodes that do not fit; more may be."""
    assert set(said.written(said.SENTENCES)[said.SENTENCES].splitlines()) - set(said.sentences()) == set()
