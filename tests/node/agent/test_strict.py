"""Is JSON of any other kind than ours refused, in one clear error and before it costs memory?"""

from __future__ import annotations

import json
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.node.agent.frames import Decoder, FrameError
from preflight.node.agent.strict import DEPTH_LIMIT, VALUES_LIMIT, is_shallow, strict_json

MARKER = b"0123456789abcdef0123456789abcdef"
SCALARS = st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def frame_of(text: bytes) -> bytes:
    """A frame whose promises hold, around a text that may be no JSON."""
    return b"%s %08x %08x %08x\n%s\n" % (MARKER, len(text), 0, zlib.crc32(text), text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'{"a": NaN}', "NaN is not a number"),
        (b'{"a": Infinity}', "Infinity is not a number"),
        (b'{"a": [-Infinity]}', "-Infinity is not a number"),
        (b'{"a": 1e999}', "out of the range of a float"),
        (b'{"a": -1e400}', "out of the range of a float"),
        (b'{"a": 1, "a": 1}', "same key twice"),
        (b'{"o": {"k": 1, "\\u006b": 2}}', "same key twice"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested more than 32 deep"),
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "nested more than 32 deep"),
        (b'{"a":' + b"[" * 32 + b"]" * 32 + b"}", "nested more than 32 deep"),
        (b'{"a":[' + b"[]," * 100_000 + b"[]]}", "more than 200000 values"),
        (b"[1]", "wanted an object, got list"),
        (b"null", "wanted an object, got NoneType"),
        (b"", "not JSON"),
        (b'{"a": 1} {"b": 2}', "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b'{"a": "\xff"}', "not JSON"),
        (b'{"a": "\x01"}', "not JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "has 5000 digits"),
        (b'{"a": ' + b"9" * 21 + b"}", "has 21 digits"),
    ],
)
def test_only_strict_json_objects_are_messages(text, words):
    """NaN, infinities, duplicate keys, endless nesting and whatever else json takes are one clear error."""
    with pytest.raises(FrameError, match=words):
        strict_json(text)
    with pytest.raises(FrameError, match=words):
        Decoder(MARKER, strict_json).feed(frame_of(text))


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=80) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_json_is_an_object_or_a_frame_error(text):
    """Only objects come through."""
    try:
        assert isinstance(strict_json(text), dict)
    except FrameError:
        return


@pytest.mark.parametrize(
    "value",
    [
        [[[]]] * 200,
        ["[[[[[[" * 20, 'a \\" [[[[ ' * 20],
        {"a": [{"b": ["]]]]" * 40]}] * 40},
        json.loads("[" * 31 + "]" * 31),
    ],
)
def test_brackets_within_a_text_and_side_by_side_are_not_depth(value):
    """What counts is how deep the parser goes."""
    assert strict_json(json.dumps({"a": value}).encode()) == {"a": value}


def test_each_limit_holds_to_the_number():
    """What is just within it is read, and one more is not."""
    assert strict_json(b'{"a":[' + b"0," * (VALUES_LIMIT - 4) + b"0]}")["a"]
    for within in (b"0," * (VALUES_LIMIT - 3) + b"0", b"[]," * (VALUES_LIMIT // 2) + b"0", b'{"b":0},' * 66_700 + b"0"):
        with pytest.raises(FrameError, match="values"):
            strict_json(b'{"a":[' + within + b"]}")
    deepest = b'{"a":' + b"[" * (DEPTH_LIMIT - 1) + b"]" * (DEPTH_LIMIT - 1) + b"}"
    assert is_shallow(deepest)
    assert is_shallow(deepest[:-1] + b',"b":[],"c":"[[["}')
    assert not is_shallow(b"[" + deepest + b"]")
