"""Which nodes are there where every rank of a job runs preflight, and how are they reached?"""

from __future__ import annotations

import json
import sys

import pytest

from preflight.reach.host import Host
from preflight.reach.transport.reach import Reach
from preflight.reach.transport.torchrun import MEETING, Torchrun

NODES = [
    [0, {"name": "gpu1", "address": "10.0.0.1", "master": "10.0.0.1"}],
    [8, {"name": "gpu2", "address": "10.0.0.2", "master": "10.0.0.1"}],
]


def met(*, nodes=NODES, absent=()):
    """The transport after a meeting."""
    return Torchrun({MEETING: json.dumps({"nodes": nodes, "absent": list(absent), "door": "/run/door"})})


def test_nodes_stand_in_the_order_of_their_ranks_and_one_that_never_came_among_them():
    """It is named by its rank, with what to do: nobody knows its name."""
    first, absent, last = met(absent=[4]).named("")
    assert [(each.name, each.address) for each in (first, last)] == [("gpu1", "10.0.0.1"), ("gpu2", "10.0.0.2")]
    assert absent.name == "rank4"
    assert "rank 4 did not join" in absent.trouble
    assert "MASTER_ADDR" in absent.trouble


def test_machines_of_one_name_are_told_apart():
    """By the rank; that they share a name is for a check to say."""
    twins = [[rank, {**node, "name": "gpu"}] for rank, node in NODES]
    assert [each.name for each in met(nodes=twins).named("")] == ["gpu-rank0", "gpu-rank8"]


@pytest.mark.parametrize(
    ("transport", "rest", "words"), [(met(), "gpu1", "alone"), (Torchrun({}), "", "no job around")]
)
def test_anything_else_is_refused_with_what_to_do(transport, rest, words):
    """Outside of a job, and for some of its nodes."""
    with pytest.raises(ValueError, match=words):
        transport.named(rest)


def test_tasks_connect_where_all_nodes_look_for_rank_0():
    """At that address alone; at any where the nodes do not agree on it."""
    hosts = [Host("gpu1", "10.0.0.1"), Host("gpu2", "10.0.0.2")]
    assert met().gathering(hosts, Reach()).listen_at == "10.0.0.1"
    others = [NODES[0], [8, {**NODES[1][1], "master": "192.168.0.1"}]]
    assert met(nodes=others).gathering(hosts, Reach()).listen_at == ""


def test_a_node_that_did_not_connect_back_says_so():
    """The first one is this machine, and is reached without its rank."""
    transport = met()
    assert transport.argv(Host("gpu1", "10.0.0.1"), Reach())[0] == sys.executable
    code = transport.argv(Host("gpu2", "10.0.0.2"), Reach())[-1]
    assert "did not connect back" in code
    assert "did not connect back" in transport.explain("gpu2", 1, code)
    assert transport.explain("gpu1", 1, "") == ""
