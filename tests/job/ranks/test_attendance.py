"""Who came to a meeting of ranks, and do they agree?"""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from preflight.job.ranks.attendance import Node, absent, come, disagreement, gathered, node_of, other_version

FIRST = Node("gpu0", "10.0.0.1", "10.0.0.1", "a", 0, 4, 2)
SECOND = Node("gpu1", "10.0.0.2", "10.0.0.1", "b", 2, 4, 2)


class Store(dict):
    """Torch's store, as far as a meeting asks it."""

    def check(self, keys):
        """Whether all are there."""
        return all(key in self for key in keys)

    def set(self, key, value):
        """Keep a value."""
        self[key] = value

    def add(self, key, count):
        """Count on."""
        self[key] = self.get(key, 0) + count
        return self[key]


@pytest.mark.parametrize(
    "word",
    [
        b"",
        b"\xff",
        b"[]",
        b"[" * 100_000,
        b'{"name": "gpu2"}',
        *(
            json.dumps({**asdict(SECOND), **wrong}).encode()
            for wrong in (
                {"name": "-oProxyCommand=x"},
                {"name": "a\x1b[2J"},
                {"address": "gpu2"},
                {"nonce": 1},
                {"rank": 4},
                {"rank": "2"},
                {"rank": True},
                {"world": 1 << 40},
                {"local": 0},
            )
        ),
    ],
)
def test_what_no_rank_would_say_is_no_node(word):
    """Whoever reaches the store's port may write there."""
    assert node_of(word) is None


def test_a_link_local_address_is_one_with_its_interface():
    """A node may have no other."""
    linked = replace(SECOND, address="fe80::1%eth0")
    assert node_of(json.dumps(asdict(linked))) == linked


def test_a_preflight_that_is_not_understood_is_told_with_both_versions():
    """An older one told less of itself; a stranger's words are passed over, and another version's good ones taken."""
    first = replace(FIRST, version="0.2.0")
    older = {key: value for key, value in asdict(SECOND).items() if key not in ("nonce", "version")}
    told = "preflight: 0.2.0 on gpu0, {} on gpu1, and they do not understand each other; install the same on every node"
    for version, said in (("0.1.0", "0.1.0"), ("", "another version"), ("a\x1b[2J", "another version")):
        text = json.dumps({**older, "version": version})
        assert gathered(Store({"came": 1, "came/1": text}), first, seconds=60)[1] == told.format(said)
    assert [other_version(text, first) for text in (b"[]", b"{}", b'{"name": "x"}', b"\xff")] == [""] * 4
    store = Store()
    come(store, replace(SECOND, version="0.1.0"))
    assert gathered(store, first, seconds=60)[1] == ""


def test_all_that_came_are_found_at_once_with_however_many_ranks():
    """Also where a node has fewer than the first; what is no node is passed over."""
    store = Store({"came": 1, "came/1": b"[]"})
    for node in (FIRST, replace(SECOND, world=3, local=1), replace(FIRST, world=3)):
        come(store, replace(node, world=3))
    first = replace(FIRST, world=3)
    assert gathered(store, first, seconds=60) == ({0: first, 2: replace(SECOND, world=3, local=1)}, "")


def test_who_does_not_come_is_named_by_its_first_rank():
    """By the number of ranks of the first node, or up to the next that is there."""
    store = Store()
    first = replace(FIRST, world=8)
    come(store, replace(SECOND, world=8, rank=3))
    came, trouble = gathered(store, first, seconds=0.2)
    assert (list(came), trouble) == ([0, 3], "")
    assert absent(came, first) == [2, 5, 7]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (replace(SECOND, world=6), "world size: 4 on gpu0, 6 on gpu1; give every rank the same WORLD_SIZE"),
        (replace(SECOND, rank=0), "rank 0: on gpu0 and on gpu1; give each node a rank of its own"),
        (
            replace(SECOND, name="gpu0", address="10.0.0.1"),
            "ranks 0 and 2: both say that they are the first of gpu0; start one rank a node, or set LOCAL_RANK",
        ),
        (replace(SECOND, address="10.0.0.1"), "gpu0 and gpu1: both have the address 10.0.0.1 towards MASTER_ADDR"),
    ],
    ids=["world sizes", "one rank twice", "two first ranks on a node", "one address twice"],
)
def test_what_nodes_disagree_in_ends_the_wait_and_names_both(other, said):
    """With what to do: nobody starts a job of two worlds."""
    store = Store()
    come(store, other)
    assert gathered(store, FIRST, seconds=60)[1].startswith(said)


def test_a_rank_that_was_started_again_takes_its_own_place():
    """Its pod has the same address."""
    again = replace(SECOND, nonce="c")
    assert disagreement(again, FIRST, {0: FIRST, 2: SECOND}) == ""
