"""Is a message that is decoded fast the one that the strict reader gives?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.node.agent import frames, strict
from preflight.reach.session import quick
from preflight.testing import roce

DEEP = b"[" * 40 + b"]" * 40
MESSAGES = [
    *(b'{"a":1,"a":2}', b'{"a":{"b":1,"b":1}}', b'{"a":1e999}', b'{"a":NaN}', b'{"a":Infinity}', b"[]", b"{}", b""),
    *(
        b'{"a":' + DEEP + b"}",
        b'{"a":' + DEEP[10:-10] + b"}",
        b'{"a":' + b"1" * 21 + b"}",
        b'{"a":12345678901234567890}',
    ),
    *(b'{"a":-0}', b'{"a":-0.0}', b'{"a":1.0}', b'{"a":1e5}', b'{"a": 1}', b'{"a":"\\u00e9"}', b'{"a":"\\ud800"}'),
    *(b'{"a":"\xc3\xa9"}', b'{"a":"]]]]","b":[[["}"]]]}', b'{"a":[' + b"[]," * 300_000 + b"[]]}", b"\xff"),
    b'{"a":"' + b"]" * 40 + b'","b":' + DEEP + b"}",
    *(b'{"a":"","b":"' + b"[" * 40 + b'","":""}', b'{"":"]]","b":' + DEEP[20:-20] + b',"c":"[["}'),
]


def quickly(text):
    outline = quick.outline(text)
    assert quick.most_values(outline) == strict.most_values(text)
    return quick.message(text, outline)


def outcome(read, text):
    """What it gives, types included, or how it refuses."""
    try:
        return repr(read(text))
    except frames.FrameError as error:
        return f"refused: {error}"


@pytest.mark.parametrize("text", MESSAGES, ids=lambda text: text[:20].decode("latin-1"))
def test_both_readers_agree(text):
    """On what is refused, too: a key that stands twice, NaN, depth, size."""
    assert outcome(quickly, text) == outcome(strict.strict_json, text)


@pytest.mark.parametrize("subject", ["gpu", "rdma", "identity", "ending"])
def test_facts_come_out_the_same(subject):
    """As our own agent writes them."""
    facts = msgspec.to_builtins(roce(1).subjects["node1"][subject])
    text = frames.json_text({"call": 1, "event": {"subject": subject, "facts": facts}}).encode()
    assert outcome(quickly, text) == outcome(strict.strict_json, text)
