"""Does a node answer what checks ask of it, across its subjects?"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from preflight.facts.node import NodeFacts
from preflight.facts.subjects import ON_DEMAND
from preflight.facts.subjects.network import Address
from preflight.facts.value import Missing
from preflight.said.errors import BlockedBy, FactMissing
from preflight.testing import healthy, roce
from tests.checks.samples import without_gid

HEALTHY = sorted(roce().subjects["node1"])


def node(run=None) -> NodeFacts:
    return (run or roce()).cluster["node1"]


@pytest.mark.parametrize("subject", HEALTHY)
def test_a_subject_is_there_or_raises_with_the_reason_that_the_node_gave(subject):
    """A subject that never came is missing like one that failed."""
    assert getattr(node(), subject) == node().subjects[subject]
    lost = NodeFacts("node1", 0, "10.0.0.1", {}, {subject: Missing("not root", "denied")})
    with pytest.raises(FactMissing, match=f"^{subject}: not root$") as caught:
        getattr(lost, subject)
    assert caught.value.kind == "denied"
    never = ON_DEMAND[subject].missing if subject in ON_DEMAND else "never collected"
    with pytest.raises(FactMissing, match=re.escape(never)):
        getattr(NodeFacts("node1", 0, "10.0.0.1", {}, {}), subject)


def test_an_unset_variable_reads_as_libraries_read_it():
    """`value` gives "", `variable` says that it is absent; a name set to nothing is not set to something."""
    given = node(healthy().with_variables(A="1", EMPTY=""))
    assert (given.value("A"), given.value("B"), given.value("EMPTY")) == ("1", "", "")
    assert (given.variable("A"), given.variable("EMPTY"), given.setting("A").layer) == ("1", "", "--env")
    assert given.has_variable("A")
    assert not given.has_variable("EMPTY")
    with pytest.raises(FactMissing) as caught:
        given.variable("B")
    assert caught.value.kind == "absent"


def test_socket_names_that_match_nothing_are_told_by_each_librarys_rules():
    """NCCL takes a prefix, gloo a name."""
    assert node(healthy().with_variables(NCCL_SOCKET_IFNAME="eth")).interface_mismatches() == ()
    (nccl,) = node(healthy().with_variables(NCCL_SOCKET_IFNAME="ib0")).interface_mismatches()
    assert nccl == "NCCL_SOCKET_IFNAME=ib0 matches no interface with an address; up are lo, eth0"
    assert node(healthy().with_variables(GLOO_SOCKET_IFNAME="eth0")).interface_mismatches() == ()
    (gloo,) = node(healthy().with_variables(GLOO_SOCKET_IFNAME="eth")).interface_mismatches()
    assert "GLOO_SOCKET_IFNAME" in gloo


def test_the_rdma_ports_of_a_job_are_those_that_nccl_may_use():
    """By NCCL_IB_HCA; absent where RDMA is not there or switched off, blocked where the name matches none."""
    assert len(node().hcas()) == 8
    assert [hca.name for hca in node(roce().with_variables(NCCL_IB_HCA="=mlx5_3")).hcas()] == ["mlx5_3:1"]
    for given in (node(healthy()), node(roce().with_variables(NCCL_IB_DISABLE="1"))):
        with pytest.raises(FactMissing) as caught:
            given.hcas()
        assert caught.value.kind == "absent"
    with pytest.raises(BlockedBy, match=r"rdma\.nccl_ib_hca_matches_a_port"):
        node(roce().with_variables(NCCL_IB_HCA="bnxt")).hcas()


@pytest.mark.parametrize(
    ("text", "vain"),
    [("mlx5", ()), ("^mlx5_0", ()), ("", ()), ("mlx5_0,mlx5_2", ("mlx5_2:1",)), ("=mlx5_2:1", ("mlx5_2:1",))],
)
def test_an_entry_that_leads_to_no_active_port_is_told(text, vain):
    """An entry is served by one active port among those it takes; a caret names none."""
    given = node(roce().broken_rdma_port("node1", 2, state="DOWN").with_variables(NCCL_IB_HCA=text))
    assert tuple(hca.name for hca in given.hcas_asked_for_in_vain()) == vain


@pytest.mark.parametrize(
    ("backend", "variables", "words"),
    [
        ("nccl", {}, ""),
        ("nccl", {"NCCL_IB_DISABLE": "0"}, ""),
        ("nccl", {"NCCL_IB_DISABLE": " 2"}, "NCCL_IB_DISABLE= 2"),
        ("nccl", {"NCCL_NET": "socket"}, "NCCL_NET=Socket"),
        ("gloo", {}, "the job's backend is gloo"),
        ("gloo", {"NCCL_IB_HCA": "mlx5"}, ""),
    ],
)
def test_a_job_that_uses_no_rdma_says_why(backend, variables, words):
    """Gloo and NCCL's switches do without; a variable for NCCL's ports means that they are used."""
    cleared = {"NCCL_IB_HCA": "", "NCCL_IB_GID_INDEX": ""}
    run = replace(roce(), backend=backend).with_variables(**{**cleared, **variables})
    assert node(run).without_rdma().startswith(words)
    assert bool(node(run).without_rdma()) is bool(words)


def test_ports_that_are_down_are_not_used():
    """Nor is there an error of its own where all are: the port check says it."""
    run = roce().broken_rdma_port("node1", 2, state="DOWN")
    assert "mlx5_2:1" not in {hca.name for hca in node(run).active_hcas()}
    for device in range(8):
        run = run.broken_rdma_port("node1", device, state="DOWN")
    with pytest.raises(FactMissing, match="every port is down") as caught:
        node(run).active_hcas()
    assert caught.value.kind == "absent"


@pytest.mark.parametrize(("text", "kind"), [("-1", "absent"), ("", "absent"), ("three", "failed"), ("3.0", "failed")])
def test_a_gid_index_that_is_none_says_so(text, kind):
    """-1 and an empty variable leave the choice to NCCL; anything but a number is an error."""
    with pytest.raises(FactMissing) as caught:
        node(roce().with_variables(NCCL_IB_GID_INDEX=text)).gid_index()
    assert caught.value.kind == kind


def test_the_gids_at_the_index_are_given_for_every_active_roce_port():
    """None where the table has no such row; InfiniBand ports are not asked."""
    assert node().gid_index() == 3
    chosen = node().chosen_gids()
    assert len(chosen) == 8
    assert all(gid is not None and gid.is_routable for gid in chosen.values())
    assert None in node(without_gid(roce(), "node1", 3)).chosen_gids().values()
    run = roce()
    for device in range(8):
        run = run.broken_rdma_port("node1", device, link_layer="InfiniBand")
    with pytest.raises(FactMissing, match="InfiniBand") as caught:
        node(run).chosen_gids()
    assert caught.value.kind == "absent"


def test_the_family_of_the_gids_waits_for_an_index_that_leads_somewhere():
    """One cause: the check of the index, or that of what stands there."""
    assert node().gid_family() == "ipv4"
    with pytest.raises(BlockedBy, match=r"rdma\.gid_index_exists"):
        node(without_gid(roce(), "node1", 3)).gid_family()
    with pytest.raises(BlockedBy, match=r"rdma\.gid_index_is_routable"):
        node(roce().with_variables(NCCL_IB_GID_INDEX="0")).gid_family()


def test_peers_use_the_training_interface_or_the_way_we_came():
    """IPv4 before IPv6, never a link-local one; a node without an interface still has an address."""
    six = (Address("fe80::1%eth0", 64, "inet6"), Address("2001:db8::1", 64, "inet6"))
    assert node(healthy()).address_for_peers() == "10.0.0.1"
    assert node(healthy().broken_interface("node1", addresses=six)).address_for_peers() == "2001:db8::1"
    assert NodeFacts("node1", 0, "192.0.2.7", {}, {}).address_for_peers() == "192.0.2.7"


def test_a_node_knows_its_own_names():
    """Hostname and full name, not those of others."""
    given = node(healthy().broken("node1", "identity", hostname="n1", fqdn="n1.example.org"))
    assert given.calls_itself("n1")
    assert given.calls_itself("n1.example.org")
    assert not given.calls_itself("node1")
