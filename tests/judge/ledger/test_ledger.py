"""Can a run be green when something was not measured?"""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.judge.ledger.findings import Finding, Verdict
from preflight.judge.ledger.ledger import Cell, Ledger
from tests.bench.ledger import survivor

GOOD = (Verdict.PASS, Verdict.WARN, Verdict.SKIP)


def judged(*verdicts, waived=False):
    """A closed ledger with one check a verdict on one node."""
    ledger = Ledger()
    for number, verdict in enumerate(verdicts):
        ledger.expect(f"a.check{number}", ["n1"])
        ledger.record(Finding(f"a.check{number}", verdict, ("n1",), "m", waived=waived))
    return ledger


@pytest.mark.parametrize(
    ("verdicts", "overall", "code"),
    [
        ((), Verdict.SKIP, 5),
        ((Verdict.SKIP,), Verdict.SKIP, 5),
        ((Verdict.PASS,), Verdict.PASS, 0),
        ((Verdict.PASS, Verdict.SKIP), Verdict.PASS, 0),
        ((Verdict.WARN, Verdict.PASS), Verdict.WARN, 0),
        ((Verdict.ERROR, Verdict.PASS), Verdict.ERROR, 3),
        ((Verdict.ERROR, Verdict.WARN), Verdict.ERROR, 3),
        ((Verdict.FAIL, Verdict.PASS), Verdict.FAIL, 1),
        ((Verdict.ERROR, Verdict.FAIL, Verdict.WARN, Verdict.PASS, Verdict.SKIP), Verdict.FAIL, 1),
    ],
)
def test_the_worst_verdict_decides_the_exit_code(verdicts, overall, code):
    """Fail > error > warn > pass; nothing asked, or all skipped, is 5."""
    ledger = judged(*verdicts)
    assert (ledger.verdict(), ledger.exit_code()) == (overall, code)


def test_fail_on_warn_turns_a_warning_into_a_fail_and_nothing_else():
    """--fail-on-warn does not touch pass, error or skip."""
    assert judged(Verdict.WARN).exit_code(fail_on_warn=True) == 1
    assert judged(Verdict.PASS).exit_code(fail_on_warn=True) == 0
    assert judged(Verdict.ERROR).exit_code(fail_on_warn=True) == 3
    assert judged(Verdict.SKIP).exit_code(fail_on_warn=True) == 5


def test_a_waived_fail_counts_as_a_warn_and_stays_a_fail_in_the_findings():
    """A waiver changes what follows, not what was found; a waived error is still not measured."""
    ledger = judged(Verdict.FAIL, waived=True)
    assert (ledger.verdict(), ledger.exit_code(), ledger.exit_code(fail_on_warn=True)) == (Verdict.WARN, 0, 1)
    assert ledger.findings[0].verdict is Verdict.FAIL
    assert judged(Verdict.ERROR, waived=True).exit_code() == 3


def test_a_cell_nobody_judged_is_an_error():
    """What was expected and got no verdict makes the run red, and close() says why for every node."""
    ledger = judged(Verdict.PASS)
    ledger.expect("b.late", ["n2", "n10", "stranger"])
    assert (ledger.verdict(), ledger.exit_code()) == (Verdict.ERROR, 3)
    assert ledger.missing() == [Cell("b.late", "n10"), Cell("b.late", "n2"), Cell("b.late", "stranger")]
    ledger.close("the deadline was reached", ["n1", "n2", "n10"])
    assert ledger.missing() == []
    finding = ledger.findings[-1]
    assert finding.nodes == ("n2", "n10", "stranger")
    assert finding.message == "not measured: the deadline was reached"
    assert ledger.exit_code() == 3


def test_a_failing_cell_is_still_a_fail_when_others_are_missing():
    """A fail is known whatever else is not."""
    ledger = judged(Verdict.FAIL)
    ledger.expect("b.late", ["n1"])
    assert ledger.exit_code() == 1


@pytest.mark.parametrize(
    ("finding", "reason"),
    [
        (Finding("a.other", Verdict.PASS, ("n1",), "a check nobody asked"), "a.other is not expected of n1"),
        (Finding("a.check0", Verdict.PASS, ("n2", "n9"), "a node nobody asked"), "a.check0 is not expected of n9"),
        (Finding("a.check0", Verdict.PASS, ("n2", "n2"), "a node twice"), "a.check0 names a node twice"),
        (Finding("a.check0", Verdict.PASS, ("n2", "n1"), "a cell judged before"), "a.check0 judged n1 twice"),
        (Finding("a.check0", Verdict.PASS, (), "good news about nobody"), "a.check0: pass of no node"),
        (Finding("a.check0", Verdict.SKIP, (), "a skip of nobody"), "a.check0: skip of no node"),
    ],
)
def test_a_finding_that_does_not_fit_is_refused_whole(finding, reason):
    """A node cannot widen the ledger or judge twice, and a refused finding leaves no trace."""
    ledger = judged(Verdict.PASS)
    ledger.expect("a.check0", ["n2"])
    assert ledger.cells == 2
    with pytest.raises(ValueError, match=reason):
        ledger.record(finding)
    assert (ledger.judged, len(ledger.findings), ledger.missing()) == (1, 1, [Cell("a.check0", "n2")])


