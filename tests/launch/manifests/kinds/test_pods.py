"""Pods by themselves."""

from __future__ import annotations

import pytest

from tests.launch.manifests.kinds.pods import pod
from tests.launch.samples import failed, rules

PODS = "---\n".join(
    f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p{rank}}}\nspec: "
    + pod(f"[torchrun, --nnodes=2, --nproc_per_node=8, --node_rank={rank}, --master_addr=p0, t.py]")
    + "\n"
    for rank in (0, 1)
)


def test_a_right_one_is_silent():
    """Each is a node with its rank."""
    assert rules({"job.yaml": PODS}) == []


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("--node_rank=1", "--node_rank=0", "ranks_are_distinct"),
    ],
)
def test_one_thing_broken_fails(old, new, rule):
    """Two of one rank."""
    assert old in PODS
    assert rule in failed({"job.yaml": PODS.replace(old, new)})
