"""Is the node whose clock is off named?"""

from __future__ import annotations

import pytest

from preflight.facts.value import Missing
from preflight.judge.ledger.findings import Verdict
from preflight.testing import healthy
from tests.checks.samples import Broken, judge

BROKEN = (
    Broken(
        "clock.no_clock_drifted_during_the_run",
        healthy().broken("node2", "ending", offset_seconds=0.5),
        ("node2",),
        "the clock moved against the others during the run: +0.48 s on node2; wanted within 0.1 s",
    ),
    Broken(
        "clock.clocks_agree",
        healthy().broken("node3", "clock", offset_seconds=3600.0),
        ("node3",),
        "+3600 s (known to 0.005 s) on node3; wanted within 30 s",
    ),
    Broken(
        "clock.clocks_are_in_step",
        healthy().broken("node3", "clock", offset_seconds=-5.0),
        ("node3",),
        "on node3; wanted within 1 s",
    ),
    Broken(
        "clock.a_time_service_runs_where_the_peers_have_one",
        healthy().broken("node3", "machine", time_services=()),
        ("node3",),
        "no time service runs",
    ),
    Broken(
        "clock.a_time_service_runs_where_the_peers_have_one",
        healthy().broken("node3", "machine", clock_is_synchronised=False),
        ("node3",),
        "the kernel says that its clock is not synchronized",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to fix it."""
    broken.assert_named()


def test_an_offset_within_its_uncertainty_is_no_fault():
    """What the round trip leaves open counts for the node."""
    run = healthy().broken("node3", "clock", offset_seconds=1.5, uncertainty_seconds=0.9)
    assert {f.verdict for f in judge("clock.clocks_are_in_step", run)} == {Verdict.PASS}


def test_a_clock_that_is_hardly_known_is_not_measured():
    """An uncertainty above the limit gives no verdict."""
    run = healthy().broken("node3", "clock", uncertainty_seconds=2.0)
    verdicts = {f.nodes: f.verdict for f in judge("clock.clocks_are_in_step", run)}
    assert verdicts["node3",] is Verdict.ERROR


def test_a_controller_with_a_wrong_clock_blames_nobody():
    """The nodes are compared with each other: an offset they share is the controller's."""
    run = healthy()
    for name in run.names:
        run = run.broken(name, "clock", offset_seconds=7200.0)
    assert {f.verdict for f in judge("clock.clocks_agree", run)} == {Verdict.PASS}


def test_where_hardly_a_node_shows_a_time_service_none_is_missing():
    """Containers do not see the processes of their machine."""
    run = healthy()
    for name in ("node1", "node2"):
        run = run.broken(name, "machine", time_services=())
    findings = judge("clock.a_time_service_runs_where_the_peers_have_one", run)
    assert {finding.verdict for finding in findings} == {Verdict.PASS}


def test_a_node_that_hides_the_processes_of_others_may_have_a_time_service():
    """With hidepid nobody but root sees one."""
    run = healthy().broken("node3", "machine", time_services=Missing("processes of other users are hidden", "absent"))
    findings = judge("clock.a_time_service_runs_where_the_peers_have_one", run)
    assert {finding.verdict for finding in findings} == {Verdict.PASS}


def test_a_clock_that_is_far_off_is_told_once():
    """What breaks the start has a check of its own; the warning waits for it."""
    run = healthy().broken("node3", "clock", offset_seconds=90.0)
    (blocked,) = [one for one in judge("clock.clocks_are_in_step", run) if one.verdict is not Verdict.PASS]
    assert (blocked.verdict, blocked.nodes, blocked.blocked_by) == (Verdict.ERROR, ("node3",), "clock.clocks_agree")