def test_a_verdict_of_another_type_is_refused():
    """The word "pass" is not a verdict."""
    ledger = Ledger()
    ledger.expect("a.b", ["n1"])
    with pytest.raises(TypeError):
        ledger.record(Finding("a.b", "pass", ("n1",), "m"))
    assert ledger.exit_code() == 3


def test_bad_news_about_no_node_counts():
    """A fail of a launch file names no node and still stops the job."""
    ledger = judged(Verdict.PASS)
    ledger.record(Finding("launch.rule", Verdict.FAIL, (), "two files disagree"))
    assert ledger.exit_code() == 1


def test_the_list_of_findings_is_a_copy():
    """Taking an item from it does not change what was judged."""
    ledger = judged(Verdict.FAIL)
    ledger.findings.clear()
    assert ledger.exit_code() == 1


PASSING = st.lists(st.lists(st.sampled_from(GOOD), min_size=1, max_size=4), min_size=1, max_size=5).filter(
    lambda checks: any(verdict is not Verdict.SKIP for verdicts in checks for verdict in verdicts)
)


def build(checks, *, without=None, instead=None):
    """A ledger of check -> verdict per node; `without` drops one cell, `instead` gives it another verdict."""
    ledger = Ledger()
    for number, verdicts in enumerate(checks):
        ledger.expect(f"a.c{number}", [f"n{node}" for node in range(len(verdicts))])
        for node, verdict in enumerate(verdicts):
            if (number, node) == without:
                continue
            shown = instead[1] if instead and instead[0] == (number, node) else verdict
            ledger.record(Finding(f"a.c{number}", shown, (f"n{node}",), "m"))
    return ledger


@given(PASSING, st.data())
def test_losing_or_spoiling_any_cell_of_a_passing_ledger_makes_it_not_pass(checks, data):
    """A deleted cell, a lost finding and a worse verdict each end the pass."""
    assert build(checks).exit_code() == 0
    cells = [(number, node) for number, verdicts in enumerate(checks) for node in range(len(verdicts))]
    cell = data.draw(st.sampled_from(cells))
    assert build(checks, without=cell).exit_code() == 3
    assert build(checks, instead=(cell, Verdict.ERROR)).exit_code() == 3
    assert build(checks, instead=(cell, Verdict.FAIL)).exit_code() == 1
    spoiled = build(checks)
    spoiled._open[f"a.c{cell[0]}"].add(f"n{cell[1]}")
    assert spoiled.exit_code() == 3
    lost = build(checks)
    lost._recorded.pop(cells.index(cell))
    assert lost.exit_code() == 3
    renamed = build(checks)
    position = cells.index(cell)
    renamed._recorded[position] = dataclasses.replace(renamed._recorded[position], nodes=("elsewhere",))
    assert renamed.exit_code() == 3


def test_what_is_left_out_is_kept_by_its_first_reason():
    """A check that a profile left out is not counted again for what came later."""
    ledger = Ledger()
    for check, reason in (("a.b", "profile quick"), ("c.d", "-k"), ("a.b", "-k"), ("e.f", "-k")):
        ledger.leave_out(check, reason)
    assert ledger.left_out() == {"profile quick": ("a.b",), "-k": ("c.d", "e.f")}
    assert (ledger.expected, ledger.exit_code()) == ({}, 5)


def test_however_a_passing_ledger_is_damaged_it_passes_no_longer():
    """300 of the ways that python -m tests.bench.ledger takes 10,000 of."""
    assert [words for seed in range(300) if (words := survivor(seed))] == []


def test_a_verdict_shows_no_secret_and_is_given_back_as_it_counts():
    """Whatever printed it on a node: it is hidden before anything else sees it."""
    ledger = Ledger()
    ledger.expect("a.b", ["n1"])
    told = Finding("a.b", Verdict.FAIL, ("n1",), "rank 0: HF_TOKEN=xyzzy is refused", "`export HF_TOKEN=xyzzy`")
    (counting,) = ledger.record(told)
    assert (counting.message, counting.fix) == ("rank 0: HF_TOKEN=[hidden] is refused", "`export HF_TOKEN=[hidden]`")
    assert ledger.findings == [counting]
    assert ledger.site_checks == set()


def test_a_finding_that_is_taken_back_was_never_expected():
    """Its own nodes alone; of a check that has no other node nothing is left."""
    ledger = Ledger()
    ledger.expect("a.one", ["n1", "n2", "n3"])
    ledger.expect("a.two", ["n1"])
    first = Finding("a.one", Verdict.ERROR, ("n1",), "m")
    second = Finding("a.two", Verdict.ERROR, ("n1",), "m")
    for finding in (first, second, Finding("a.one", Verdict.PASS, ("n2",), "m")):
        ledger.record(finding)
    ledger.take_back(first)
    assert ledger.expected == {"a.one": {"n2", "n3"}, "a.two": {"n1"}}
    assert list(ledger.missing()) == [Cell("a.one", "n3")]
    ledger.take_back(second)
    assert ledger.expected == {"a.one": {"n2", "n3"}}
    assert [finding.verdict for finding in ledger.findings] == [Verdict.PASS]
