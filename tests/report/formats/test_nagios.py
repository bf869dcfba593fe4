"""Does a monitoring system get the right state, on one line, with figures it can draw?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.judge.ledger.findings import Finding, Verdict
from preflight.report.formats.nagios import nagios_code, nagios_line
from preflight.report.material import Material


@pytest.mark.parametrize(
    ("verdict", "state", "code"),
    [
        (Verdict.PASS, "OK", 0),
        (Verdict.WARN, "WARNING", 1),
        (Verdict.FAIL, "CRITICAL", 2),
        (Verdict.ERROR, "UNKNOWN", 3),
        (Verdict.SKIP, "UNKNOWN", 3),
    ],
)
def test_the_state_is_the_verdict(make_report, verdict, state, code):
    """As the guidelines for plugins name and number it; what was not measured is never OK."""
    report = make_report(Finding("a.b", verdict, ("node1",), "m"))
    assert nagios_line(Material(report)).startswith(f"PREFLIGHT {state} - ")
    assert nagios_code(report) == code


def test_an_unfinished_run_is_unknown(make_report):
    """Whatever had passed until then."""
    report = make_report(Finding("a.b", Verdict.PASS, ("node1",), "m"))
    assert nagios_code(msgspec.structs.replace(report, finished=False)) == 3
    assert nagios_code(msgspec.structs.replace(report, exit_code=130)) == 3


def test_the_line_names_check_node_and_cause(planted):
    """What an operator needs in a message of one line, then the figures."""
    text, _, figures = nagios_line(Material(planted)).partition(" | ")
    assert "NO-GO" in text
    assert "network.mtu_is_the_same_on_every_node on node3: mtu of the training interface" in text
    counts = "skip=12 pass=30 warn=0 error=6 fail=1"
    assert figures == f"{counts} seconds=41.2s mesh_failed=0 busbw=0.1194\n"
