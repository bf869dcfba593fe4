"""Does what is expected follow the facts, the log and what was asked for?"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from preflight.facts.results import RING
from preflight.job.measure.expectations import expectations, is_over_tcp, uplinks_of
from preflight.testing import healthy, infiniband, roce
from preflight.testing.measured import transport
from tests.checks.samples import with_netdevs
from tests.job.measure.played import job_of

OPERATIONS = ["all_reduce", "all_gather", "sendrecv", "all_to_all", "gather"]


def expected_of(run, *, ranks_per_node=8, backend="nccl", operations=("all_reduce",), **more):
    """What is expected on the nodes of a made-up cluster."""
    job = job_of(*(name for name in run.names for _ in range(ranks_per_node)), backend=backend)
    job = replace(job, settings={**job.settings, "operations": list(operations)})
    return expectations(run.cluster, job, **more)


def by(algorithm, *names, **fields):
    """What the first rank of each of these nodes wrote into its log."""
    return tuple(
        msgspec.structs.replace(transport(rank, name), algorithms={"all_reduce": f"{algorithm} SIMPLE"}, **fields)
        for rank, name in enumerate(names)
    )


def test_each_collective_has_its_own_figure():
    """NVLink bounds the ring, one port sendrecv; nothing is known of gather."""
    found = expected_of(with_netdevs(roce(4)), operations=OPERATIONS)
    rates = {name: round(one.busbw_gbytes_per_s, 1) for name, one in found.items()}
    port = 50 * 4096 / 4178
    assert rates == {
        "all_reduce": 370.8,
        "all_gather": 370.8,
        "sendrecv": round(port, 1),
        "all_to_all": round(0.6 * port, 1),
        RING: 370.8,
    }


@pytest.mark.parametrize(("algorithm", "figure"), [("RING", 370.8), ("NVLS_TREE", 475.2), ("TREE", 370.8)])
def test_the_algorithm_in_the_log_decides(algorithm, figure):
    """On two nodes; the ring's own figure stays."""
    found = expected_of(with_netdevs(roce(2)), transports=by(algorithm, "node1", "node2"))
    assert found["all_reduce"].busbw_gbytes_per_s == pytest.approx(figure)
    assert found[RING].busbw_gbytes_per_s == pytest.approx(370.8)


def test_within_the_nodes_the_algorithm_of_most_of_them_counts():
    """A node whose switches do not add up is slower than what is expected, not the measure of it."""
    logs = (*by("NVLS", "node1", "node2"), *by("RING", "node3"))
    found = expected_of(with_netdevs(roce(3)), scope="intra", transports=logs)
    assert found["all_reduce"].busbw_gbytes_per_s == pytest.approx(475.2)


def test_rails_have_one_port_each():
    """One GPU a node uses one of eight."""
    found = expected_of(infiniband(3), scope="rails")
    assert found["all_reduce"].busbw_gbytes_per_s == pytest.approx(50 * 4096 / 4122)


def test_a_rack_is_told_by_the_log_alone():
    """NVLink's rate counts then, and not the ports'."""
    found = expected_of(with_netdevs(roce(2)), transports=by("RING", "node1", "node2", is_rack=True))
    assert found["all_reduce"].derivation == ("NVLink joins the 2 nodes (MNNVL): 370.8 GB/s",)
    assert found["all_reduce"].bound_gbytes_per_s is None


def test_what_was_held_to_a_ring_is_expected_to_run_as_one():
    """Whatever NCCL took by itself: the gate of the links is the ring's."""
    logs = by("NVLS_TREE", "node1", "node2")
    found = expected_of(with_netdevs(roce(2)).with_variables(NCCL_IB_HCA="=mlx5_0,mlx5_1"), transports=logs)
    assert found[RING].busbw_gbytes_per_s == pytest.approx(2 * 50 * 4096 / 4178)
    assert found["all_reduce"].busbw_gbytes_per_s == pytest.approx(found[RING].busbw_gbytes_per_s * 15 / 8)
    four = expected_of(with_netdevs(roce(4)), transports=by("NVLS", *(f"node{i}" for i in range(1, 5))))
    assert four[RING].bound_gbytes_per_s == pytest.approx(8 * 50 * 4096 / 4178 * 31 / 24)  # no switch adds up in it


def test_of_several_racks_each_brings_its_ports():
    """NVLink joins two nodes of four: to NCCL they are one, with the ports of both; nothing bounds or ensures that."""
    run = with_netdevs(roce(4)).with_variables(NCCL_IB_HCA="=mlx5_0,mlx5_1")
    logs = by("RING", *(f"node{i}" for i in range(1, 5)), is_rack=True, rack_ranks=16)
    found = expected_of(run, transports=logs)["all_reduce"]
    assert found.is_floor
    assert found.bound_gbytes_per_s is None
    assert "NVLink joins 2 nodes each, which bring their ports together" in found.derivation
    alone = expected_of(run, transports=by("RING", *(f"node{i}" for i in range(1, 5))))
    assert found.busbw_gbytes_per_s == pytest.approx(alone["all_reduce"].busbw_gbytes_per_s)
    lost = tuple(
        msgspec.structs.replace(one, is_rack=one.node != "node3", rack_ranks=16 * (one.node != "node3")) for one in logs
    )
    assert not expected_of(run, transports=lost)["all_reduce"].is_floor


def test_gloo_has_the_training_interface_and_no_gpu():
    """Whatever GPUs and adapters there are; one node has no link."""
    found = expected_of(roce(2), backend="gloo")
    assert found["all_reduce"].busbw_gbytes_per_s == pytest.approx(25 / 8 * 8948 / 9038)
    assert expected_of(healthy(1), backend="gloo", ranks_per_node=2) == {}
    assert expected_of(healthy(2), backend="gloo", scope="intra", ranks_per_node=2) == {}


@pytest.mark.parametrize(
    ("run", "backend", "transports", "is_tcp"),
    [
        (healthy(2), "gloo", (), True),
        (with_netdevs(roce(2)), "nccl", (), False),
        (with_netdevs(roce(2)), "nccl", (transport(0, "node1", "Socket", "eth0:10.0.0.1<0>"),), False),
        (
            with_netdevs(roce(2)),
            "nccl",
            tuple(transport(i, f"node{i + 1}", "Socket", f"eth0:10.0.0.{i + 1}<0>") for i in range(2)),
            True,
        ),
        (with_netdevs(roce(2)).with_variables(NCCL_IB_DISABLE="1"), "nccl", (), True),
    ],
)
def test_which_jobs_go_over_tcp(run, backend, transports, is_tcp):
    """By the log where there is one."""
    assert is_over_tcp(uplinks_of(run.cluster, backend=backend, transports=transports)) is is_tcp
