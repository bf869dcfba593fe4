"""Is everything that differs between two runs found, and nothing called fixed that was not measured?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.judge.ledger.findings import Finding, Verdict
from preflight.report.compare import Snapshot, changes

FAIL, WARN, ERROR, PASS, SKIP = Verdict.FAIL, Verdict.WARN, Verdict.ERROR, Verdict.PASS, Verdict.SKIP


def finding(verdict, *nodes, message="", check="a.b", **fields):
    return Finding(check, verdict, nodes or ("node1",), message or f"says {verdict}", **fields)


@pytest.mark.parametrize(
    ("before", "now", "kind"),
    [
        (PASS, FAIL, "new"),
        (PASS, WARN, "new"),
        (SKIP, ERROR, "new"),
        (None, FAIL, "new"),
        (ERROR, FAIL, "new"),
        (WARN, FAIL, "new"),
        (FAIL, FAIL, "standing"),
        (FAIL, WARN, "standing"),
        (FAIL, ERROR, "standing"),
        (FAIL, PASS, "fixed"),
        (ERROR, PASS, "fixed"),
        (FAIL, SKIP, "not judged now"),
        (FAIL, None, "not judged now"),
        (PASS, SKIP, ""),
        (PASS, None, ""),
        (PASS, PASS, ""),
    ],
)
def test_a_cell_is_of_one_kind(make_report, before, now, kind):
    """Worse is new, better but bad is standing, and only a pass is a fix."""
    reports = [make_report(*([finding(verdict)] if verdict else [])) for verdict in (before, now)]
    found = changes(*(Snapshot(report) for report in reports)).findings
    assert [word for word, told in found.items() if told] == ([kind] if kind else [])


def test_cells_that_went_the_same_way_are_one_change(make_report):
    """Nodes of one message together, checks of one error together, consequences last."""
    then = make_report(finding(PASS, "node1", "node2"), finding(PASS, "node1", check="c.d"))
    words = "not started: a.b on node2"
    blocked = [finding(ERROR, "node1", message=words, check=name, blocked_by="a.b") for name in ("c.d", "e.f")]
    now = make_report(finding(FAIL, "node2", message="off"), finding(PASS, "node1"), *blocked)
    first, *rest = changes(Snapshot(then), Snapshot(now)).new
    assert (first.checks, first.nodes, first.message) == (("a.b",), ("node2",), "off")
    assert [(change.checks, change.before) for change in rest] == [(("c.d",), PASS), (("e.f",), None)]


def test_a_waived_fail_compares_as_a_warning(make_report):
    """Waiving what failed before is no fix, and no news."""
    then, now = make_report(finding(FAIL)), make_report(finding(FAIL, waived=True))
    (change,) = changes(Snapshot(then), Snapshot(now)).standing
    assert change.verdict is WARN


def test_facts_that_changed_are_told_with_their_nodes(make_report):
    """A fact that is gone reads as none; a node that is new, or did not answer, has not changed."""
    then = Snapshot(make_report(), {"node1": {"MTU": "9000", "torch": "2"}, "node2": {"MTU": "9000"}})
    now = Snapshot(make_report(), {"node1": {"MTU": "1500"}, "node2": {"MTU": "1500"}, "node3": {"MTU": "1500"}})
    told = [(change.fact, change.nodes, change.before, change.now) for change in changes(then, now).facts]
    assert told == [("MTU", ("node1", "node2"), "9000", "1500"), ("torch", ("node1",), "2", "none")]


def test_bandwidth_is_compared_at_the_same_size_only(make_report, bench):
    """Two sizes then, one of them now: one drift, with both intervals."""
    first, second = bench.results
    slower = msgspec.structs.replace(second, busbw_gbytes_per_s=0.05, busbw_high_gbytes_per_s=0.06)
    other = msgspec.structs.replace(first, bytes=5)
    then = Snapshot(make_report(bench=bench))
    now = Snapshot(make_report(bench=msgspec.structs.replace(bench, results=(other, slower))))
    (drift,) = changes(then, now).bandwidth
    assert (drift.bytes, drift.trend) == (second.bytes, "slower")
    assert (drift.before_low_gbytes_per_s, drift.now_gbytes_per_s) == (second.busbw_low_gbytes_per_s, 0.05)


def test_nodes_that_came_and_went_are_named(make_report):
    """And their cells are neither new nor fixed by going."""
    then = make_report(finding(FAIL, "node3"))
    told = changes(Snapshot(then), Snapshot(make_report(size=2)))
    assert (told.nodes_added, told.nodes_removed) == ((), ("node3",))
    assert not any(told.findings.values())
