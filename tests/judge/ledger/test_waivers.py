"""Does a waiver hold for what it names, as long as it says, and is every other one spoken of?"""

from __future__ import annotations

from datetime import date

import pytest

from preflight.judge.ledger.findings import Finding, Verdict
from preflight.judge.ledger.ledger import Ledger
from preflight.judge.ledger.waivers import Waiver, remarks, waive
from preflight.judge.settings import load_settings
from preflight.said.errors import UsageError

TODAY = date(2030, 6, 1)
WAIVER = Waiver("a.b", ("node2", "node3"), "known", "alice", date(2030, 6, 1))
FAIL = Finding("a.b", Verdict.FAIL, ("node1", "node2"), "off", "mend it")
FILE = """
[[waivers]]
check = "a.b"
nodes = "node[2-3]"
reason = "known"
owner = "alice"
expires = 2030-06-01
"""


def load(tmp_path, text):
    (tmp_path / "preflight.toml").write_text(text)
    return load_settings(tmp_path / "preflight.toml").waivers


def test_a_file_gives_waivers_in_order(tmp_path):
    """Nodes as --hosts writes them, or * for all; the day as TOML's own or as text."""
    everywhere = FILE.replace("node[2-3]", "*").replace("2030-06-01", '"2030-06-01"')
    assert load(tmp_path, FILE + everywhere) == (WAIVER, Waiver("a.b", (), "known", "alice", TODAY))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('owner = "alice"\n', "", "waiver 1: owner is missing; wanted check, nodes, reason, owner, expires"),
        ('"alice"', '" "', "waiver 1: owner: wanted a text, got ' '"),
        ('"known"', "3", "waiver 1: reason: wanted a text, got '3'"),
        ("owner", "woner = 1\nowner", "waiver 1: unknown key 'woner'"),
        ("2030-06-01", '"June"', "waiver 1: expires: wanted a day such as 2026-12-31, got 'June'"),
        ("2030-06-01", "2030-06-01T00:00:00", "waiver 1: expires: wanted a day"),
        ("2030-06-01", "5", "waiver 1: expires: wanted a day"),
        ("node[2-3]", "node[2-", "waiver 1: nodes: "),
        ("node[2-3]", "-x", "waiver 1: nodes: "),
        ("[[waivers]]", "[waivers]", "waivers: wanted tables [[waivers]]"),
    ],
)
def test_a_bad_waiver_is_refused_by_its_number(tmp_path, old, new, told):
    """One line with file, number, key and what was wanted."""
    with pytest.raises(UsageError) as caught:
        load(tmp_path, FILE.replace(old, new))
    assert told in str(caught.value)
    assert "preflight.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_waived_fail_stays_and_counts_as_a_warning():
    """The nodes that are waived stand apart, with who, why and until when; the others still fail."""
    rest, waived = waive(FAIL, (WAIVER,), today=TODAY)
    assert (rest.nodes, rest.waived, rest.counted) == (("node1",), False, Verdict.FAIL)
    assert (waived.nodes, waived.verdict, waived.counted) == (("node2",), Verdict.FAIL, Verdict.WARN)
    assert waived.message == "off (waived by alice until 2030-06-01: known)"
    assert waived.fix == "mend it"


def test_an_expired_waiver_and_one_of_another_check_change_nothing():
    """From the day after on the finding is as if there were none."""
    assert waive(FAIL, (WAIVER,), today=date(2030, 6, 2)) == (FAIL,)
    assert waive(FAIL, (Waiver("a.c", (), "known", "alice", TODAY),), today=TODAY) == (FAIL,)


@pytest.mark.parametrize("verdict", [Verdict.ERROR, Verdict.PASS, Verdict.SKIP])
def test_what_was_not_measured_cannot_be_waived(verdict):
    """Nobody knows what they would live with."""
    finding = Finding("a.b", verdict, ("node2",), "why")
    assert waive(finding, (WAIVER,), today=TODAY) == (finding,)


def test_the_ledger_counts_a_waived_fail_as_a_warning():
    """Exit code 0, or 1 with --fail-on-warn; every cell still has its verdict."""
    ledger = Ledger(waive=lambda finding: waive(finding, (WAIVER,), today=TODAY))
    ledger.expect("a.b", ("node2", "node3"))
    ledger.record(Finding("a.b", Verdict.FAIL, ("node2", "node3"), "off"))
    assert (ledger.exit_code(), ledger.exit_code(fail_on_warn=True), ledger.missing()) == (0, 1, [])


def test_waivers_that_hold_nothing_are_spoken_of():
    """Expired ones, and those that nothing matched; not those whose check was not asked."""
    good = Finding("a.b", Verdict.PASS, ("node2",), "holds")
    (told,) = remarks((WAIVER,), (good,), not_asked=(), today=TODAY)
    assert told.startswith("waiver of a.b by alice (until 2030-06-01) matches nothing that was found")
    assert remarks((WAIVER,), (good,), not_asked=("a.b",), today=TODAY) == ()
    assert remarks((WAIVER,), (FAIL,), not_asked=(), today=TODAY) == ()
    (told,) = remarks((WAIVER,), (FAIL,), not_asked=(), today=date(2031, 1, 1))
    assert "has expired" in told
