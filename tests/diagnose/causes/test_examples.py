"""Is no pattern of a cause lost, or changed, without a test that sees it?"""

from __future__ import annotations

import pytest

from preflight.diagnose.causes import CAUSES
from tests.diagnose.causes import examples


def test_every_pattern_has_a_line():
    """A line of its own among the tests' logs, their LINES, or the examples; a new pattern asks for one."""
    assert examples.lacking() == [], "give them lines in LINES, or python -m tests.diagnose.causes.examples"


@pytest.mark.parametrize("name", examples.stored())
def test_an_example_leads_to_its_cause(name):
    """Each line under a cause's name is found by its words and has a pattern of that cause, whatever else it has."""
    lost = [line for line in examples.stored()[name] if name not in dict(examples.matched(line))]
    assert name in {cause.name for cause in CAUSES}
    assert lost == []


def test_every_cause_keeps_its_name_and_its_rank():
    """Names are what `explain` and scripts ask for; kind and weight decide which cause explains the others."""
    assert {cause.name: examples.rank(cause) for cause in CAUSES} == examples.ranks()
