"""Which node of its job is this, where a cloud starts one container a node and tells each in its own variables?

A row for each cloud, from its documentation. Every node works out the same list, so that all meet at its first one.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Mapping
from typing import NamedTuple

from preflight.said import said
from preflight.said.errors import UsageError

PORT = 29477  # where the nodes meet if MASTER_PORT is not set: all of them know no other number
NEW_LINES = re.compile(r"[\s,]+")


class Seat(NamedTuple):
    """The place of a node among those of its job, and the address of the first."""

    rank: int
    nodes: int
    address: str


def rank_of_cloud(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of a rank, one a node, as the cloud implies them; none outside of its jobs.

    Raises UsageError where the cloud's variables contradict each other.
    """
    for name, (sign, read) in CLOUDS.items():
        if not environment.get(sign):
            continue
        try:
            seat = read(environment)
        except (KeyError, ValueError, TypeError, IndexError, OSError) as error:
            words = f"{type(error).__name__}: {error}"
            raise UsageError(said("{sign} is not as {name} documents it ({words})", sign, name, words)) from None
        if not 0 <= seat.rank < seat.nodes:
            raise UsageError(said("{sign}: node {rank} of {nodes}", sign, seat.rank, seat.nodes))
        return {
            "RANK": str(seat.rank),
            "WORLD_SIZE": str(seat.nodes),
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": environment.get("MASTER_ADDR") or seat.address,
            "MASTER_PORT": environment.get("MASTER_PORT") or str(PORT),
        }
    return {}


def _sagemaker(environment: Mapping[str, str]) -> Seat:
    """The training toolkit lists the hosts, each node its own name; the first in the alphabet is the master."""
    hosts = sorted(json.loads(environment["SM_HOSTS"]))
    return Seat(hosts.index(environment["SM_CURRENT_HOST"]), len(hosts), hosts[0])


def _vertex(environment: Mapping[str, str]) -> Seat:
    """Worker pools 0 to 2 train, in this order; pool 3 evaluates, and is none of the job's nodes."""
    spec = json.loads(environment["CLUSTER_SPEC"])
    pools = sorted(pool for pool in spec["cluster"] if pool in ("workerpool0", "workerpool1", "workerpool2"))
    nodes = [(pool, place, address) for pool in pools for place, address in enumerate(spec["cluster"][pool])]
    task = (spec["task"]["type"], int(spec["task"]["index"]))
    return Seat([node[:2] for node in nodes].index(task), len(nodes), nodes[0][2].rpartition(":")[0])


def _aws_batch(environment: Mapping[str, str]) -> Seat:
    """The main node is any of them, and the only one that is not told the main node's address: it is its own."""
    index, main, nodes = (
        int(environment[f"AWS_BATCH_JOB_{name}"]) for name in ("NODE_INDEX", "MAIN_NODE_INDEX", "NUM_NODES")
    )
    address = environment.get("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS", "")
    if not address and index != main:
        raise KeyError("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS")
    return Seat((index - main) % nodes, nodes, address or socket.gethostbyname(socket.gethostname()))


def _listed(addresses: str, rank: str) -> Callable[[Mapping[str, str]], Seat]:
    """The addresses of all nodes by their ranks, and the rank of this one."""

    def read(environment: Mapping[str, str]) -> Seat:
        nodes = [address for address in NEW_LINES.split(environment[addresses]) if address]
        return Seat(int(environment[rank]), len(nodes), nodes[0])

    return read


# The cloud: the variable by which a job of its own is known, and how the node is read.
CLOUDS: Mapping[str, tuple[str, Callable[[Mapping[str, str]], Seat]]] = {
    "SageMaker": ("SM_HOSTS", _sagemaker),
    "Vertex AI": ("CLUSTER_SPEC", _vertex),
    "AWS Batch": ("AWS_BATCH_JOB_NUM_NODES", _aws_batch),
    "SkyPilot": ("SKYPILOT_NODE_IPS", _listed("SKYPILOT_NODE_IPS", "SKYPILOT_NODE_RANK")),
    "dstack": ("DSTACK_NODES_IPS", _listed("DSTACK_NODES_IPS", "DSTACK_NODE_RANK")),
}
