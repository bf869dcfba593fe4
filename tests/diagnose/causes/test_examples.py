"""Does each pattern of each cause have a line as a program prints it, and would leaving it out be noticed?"""

from __future__ import annotations

import pytest

from preflight.diagnose.cause import Kind
from preflight.diagnose.causes import CAUSES, SUBJECTS
from preflight.diagnose.index import Index, words_of
from tests.diagnose.causes.examples import FOLDER, grades, listed, matched, without_a_line

BY_NAME = {cause.name: cause for cause in CAUSES}
INDEX = Index((pattern, cause) for cause in CAUSES for pattern in cause.patterns)


def causes_of(line: str) -> set[str]:
    """The causes that a line is evidence for, as the index finds them."""
    found = {cause for cause, _ in INDEX.matches(words_of(line.encode()), line.lower())}
    return {cause.name for cause in found if not any(matched(word, line) for word in cause.unless)}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_each_example_is_evidence_for_its_cause(path):
    """Found by a word of the line; a line that is none is kept from a cause by one of its exceptions."""
    assert {name for name, _ in listed(path)} <= {"", *BY_NAME}
    wrong = [line for name, line in listed(path) if name and name not in causes_of(line)]
    assert wrong == []


def test_each_cause_counts_for_as_much_as_its_lines_prove():
    """Its kind and its weight stand beside its lines: they decide which of several causes explains the others."""
    listed_as = dict(grade for path in FOLDER.glob("*.txt") for grade in grades(path))
    usual = (Kind.CAUSE, 4)
    wrong = {
        one.name: (one.kind, one.weight) for one in CAUSES if (one.kind, one.weight) != listed_as.get(one.name, usual)
    }
    assert wrong == {}
    assert listed_as.keys() <= BY_NAME.keys()


@pytest.mark.parametrize("subject", SUBJECTS)
def test_no_pattern_can_be_left_out_unnoticed(subject):
    """Each has a line that no other pattern of its cause finds; each exception one that no other keeps away."""
    missing = {cause.name: list(without_a_line(cause)) for cause in SUBJECTS[subject]}
    assert {name: patterns for name, patterns in missing.items() if patterns} == {}
