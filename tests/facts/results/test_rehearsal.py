"""Does a stored rehearsal come back as it was?"""

from __future__ import annotations

import msgspec

from preflight.facts.results.rehearsal import Cause, Rehearsal


def test_a_rehearsal_survives_json():
    """Strictly: a key too many is refused."""
    cause = Cause(about="scripts", nodes=("node2",), message="stopped", where=(("run.sh", 3),))
    rehearsal = Rehearsal(scripts=(), ranks=(), causes=(cause,), unjudged={"ranks": {"node2": "scripts"}})
    assert msgspec.json.decode(msgspec.json.encode(rehearsal), type=Rehearsal) == rehearsal
