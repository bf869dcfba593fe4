"""Tests of preflight.node.sources.rdma_ports; whole devices are those of the subject's tests."""

import pytest

from preflight.node.sources import rdma_ports


@pytest.mark.parametrize("text", ["", "4: A", "4: ACTIV"])
def test_a_state_that_was_cut_short_is_not_known(tmp_path, text):
    """A word that the kernel never writes is no state that a port has."""
    (tmp_path / "state").write_text(f"{text}\n")
    assert rdma_ports.state(str(tmp_path)) == rdma_ports.UNKNOWN_STATE


@pytest.mark.parametrize("text", ["", "Ether"])
def test_a_link_layer_that_was_cut_short_is_not_known(tmp_path, text):
    """Else the port would silently be none that NCCL can take."""
    (tmp_path / "link_layer").write_text(f"{text}\n")
    arguments = {"sysfs": str(tmp_path), "proc": str(tmp_path)}
    assert rdma_ports.port(str(tmp_path), number=1, arguments=arguments)["link_layer"] == rdma_ports.UNKNOWN_STATE
