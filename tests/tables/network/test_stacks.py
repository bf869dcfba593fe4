"""Tests of preflight.tables.network.stacks; its findings are tested in tests/checks/test_network.py."""

from __future__ import annotations

from preflight.tables.network import stacks
from preflight.testing import healthy
from tests.checks.samples import with_interface


def test_an_address_of_one_machine_is_no_bridge_of_all():
    """What differs, and what one machine shows to two sessions."""
    run = healthy()
    for number, name in enumerate(run.names, 1):
        run = with_interface(run, name, "cni0", f"10.244.{number}.1")
    assert stacks.alike(run.cluster) == {}
