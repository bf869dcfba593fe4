"""Is the very port of rank 0 tried, from every node?"""

from __future__ import annotations

import socket

import msgspec
import pytest

from preflight.facts.results.mesh import Rendezvous
from preflight.job.measure import rendezvous
from preflight.testing import healthy
from tests.job.measure.local import opened


@pytest.fixture(scope="module")
def run():
    """Names and addresses and a port -> the meeting there."""
    with opened() as (fleet, session):

        def meet(addresses: dict[str, str], port: int):
            work = rendezvous.run(dict.fromkeys(addresses, session), addresses, port=port, seconds=10.0)
            return fleet.run(work, seconds=30)

        yield meet


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def test_every_other_node_connects_to_the_very_port(run):
    """One connection a node, all of them with data and answered."""
    found = run({"a": "127.0.0.1", "b": "127.0.0.2", "c": "127.0.0.3"}, port := free_port())
    assert (found.node, found.port, found.tried, found.failed, found.unmeasured) == ("a", port, 2, (), {})


def test_a_port_that_is_taken_is_not_measured(run):
    """Rank 0's node says why it could not listen; nobody else is blamed."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        found = run({"a": "127.0.0.1", "b": "127.0.0.2"}, holder.getsockname()[1])
    assert "in use" in found.unmeasured["a"]
    assert (found.tried, found.failed) == (0, ())


@pytest.mark.parametrize(("text", "port"), [("29500", 29500), ("", 0), ("0", 0), ("x", 0), ("70000", 0), ("٣٣٣٣٣", 0)])
def test_the_port_is_the_one_that_the_first_node_is_told(text, port):
    """A text that is no port is another check's business."""
    run = healthy().with_variables("node1", MASTER_PORT=text) if text else healthy()
    assert rendezvous.port_of(run.cluster) == port


def test_rank_0_is_looked_for_where_master_addr_leads():
    """At its training address, unless MASTER_ADDR is another address of the node."""
    assert rendezvous.address_of(healthy().cluster.first) == healthy().cluster.first.address_for_peers()


def test_the_meetings_of_several_groups_are_one():
    """At the port of the first; none where no group met."""
    assert rendezvous.joined([]) is None
    one = Rendezvous(node="a", address="10.0.0.1", port=29500, tried=2, unmeasured={"b": "no answer"})
    other = msgspec.structs.replace(one, tried=3, unmeasured={"c": "no port"})
    assert rendezvous.joined([one, other]) == msgspec.structs.replace(
        one, tried=5, unmeasured={"b": "no answer", "c": "no port"}
    )


@pytest.mark.parametrize(
    ("text", "port"),
    [("29500", 29500), ("1", 1), ("65535", 65535), ("65536", 0), ("0", 0), ("", 0), ("2950x", 0), ("1" * 7, 0)],
)
def test_the_port_is_that_of_the_first_nodes_variables(text, port):
    """As far as it is one."""
    run = healthy(2).with_variables("node1", MASTER_PORT=text)
    assert rendezvous.port_of(run.cluster) == port


def test_a_node_alone_meets_nobody():
    """Whatever port it names."""
    assert rendezvous.port_of(healthy(1).with_variables("node1", MASTER_PORT="29500").cluster) == 0
    assert rendezvous.port_of(healthy(2).cluster) == 0
