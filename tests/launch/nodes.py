"""Clusters made of plain facts, for the rules that compare files with nodes."""

from __future__ import annotations

from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.facts.subjects.environment import Environment, Variable
from preflight.facts.subjects.gpu import Gpu, Gpus
from preflight.facts.subjects.identity import Identity
from preflight.facts.subjects.network import Address, Interface, Network
from preflight.facts.subjects.ports import Listener, Ports
from preflight.facts.subjects.rdma import Gid, Rdma, RdmaDevice, RdmaPort
from preflight.facts.subjects.software import Software
from preflight.facts.value import Missing


def node(
    index,
    *,
    gpus=8,
    model="NVIDIA H100",
    listening=(),
    interfaces=("eth0",),
    hcas=(),
    python="/usr/bin/python",
    conf=(),
):
    """A node named node1, node2, ... whose interfaces are 10.0.0.x, 10.1.0.x, ..."""
    number = index + 1
    links = [_interface("lo", 1, "127.0.0.1")]
    links += [_interface(name, place + 2, f"10.{place}.0.{number}") for place, name in enumerate(interfaces)]
    subjects = {
        "identity": Identity(
            f"node{number}",
            f"node{number}.lan",
            "b",
            "6",
            "x86_64",
            64,
            1 << 40,
            0,
            f"10.0.0.{number}",
            (f"10.0.0.{number}",),
            (),
            "ssh",
        ),
        "network": Network(tuple(links), (), (32768, 60999), interfaces[0]),
        "ports": Ports(tuple(Listener("0.0.0.0", port, "nginx", Missing("?")) for port in listening)),
        "gpu": Gpus(
            tuple(Gpu(i, model, f"u{i}", 80000, f"{i}", "Default", "Disabled", 0) for i in range(gpus)), "1", "12"
        ),
        "rdma": Rdma(tuple(_hca(name, number) for name in hcas)),
        "software": Software(
            "3.11",
            "cpython",
            python,
            "glibc",
            {},
            Missing("no"),
            Missing("no"),
            Missing("no"),
            Missing("no"),
            Missing("no"),
            Missing("no"),
        ),
        "environment": Environment({name: Variable(value, "/etc/nccl.conf") for name, value in conf}),
    }
    return NodeFacts(f"node{number}", index, f"10.0.0.{number}", subjects, {})


def cluster(count=2, **changes):
    """A cluster of like nodes."""
    return cluster_of(*(node(index, **changes) for index in range(count)))


def cluster_of(*nodes):
    """A cluster of these nodes."""
    return Cluster(tuple(nodes), asked=len(nodes))


def _interface(name, index, address):
    return Interface(name, index, (Address(address, 24, "inet"),), 1500, 0, True, name == "lo", False)


def _hca(name, number):
    gids = (
        Gid(0, f"fe80::{number}", "IB/RoCE v1", "eth0"),
        Gid(3, f"::ffff:10.0.0.{number}", "RoCE v2", "eth0"),
    )
    port = RdmaPort(1, "ACTIVE", "LinkUp", 400.0, "Ethernet", gids, Missing("no"), Missing("no"), {})
    return RdmaDevice(name, Missing("no"), Missing("no"), Missing("no"), (port,))
