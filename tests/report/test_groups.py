"""Is one cause told once?"""

from preflight.judge.ledger.findings import Finding, Verdict
from preflight.report.document import Counts
from preflight.report.groups import Order, checks_by_verdict, groups, not_asked_text


def test_findings_of_one_message_are_one_group(make_report):
    """Sixty checks blocked by one host are one thing to a reader; nodes come in HOSTS order."""
    report = make_report(
        Finding("a.a", Verdict.ERROR, ("node3",), "blocked by x", blocked_by="x"),
        Finding("b.b", Verdict.ERROR, ("node1", "node3"), "blocked by x", blocked_by="x"),
        Finding("c.c", Verdict.ERROR, ("node2",), "not measured: nvidia-smi timed out"),
    )
    cause, consequence = groups(report, Verdict.ERROR)
    assert (cause.checks, cause.is_consequence) == (("c.c",), False)
    assert (consequence.checks, consequence.nodes, consequence.is_consequence) == (
        ("a.a", "b.b"),
        ("node1", "node3"),
        True,
    )


def test_a_different_fix_is_a_different_thing_to_do(make_report):
    """Two commands are never merged into one."""
    report = make_report(
        Finding("a.a", Verdict.FAIL, ("node1",), "m", "do x"), Finding("a.b", Verdict.FAIL, ("node1",), "m", "do y")
    )
    assert [group.fix for group in groups(report, Verdict.FAIL)] == ["do x", "do y"]


def test_two_broken_checks_are_never_one_thing(make_report):
    """Each keeps its name, whatever the words."""
    report = make_report(Finding("a.a", Verdict.FAIL, ("node1",), "m"), Finding("a.b", Verdict.FAIL, ("node1",), "m"))
    assert [group.checks for group in groups(report, Verdict.FAIL)] == [("a.a",), ("a.b",)]


def test_a_waived_fail_is_among_the_warnings(make_report):
    """It is shown where it counts, and marked."""
    report = make_report(Finding("a.a", Verdict.FAIL, ("node1",), "m", waived=True))
    assert groups(report, Verdict.FAIL) == ()
    assert groups(report, Verdict.WARN)[0].is_waived


def test_a_check_is_counted_once_under_its_worst_verdict(make_report):
    """A check that passes on two nodes and fails on the third has failed."""
    report = make_report(
        Finding("a.a", Verdict.PASS, ("node1", "node2"), "m"),
        Finding("a.a", Verdict.FAIL, ("node3",), "n"),
        Finding("a.b", Verdict.PASS, ("node1",), "m"),
        Finding("a.b", Verdict.SKIP, ("node2",), "s"),
    )
    counted = checks_by_verdict(report)
    assert (counted[Verdict.FAIL], counted[Verdict.PASS], counted[Verdict.SKIP]) == (("a.a",), ("a.b",), ())


def test_names_come_in_the_order_of_the_hosts(make_report):
    """A stranger comes last."""
    assert Order(make_report(size=12)).of(["x", "node10", "node2", "node2"]) == ("node2", "node10", "x")


def test_an_error_that_is_only_worded_like_a_consequence_is_a_cause(make_report):
    """The check behind it makes a consequence, and not the first words of a message."""
    report = make_report(
        Finding("a.a", Verdict.ERROR, ("node1",), "blocked by a firewall"),
        Finding("b.b", Verdict.ERROR, ("node1",), "blocked by a firewall", blocked_by="x.y"),
    )
    assert [(group.checks, group.is_consequence) for group in groups(report, Verdict.ERROR)] == [
        (("a.a",), False),
        (("b.b",), True),
    ]


def test_what_left_checks_out_is_said_with_how_many(make_report):
    """One reason without repeating the number, several with theirs, and none in a report that holds none."""
    counts = Counts(expected=0, judged=0, not_asked=3)
    several = {"--ignore": ("c.d",), "-k": ("a.a", "a.b")}
    assert not_asked_text(make_report()) == ""
    assert not_asked_text(make_report(ledger=counts)) == "3 checks not asked for"
    assert (
        not_asked_text(make_report(ledger=counts, not_asked={"-k": ("a", "b", "c")})) == "3 checks not asked for (-k)"
    )
    assert (
        not_asked_text(make_report(ledger=counts, not_asked=several)) == "3 checks not asked for (2: -k, 1: --ignore)"
    )
