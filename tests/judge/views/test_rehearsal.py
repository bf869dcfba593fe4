"""Does the view keep a node from passing what was not judged of it?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.results.rehearsal import ABOUT, Cause
from preflight.judge.views.rehearsal import CHECKS, RehearsalView
from preflight.said.errors import BlameMany, BlockedBy
from preflight.testing import healthy


def view(*causes, unjudged=None):
    """The view of three nodes."""
    run = healthy().rehearsal_has(*causes)
    return RehearsalView(msgspec.structs.replace(run.measured_rehearsal, unjudged=unjudged or {}), run.cluster)


def test_every_subject_has_its_check():
    """And no other."""
    assert tuple(CHECKS) == ABOUT


def test_what_could_not_be_judged_is_blocked_by_its_cause():
    """On the nodes that it is said of."""
    seen = view(unjudged={"training": {"node2": "scripts"}})
    seen.judge("training")
    assert isinstance(seen.cluster.unmeasured["node2"], BlockedBy)
    assert "node1" not in seen.cluster.unmeasured


def test_causes_are_raised_for_their_own_subject():
    """Another subject is not broken by them."""
    seen = view(Cause(about="scripts", nodes=("node2",), message="stopped", where=(("run.sh", 3),)))
    seen.judge("ranks")
    with pytest.raises(BlameMany) as raised:
        seen.judge("scripts")
    assert [(blame.nodes, blame.where) for blame in raised.value.blames] == [(("node2",), (("run.sh", 3),))]
