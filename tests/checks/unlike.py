"""Clusters whose nodes are of several kinds, or that are small: what do all checks of nodes say of them?"""

from __future__ import annotations

from collections.abc import Callable

from preflight.facts.value import Missing
from preflight.testing import FakeRun, healthy, infiniband, roce
from tests.checks.samples import with_netdevs

GPU, RDMA = ("gpu", "kernel"), ("rdma", "kernel")


def like(run: FakeRun, node: str, other: FakeRun, *subjects: str) -> FakeRun:
    """A run one of whose nodes has these subjects from another run."""
    for subject in subjects:
        run = run.with_subject(node, subject, other.subjects[node][subject])
    return run


# Each with the run that it differs from: only what is not said of that one is listed.
UNLIKE: dict[str, tuple[Callable[[], FakeRun], Callable[[], FakeRun]]] = {
    "one alone": (lambda: roce(1), roce),
    "two": (lambda: roce(2), roce),
    "one alone without a GPU": (lambda: healthy(1), healthy),
    "a node without a GPU": (lambda: like(roce(), "node2", healthy(4), *GPU), roce),
    "a node without RDMA": (lambda: like(roce(), "node2", healthy(4), *RDMA), roce),
    "a node with a GPU": (lambda: like(healthy(4), "node2", roce(), *GPU), healthy),
    "a node with RDMA": (lambda: like(healthy(4), "node2", roce(), *RDMA), healthy),
    "a node of InfiniBand": (lambda: like(roce(), "node2", infiniband(), "rdma"), roce),
    "a node of RoCE": (lambda: like(infiniband(), "node2", roce(), "rdma", "gpu"), infiniband),
    "a node with interfaces of its ports": (lambda: like(roce(), "node2", with_netdevs(roce()), "network"), roce),
    "a node without torch": (
        lambda: roce().broken("node2", "software", torch=Missing("no module named torch", "absent"), packages={}),
        roce,
    ),
    "a node that sees half of its GPUs": (lambda: roce().with_variables("node2", CUDA_VISIBLE_DEVICES="0,2,5,7"), roce),
}
