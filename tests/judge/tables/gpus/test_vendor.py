"""Tests of preflight.judge.tables.gpus.vendor; what becomes of each finding is in tests/checks/test_vendor.py."""

import pytest

from preflight.judge.tables.gpus import vendor
from preflight.testing import roce


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_equal_copies_are_well_on_any_number_of_nodes(nodes):
    """On one and two nodes all copies of a kind are held against each other."""
    assert vendor.slow_copies(roce(nodes).cluster, share=0.8) == []
