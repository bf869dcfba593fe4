"""Does Prometheus get the verdict, the nodes and the bandwidth, in base units?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.judge.ledger.findings import Finding, Verdict
from preflight.report.formats.metrics import metrics_text
from preflight.report.material import Material
from tests.report.readers import prometheus


@pytest.fixture
def families(planted):
    """What a strict parser reads of the planted run."""
    return prometheus(metrics_text(Material(planted)))


def test_verdict_and_counts_are_there(families):
    """One verdict is 1, the others 0; checks are counted by verdict."""
    verdicts = {dict(labels)["verdict"]: value for labels, value in families["preflight_verdict"].items()}
    assert verdicts == {"skip": 0, "pass": 0, "warn": 0, "error": 0, "fail": 1}
    checks = {dict(labels)["verdict"]: value for labels, value in families["preflight_checks"].items()}
    assert checks == {"skip": 12, "pass": 30, "warn": 0, "error": 6, "fail": 1}
    assert families["preflight_exit_code"] == {(): 1}
    assert families["preflight_run_started_seconds"] == {(): 1893553445.68}


def test_the_worst_verdict_of_each_node_is_there(families):
    """The node with the fault, and not those that only suffer from it."""
    assert set(families["preflight_node_worst_verdict"]) == {
        (("node", "node1"), ("verdict", "pass")),
        (("node", "node2"), ("verdict", "pass")),
        (("node", "node3"), ("verdict", "fail")),
    }


def test_figures_are_in_base_units(families):
    """Bytes a second and seconds, as the naming conventions ask."""
    assert set(families["preflight_busbw_bytes_per_second"].values()) == {0.1194e9}
    assert families["preflight_expected_busbw_bytes_per_second"] == {(): 0.1196e9}
    assert families["preflight_training_step_seconds"][(("node", "node3"),)] == 0.2
    assert families["preflight_stage_seconds"][(("stage", "facts"),)] == 0.4


def test_two_names_that_look_the_same_are_one_sample(make_report):
    """A sample twice would lose the whole file."""
    node = make_report().nodes["node1"]
    report = make_report(Finding("a.b", Verdict.PASS, ("a\x1b",), "m"), size=1, nodes={"a\x1b": node, "a\\x1b": node})
    assert len(prometheus(metrics_text(Material(report)))["preflight_node_reached"]) == 1


def test_an_odd_start_leaves_its_sample_out(make_report):
    """No date, no sample; the rest stands."""
    report = make_report()
    report = msgspec.structs.replace(report, run=msgspec.structs.replace(report.run, started="yesterday"))
    assert "preflight_run_started_seconds" not in prometheus(metrics_text(Material(report)))
