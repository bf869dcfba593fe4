"""The port of rank 0."""

from __future__ import annotations

import pytest

from tests.launch.samples import config, failed, judged, rules, torchrun


@pytest.mark.parametrize("port", [0, 22, 65536, 99999])
def test_ports_that_cannot_be(port):
    """Out of range, ssh's, or chosen by each node alone."""
    assert failed({"n.sh": torchrun(port=port)}) == ["master_port_is_valid"]
    assert failed({"n.yaml": config(main_process_port=str(port))}) == ["master_port_is_valid"]


def test_ports_that_are_fragile():
    """Privileged and ephemeral ports warn, 29500 is silent."""
    assert [str(found.verdict) for found in judged({"n.sh": torchrun(port=80)})] == ["warn"]
    assert rules({"n.sh": torchrun(port=40000)}) == ["master_port_is_not_ephemeral"]
    assert rules({"n.sh": torchrun(port=29500)}) == []


def test_a_port_worked_out_on_every_node_fails():
    """$((RANDOM % 1000 + 20000)) in the script of every node."""
    script = torchrun().replace("--master_port=29500", "--master_port=$((RANDOM % 1000 + 20000))")
    assert failed({"n.sh": script}) == ["master_port_is_the_same_everywhere"]
