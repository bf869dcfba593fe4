"""Is each cause of a rehearsal a finding of its check, on its nodes, with its line?"""

from __future__ import annotations

import pytest

from preflight.facts.results.rehearsal import ABOUT, Cause
from preflight.judge.ledger.findings import Verdict, Where
from preflight.judge.views.rehearsal import CHECKS
from preflight.testing import healthy
from tests.checks.samples import Broken, judge


def cause(about, **fields):
    """Something that does not hold on node2."""
    usual = {"nodes": ("node2",), "message": f"{about} is wrong on node2", "where": (("run.sh", 7),)}
    return Cause(about=about, is_advisory=about == "pace", **{**usual, **fields})


BROKEN = tuple(
    Broken(CHECKS[about], healthy().rehearsal_has(cause(about)), ("node2",), f"{about} is wrong on node2")
    for about in ABOUT
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_it_names_the_node(broken):
    """And no other."""
    broken.assert_named()


def test_the_line_of_the_script_is_in_the_finding():
    """A program can read it from there."""
    found = judge(CHECKS["scripts"], healthy().rehearsal_has(cause("scripts", fix="mend it")))
    (bad,) = [finding for finding in found if finding.verdict is Verdict.FAIL]
    assert (bad.where, bad.fix) == ((Where("run.sh", 7),), "mend it")


def test_what_was_not_measured_is_an_error():
    """With the words to add."""
    found = judge(CHECKS["ranks"], healthy().rehearsal_has(cause("ranks", is_unmeasured=True, fix="add -x")))
    (bad,) = [finding for finding in found if finding.verdict is Verdict.ERROR]
    assert bad.nodes == ("node2",)
    assert "ranks is wrong on node2; add -x" in bad.message
