"""Does a check get whatever it takes by name?"""

from __future__ import annotations

from preflight.judge.check import KINDS
from preflight.run.suite.fixtures import Fixtures


def test_there_is_a_fixture_for_every_kind_of_subject_and_the_thresholds():
    """A kind without one could not be asked for; one without a kind would be given to a check as None."""
    named = {name for name in vars(Fixtures) if not name.startswith("_")}
    assert named == {*KINDS, "settings"}
