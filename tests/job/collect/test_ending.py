"""Does every node tell how it is at the end?"""

from __future__ import annotations

import msgspec

from preflight.facts.subjects.ending import Ending
from preflight.job.collect import ending
from tests.job.measure.local import opened


def test_this_machine_is_looked_at_once_more():
    """A second call of the same session gives the subject."""
    with opened() as (fleet, session):
        told = fleet.run(ending.collect({"local": session}, []), seconds=20)
    subjects, missing = told["local"]
    assert missing == {}
    assert isinstance(msgspec.convert(subjects["ending"], type=Ending, strict=True).ports, dict)


def test_a_node_that_is_gone_says_so():
    """A session that has failed gives a reason, and not an end that is well."""
    with opened() as (fleet, session):
        fleet.run(session.close(), seconds=20)
        subjects, missing = fleet.run(ending.collect({"local": session}, []), seconds=30)["local"]
    assert subjects == {}
    assert missing["ending"].missing
