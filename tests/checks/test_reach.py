"""Are silent nodes and doubled machines named?"""

from __future__ import annotations

import pytest

from preflight.judge.ledger.findings import Verdict
from preflight.testing import healthy
from tests.checks.samples import Broken, judge


def _same_machine():
    run = healthy()
    for subject in ("identity", "network"):
        run = run.with_subject("node3", subject, run.subjects["node1"][subject])
    return run


BROKEN = (
    Broken("reach.every_node_answers", healthy().broken("node3", "identity", hostname=""), ("node3",), "hostname"),
    Broken(
        "reach.no_machine_is_named_twice",
        _same_machine(),
        ("node1", "node3"),
        "one machine under several names: node1 and node3",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to fix it."""
    broken.assert_named()


def test_a_host_that_did_not_answer_is_an_error_and_the_others_are_judged():
    """An unreachable host is not measured, which is neither pass nor fail."""
    run = healthy()
    run = run.unreached("node2")
    verdicts = {finding.nodes: finding.verdict for finding in judge("reach.every_node_answers", run)}
    assert verdicts == {("node2",): Verdict.ERROR, ("node1", "node3"): Verdict.PASS}


def test_containers_of_one_machine_are_nodes_of_their_own():
    """Two containers share a kernel, but not a network namespace: no machine is named twice."""
    run = healthy().broken("node1", "identity", boot_id="boot-1:2")
    assert [finding.verdict for finding in judge("reach.no_machine_is_named_twice", run)] == [Verdict.PASS]
