"""Are crossed cables told by the subnets that two nodes share?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.subjects.network import Address, Network
from preflight.facts.subjects.rdma import Gid, Rdma
from preflight.judge.ledger.findings import Verdict
from preflight.testing import roce
from tests.checks.samples import judge, with_netdevs

CHECK = "rdma.ports_are_in_the_subnet_of_their_rail"


def mapped(address):
    """The GID of an IPv4 address."""
    a, b, c, d = (int(part) for part in address.split("."))
    return f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"


def cabled(order, *, prefix=31):
    """Two nodes whose ports are cabled to each other; `order` has the subnet of each port of the second."""
    run = roce(2).with_variables(NCCL_IB_HCA="mlx5_0,mlx5_1")
    for node, subnets, end in (("node1", (0, 1), 0), ("node2", order, 1)):
        (interface, *others) = run.facts(node, "network", Network).interfaces
        addresses = [f"10.9.{subnet}.{end + (prefix < 31)}" for subnet in subnets]
        for device, address in enumerate(addresses):
            run = run.broken_rdma_port(node, device, gids=(Gid(3, mapped(address), "RoCE v2", interface.name),))
        held = (*interface.addresses, *(Address(address, prefix, "inet") for address in addresses))
        interface = msgspec.structs.replace(interface, addresses=held)
        run = run.broken(node, "network", interfaces=(interface, *others))
    return run


def said(run):
    """What is warned of, by nodes."""
    return {finding.nodes: finding.message for finding in judge(CHECK, run) if finding.verdict is Verdict.WARN}


@pytest.mark.parametrize("prefix", [31, 30, 24])
def test_two_cables_that_are_crossed_are_told(prefix):
    """The first port of one node leads to the second of the other."""
    assert said(cabled((1, 0), prefix=prefix)) == {
        ("node1", "node2"): "the rails are crossed: by their subnets node[1-2] join mlx5_0:1 with mlx5_1:1, "
        "mlx5_1:1 with mlx5_0:1"
    }


@pytest.mark.parametrize("order", [(0, 1), (0, 7), (7, 8)])
def test_cables_in_order_are_no_fault(order):
    """Nor where only some lead to the other node, or none does."""
    assert said(cabled(order)) == {}


def test_ports_of_other_names_have_no_order():
    """The virtual functions of pods are numbered as they come."""
    run = cabled((1, 0))
    devices = list(run.facts("node2", "rdma", Rdma).devices)
    renamed = [msgspec.structs.replace(one, name=f"mlx5_{90 - place}") for place, one in enumerate(devices)]
    run = run.broken("node2", "rdma", devices=tuple(renamed)).with_variables("node2", NCCL_IB_HCA="mlx5_90,mlx5_89")
    assert said(run) == {}


def test_a_subnet_that_one_node_has_on_two_ports_tells_no_rail():
    """Its cables need not be crossed: the fabric of that subnet may have all ports."""
    run = with_netdevs(roce())
    assert said(run) == {}
    run = run.broken_interface("node2", "rdma1", addresses=(Address("10.1.0.99", 24, "inet"),))
    run = run.broken_rdma_port("node2", 1, gids=(Gid(3, mapped("10.1.0.99"), "RoCE v2", "rdma1"),))
    assert said(run) == {}
    away = run.broken_interface("node2", "rdma0", addresses=(Address("10.7.0.9", 24, "inet"),))
    away = away.broken_rdma_port("node2", 0, gids=(Gid(3, mapped("10.7.0.9"), "RoCE v2", "rdma0"),))
    assert list(said(away)) == [("node2",)]
