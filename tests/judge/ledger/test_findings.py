"""Which verdict counts, and which is the worst of several?"""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.judge.ledger.findings import (
    EXIT_CODES,
    EXIT_USAGE,
    SEVERITY,
    Command,
    Edit,
    Finding,
    Verdict,
    Where,
    worst,
)


@given(st.lists(st.sampled_from(list(Verdict)), max_size=8))
def test_the_order_of_findings_does_not_matter(verdicts):
    """The verdict of a set of findings is that of its reverse."""
    findings = [Finding("a.b", verdict, ("n1",), "m") for verdict in verdicts]
    assert worst(findings) is worst(reversed(findings))
    assert worst([]) is Verdict.SKIP


@pytest.mark.parametrize(
    ("verdict", "counted"),
    [
        (Verdict.FAIL, Verdict.WARN),
        (Verdict.WARN, Verdict.WARN),
        (Verdict.ERROR, Verdict.ERROR),
        (Verdict.PASS, Verdict.PASS),
        (Verdict.SKIP, Verdict.SKIP),
    ],
)
def test_a_waiver_makes_a_fail_a_warning_and_nothing_else(verdict, counted):
    """What was not measured stays so, whoever waives it."""
    finding = Finding("a.b", verdict, ("n1",), "m")
    assert finding.counted is verdict
    assert dataclasses.replace(finding, waived=True).counted is counted


def test_the_worse_a_verdict_the_more_it_weighs():
    """Fail, then error, then warn, then pass; a skip weighs nothing."""
    order = (Verdict.SKIP, Verdict.PASS, Verdict.WARN, Verdict.ERROR, Verdict.FAIL)
    assert sorted(SEVERITY, key=SEVERITY.__getitem__) == list(order)
    for place, verdict in enumerate(order):
        below = [Finding("a.b", other, ("n1",), "m") for other in order[: place + 1]]
        assert worst(below) is verdict


def test_only_pass_and_warn_end_in_0():
    """Every verdict has its code, and no other is a success."""
    assert {verdict for verdict, code in EXIT_CODES.items() if code == 0} == {Verdict.PASS, Verdict.WARN}
    assert set(EXIT_CODES) == set(Verdict)


def test_a_finding_cannot_be_changed_and_compares_by_what_it_says():
    """So that a report says what was judged."""
    finding = Finding("a.b", Verdict.FAIL, ("n1",), "m", where=(Where("f", 1),))
    assert finding == Finding("a.b", Verdict.FAIL, ("n1",), "m", where=(Where("f", 1),))
    with pytest.raises(dataclasses.FrozenInstanceError):
        finding.verdict = Verdict.PASS


def test_what_a_finding_does_not_say_is_empty():
    """So that no report shows a fix, an edit or a proof that nobody gave."""
    finding = Finding("a.b", Verdict.PASS, ("n1",), "m")
    assert dataclasses.astuple(finding)[4:] == ("", (), 0.0, False, "", (), (), "")
    assert Edit("f", 1, 1, ()).is_sure
    assert dataclasses.astuple(Command("n1", "true"))[2:] == ("", False, "", True, "")


def test_the_words_and_numbers_of_the_contract():
    """As reports hold them and callers compare them."""
    assert [str(verdict) for verdict in Verdict] == ["skip", "pass", "warn", "error", "fail"]
    assert dict(zip([*Verdict, "usage"], (5, 0, 0, 3, 1, 4), strict=True)) == EXIT_CODES | {"usage": EXIT_USAGE}


@pytest.mark.parametrize("value", [Where("f", 1), Edit("f", 1, 1, ()), Command("n1", "true")])
def test_no_part_of_a_finding_can_be_changed(value):
    """Nor the lines, edits and commands that it holds."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(value)[0].name, "other")
