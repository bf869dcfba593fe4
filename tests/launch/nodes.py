"""Clusters made of plain facts, for the rules that compare files with nodes."""

from __future__ import annotations

from dataclasses import replace

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
    packages=("accelerate", "deepspeed", "ray", "vllm", "sglang", "llamafactory", "mpi4py"),
):
    """A node named node1, node2, ... whose interfaces are 10.0.0.x, 10.1.0.x, ..."""
    number = index + 1
    links = [_interface("lo", 1, "127.0.0.1")]
    links += [_interface(name, place + 2, f"10.{place}.0.{number}") for place, name in enumerate(interfaces)]
    subjects = {
        "identity": Identity(
            hostname=f"node{number}",
            fqdn=f"node{number}.lan",
            boot_id="b",
            kernel="6",
            machine="x86_64",
            cpu_count=64,
            memory_bytes=1 << 40,
            user_id=0,
            hostname_address=f"10.0.0.{number}",
            hostname_addresses=(f"10.0.0.{number}",),
            context="ssh",
        ),
        "network": Network(
            interfaces=tuple(links), gateways=(), ephemeral_ports=(32768, 60999), training=interfaces[0]
        ),
        "ports": Ports(listeners=tuple(Listener("0.0.0.0", port, "nginx", Missing("?")) for port in listening)),
        "gpu": Gpus(
            devices=tuple(
                Gpu(
                    index=i,
                    name=model,
                    uuid=f"u{i}",
                    memory_mib=80000,
                    bus_id=f"{i}",
                    compute_mode="Default",
                    mig_mode="Disabled",
                    processes=0,
                )
                for i in range(gpus)
            ),
            driver="1",
            cuda_driver="12",
        ),
        "rdma": Rdma(devices=tuple(_hca(name, number) for name in hcas)),
        "software": Software(
            python="3.11",
            implementation="cpython",
            executable=python,
            libc="glibc",
            packages={**dict.fromkeys(("torch", *packages), "1.0"), **(packages if isinstance(packages, dict) else {})},
            torch=Missing("no"),
            torch_cuda=Missing("no"),
            torch_hip=Missing("no"),
            cudnn=Missing("no"),
            nccl=Missing("no"),
        ),
        "environment": Environment(variables={name: Variable(value, "/etc/nccl.conf") for name, value in conf}),
    }
    return NodeFacts(f"node{number}", index, f"10.0.0.{number}", subjects, {})


def without(one, *subjects):
    """A node that could not tell these."""
    return replace(one, subjects={name: held for name, held in one.subjects.items() if name not in subjects})


def cluster(count=2, **changes):
    """A cluster of like nodes."""
    return cluster_of(*(node(index, **changes) for index in range(count)))


def cluster_of(*nodes):
    """A cluster of these nodes."""
    return Cluster(tuple(nodes), asked=len(nodes))


def _interface(name, index, address):
    return Interface(
        name=name,
        index=index,
        addresses=(Address(address, 24, "inet"),),
        mtu=1500,
        speed_mbps=0,
        is_up=True,
        is_loopback=name == "lo",
        is_physical=False,
    )


def _hca(name, number):
    gids = (
        Gid(0, f"fe80::{number}", "IB/RoCE v1", "eth0"),
        Gid(3, f"::ffff:10.0.0.{number}", "RoCE v2", "eth0"),
    )
    port = RdmaPort(
        number=1,
        state="ACTIVE",
        physical_state="LinkUp",
        rate_gbps=400.0,
        link_layer="Ethernet",
        gids=gids,
        lid=Missing("no"),
        sm_lid=Missing("no"),
        counters={},
    )
    return RdmaDevice(name=name, firmware=Missing("no"), board=Missing("no"), node_type=Missing("no"), ports=(port,))
