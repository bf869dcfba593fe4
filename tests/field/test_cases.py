"""Is each failure that people reported from the field caught, on the right node and with a fix?"""

from __future__ import annotations

import json

import pytest

from preflight.judge.ledger.findings import Verdict
from preflight.launch.rules.check import check_texts
from tests.checks.samples import judge
from tests.field.cases import CASES, Caught, Unseen, Written
from tests.recordings import REPORTED

MOST_UNSEEN = 10
MOST_WARNINGS = 24
BAD = {Verdict.FAIL, Verdict.WARN}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if isinstance(case, Caught)])
def test_a_broken_cluster_is_told_with_its_node(name):
    """The check names exactly the broken nodes, with the verdict that the case deserves, and how to fix it."""
    case = CASES[name]
    broken = [finding for finding in judge(case.check, case.run()) if finding.verdict is Verdict(case.verdict)]
    assert {node for finding in broken for node in finding.nodes} == set(case.nodes), broken
    assert case.words in "; ".join(finding.message for finding in broken)
    assert all(finding.fix for finding in broken if finding.verdict in BAD)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if isinstance(case, Written)])
def test_a_mistake_in_launch_files_is_told_with_its_line(name):
    """The rule names a line of the file, the nodes where a cluster shows them, and how to fix it."""
    case = CASES[name]
    findings, _ = check_texts(case.texts, case.run().cluster if case.run else None)
    broken = [f for f in findings if f.check == f"launch.{case.rule}" and f.verdict is Verdict(case.verdict)]
    assert broken, findings
    assert {node for finding in broken for node in finding.nodes} == set(case.nodes)
    assert all(finding.where and finding.fix for finding in broken)


def test_what_surely_stops_a_job_is_no_warning():
    """The others cost speed, or stop one launcher or program of several."""
    verdicts = [case.verdict for case in CASES.values() if not isinstance(case, Unseen)]
    assert verdicts.count("warn") <= MOST_WARNINGS


def test_hardly_any_is_beyond_a_preflight():
    """At most ten, each with the reason."""
    unseen = [case for case in CASES.values() if isinstance(case, Unseen)]
    assert len(unseen) <= MOST_UNSEEN
    assert all(case.why for case in unseen)


@pytest.mark.skipif(not REPORTED.exists(), reason="the reports of the field are not here")
def test_every_report_has_its_case():
    """None is left out, and none is made up."""
    assert {json.loads(line)["id"] for line in REPORTED.read_text().splitlines()} == set(CASES)
