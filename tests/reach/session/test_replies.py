"""Is a message of another shape an error of the node that sent it, whatever that shape is?"""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.reach.session import replies
from preflight.said.errors import BadReply

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6)
NONSENSE = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["call", "event", "result", "error", "opened", "busy", "pong", "time", "reason", "x"]),
            inner,
        )
    ),
    max_leaves=10,
)
GREETING = {
    "python": "3.11.7",
    "magic": "a70d0d0a",
    "suffix": ".so",
    "machine": "x86_64",
    "lacks": [],
    "reached": ["10.0.0.3"],
    "pid": 17,
}


@settings(max_examples=60, deadline=None)
@given(NONSENSE)
def test_nonsense_is_read_or_is_a_bad_reply_and_never_anything_else(value):
    """No kind of message lets another exception through."""
    for kind in (replies.Greeting, replies.Opened, replies.Pong, replies.End, replies.Reply):
        with contextlib.suppress(BadReply):
            assert isinstance(replies.read("node3", kind, value, "it"), kind)


@pytest.mark.parametrize("key", GREETING)
@pytest.mark.parametrize("value", [None, [], {}, ["x"] * 99, "x" * 300, -1, 10**300])
def test_a_greeting_with_one_wrong_value_is_refused(key, value):
    """Each of its values has a type and a bound."""
    if value == [] and key in ("lacks", "reached"):
        return
    with pytest.raises(BadReply, match="hello"):
        replies.read("node3", replies.Greeting, {**GREETING, key: value}, "hello")


@pytest.mark.parametrize(
    ("reached", "address"),
    [
        (["10.0.0.3"], "10.0.0.3"),
        (["fd00::3"], "fd00::3"),
        ([], ""),
        ([""], ""),
        (["evil.example"], ""),
        (["10.0.0.3; reboot"], ""),
    ],
)
def test_only_an_address_is_taken_as_the_address(reached, address):
    """A name would make every peer look it up."""
    assert replies.read("node3", replies.Greeting, {**GREETING, "reached": reached}, "hello").address == address


@pytest.mark.parametrize(
    "value",
    [
        ["169.254.169.254", 30000],
        ["10.0.0.30", 30000],
        ["10.0.0.3", 80],
        ["10.0.0.3", 1023],
        ["10.0.0.3", 65536],
        ["10.0.0.3", -1],
        ["10.0.0.3", "30000"],
        ["10.0.0.3", True],
        ["10.0.0.3"],
        {"address": "10.0.0.3", "port": 30000},
        None,
    ],
)
def test_a_node_cannot_aim_its_peers_elsewhere(value):
    """It listens where it was told to, on a port that no service of the system has."""
    with pytest.raises(BadReply):
        replies.listening("node3", value, asked="10.0.0.3")


def test_where_a_node_was_told_to_listen_it_may():
    """On whatever port the kernel gave it."""
    assert replies.listening("node3", ["10.0.0.3", 30000], asked="10.0.0.3") == ("10.0.0.3", 30000)


@pytest.mark.parametrize(
    ("message", "is_one"),
    [
        ({"call": 1, "event": {}}, True),
        ({"call": 1, "result": {}}, True),
        ({"call": 1, "error": "no"}, True),
        ({"call": 1}, False),
        ({"call": 1, "event": {}, "result": {}}, False),
        ({"call": 1, "event": []}, False),
        ({"call": [1], "event": {}}, False),
        ({"call": True, "event": {}}, False),
        ({"call": 1, "event": {}, "other": 1}, False),
    ],
)
def test_a_word_of_a_call_is_an_event_a_result_or_an_error(message, is_one):
    """One of them, with the number of the call."""
    if is_one:
        assert replies.read("node3", replies.Reply, message, "call").call == 1
    else:
        with pytest.raises(BadReply):
            replies.read("node3", replies.Reply, message, "call")
