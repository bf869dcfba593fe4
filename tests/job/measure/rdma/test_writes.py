"""Is the RDMA port named that is slow by itself, and is it said where that could not be measured?"""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from preflight.facts.results import Slow
from preflight.job.measure.rdma import writes
from preflight.testing import infiniband, roce
from tests.checks.samples import with_netdevs
from tests.job.measure.played import PlayedNode, job_of

RATE = 48.7


def search(run, *, slow=(), without=(), failing=(), **more):
    """The search over the nodes of a cluster, of whose ports some send slowly, fail, or are without perftest."""
    ports = writes.ports_of(run.cluster)
    bad = {port.asked["number"] for port in ports if (port.node, port.name) in slow}
    broken = {port.asked["number"] for port in ports if (port.node, port.name) in failing}

    def said(number):
        if number in broken:
            return {"error": "Failed status 12: wr_id 0 syndrom 0x81"}
        return {"gbytes_per_s": 11.0 if number in bad else RATE}

    nodes = {node.name: PlayedNode({}, write=None if node.name in without else said) for node in run.cluster}
    return asyncio.run(writes.search(nodes, run.cluster, job_of(*nodes, backend="nccl"), threshold=0.8, **more))


def test_a_slow_port_is_named_with_its_direction():
    """Of four nodes with eight ports; nothing else is."""
    found = search(infiniband(4), slow={("node3", "mlx5_5:1")})
    assert found.slow == (
        Slow(
            nodes=("node3",),
            direction="egress",
            part="RDMA port mlx5_5:1",
            gbytes_per_s=11.0,
            peers_gbytes_per_s=RATE,
        ),
    )
    assert ("node3", "RDMA port mlx5_5:1", 11.0, RATE) in {
        (one.node, one.part, one.sends_gbytes_per_s, one.receives_gbytes_per_s) for one in found.parts
    }
    assert len(found.parts) == 32
    assert found.not_measured == ""


def test_healthy_ports_are_left_in_peace():
    """One look, and no name."""
    heard: list[str] = []
    found = search(infiniband(3), say=heard.append)
    assert (found.slow, found.not_measured) == ((), "")
    assert len(heard) == 1


def test_where_perftest_is_not_installed_that_is_said_and_nothing_is_measured():
    """The pairs of ranks over NCCL remain."""
    found = search(infiniband(3), without={"node2"})
    assert (found.parts, found.slow) == ((), ())
    assert found.not_measured == "node2: perftest (ib_write_bw) is not installed"


def test_a_port_that_cannot_write_is_told_in_perftests_words():
    """Its equals are compared all the same; where nothing was written, that is all."""
    found = search(infiniband(3), failing={("node2", "mlx5_0:1")})
    assert found.slow == ()
    assert found.not_measured.startswith("mlx5_0:1 of node2 to node")
    assert "Failed status 12" in found.not_measured
    none = search(infiniband(2), failing={(f"node{n}", f"mlx5_{port}:1") for n in (1, 2) for port in range(8)})
    assert none.parts == ()
    assert none.not_measured.endswith("and 13 more")


def test_it_ends_in_time(monkeypatch):
    """However many rounds there are."""
    monkeypatch.setattr(writes, "LONGEST_SECONDS", -1.0)
    assert search(infiniband(3)).not_measured == "not all was measured within -1 s"


@pytest.mark.parametrize(
    ("variables", "asked"),
    [
        ({"NCCL_IB_GID_INDEX": "3"}, {"gid": 3}),
        ({}, {"gid": 3}),  # the row that NCCL takes by itself
        (
            {"NCCL_IB_GID_INDEX": "3", "NCCL_IB_SL": "1", "NCCL_IB_TC": "106"},
            {"gid": 3, "level": 1, "traffic_class": 106},
        ),
    ],
)
def test_a_port_is_written_from_as_nccl_would(variables, asked):
    """With its row of the GID table, service level and traffic class."""
    (first, *_) = writes.ports_of(with_netdevs(roce(2)).with_variables(**variables).cluster)
    assert {name: value for name, value in first.asked.items() if name in writes_options()} == asked
    assert (first.asked["device"], first.asked["port"]) == ("mlx5_0", 1)


def writes_options():
    """The names that a call on a node knows."""
    from preflight.node.calls.rdma.perftest import OPTIONS

    return OPTIONS


def test_only_ports_that_nccl_takes_and_that_have_an_equal_are_measured():
    """By NCCL_IB_HCA; a name on one node only has nothing to be compared with."""
    run = infiniband(2).with_variables(NCCL_IB_HCA="=mlx5_0,mlx5_1")
    assert [space.name for space in writes.spaces(writes.ports_of(run.cluster))] == [
        "RDMA port mlx5_0:1",
        "RDMA port mlx5_1:1",
    ]
    lone = run.with_variables("node2", NCCL_IB_HCA="=mlx5_7")
    assert writes.spaces(writes.ports_of(lone.cluster)) == ()
    assert search(lone).not_measured == "no RDMA port has an equal on another node"


def test_only_what_a_port_cannot_do_is_no_figure():
    """5 % above its rate; a bond may carry more than the rate that its driver reports, which is that of one leg."""
    ports = {port.name: port for port in writes.ports_of(infiniband(2).cluster)}
    rate_gbps = next(iter(infiniband(2).cluster)).active_hcas()[0].port.rate_gbps
    assert ports["mlx5_0:1"].most_gbytes_per_s == pytest.approx(rate_gbps / 8 * 1.05)
    hca = next(iter(infiniband(2).cluster)).active_hcas()[0]
    bond = dataclasses.replace(hca, device="mlx5_bond_0")
    assert writes.port_limit(bond) == writes.FASTEST_GBYTES_PER_S
