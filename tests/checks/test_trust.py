"""Is the node that cannot log in to its peers named?"""

from __future__ import annotations

import pytest

from preflight.ledger.findings import Verdict
from preflight.testing import healthy, roce
from tests.checks.samples import Broken, judge, logs_in, with_interface

BROKEN = (
    Broken(
        "trust.every_node_logs_in_to_the_others",
        logs_in(roce(), "node2", trouble="Permission denied (publickey)."),
        ("node2",),
        "cannot log in to node1 (Permission denied (publickey).)",
    ),
    Broken(
        "trust.python_is_found_over_ssh",
        logs_in(roce(), "node2", python=""),
        ("node2",),
        "the job's Python is not found on node1",
    ),
    Broken(
        "trust.first_address_of_the_first_node_is_the_one_to_reach",
        with_interface(roce(), "node1", "virbr1", "192.168.121.122", first=True),
        ("node1",),
        "`hostname -I` on node1 begins with 192.168.121.122; its training interface has 10.0.0.1",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to fix it."""
    broken.assert_named()


def test_trust_is_not_judged_where_nobody_asked_for_it():
    """Most launchers log in from outside, or not at all."""
    assert {finding.verdict for finding in judge("trust.python_is_found_over_ssh", healthy())} == {Verdict.SKIP}
