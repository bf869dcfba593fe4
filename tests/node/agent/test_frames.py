"""Do messages survive a pipe that others scribble on, and is everything else noise or an error, never a hang?"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.node.agent import frames
from preflight.node.agent.frames import (
    DEPTH_LIMIT,
    FRAME_LIMIT_BYTES,
    VALUES_LIMIT,
    Decoder,
    FrameError,
    encode,
    is_shallow,
    strict_json,
)

ROOT = Path(__file__).resolve().parents[3]
MARKER = b"0123456789abcdef0123456789abcdef"
OTHER = b"fedcba9876543210fedcba9876543210"

SCALARS = st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
MESSAGES = st.dictionaries(st.text(max_size=8), VALUES, max_size=5)


def header(text_length: object, blob_length: object = "00000000", checksum: object = "00000000") -> bytes:
    return b"%s %s %s %s\n" % (MARKER, *(str(word).encode() for word in (text_length, blob_length, checksum)))


def frame_of(text: bytes) -> bytes:
    """A frame whose promises hold, around a text that may be no JSON."""
    return header(f"{len(text):08x}", checksum=f"{zlib.crc32(text):08x}") + text + b"\n"


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(MESSAGES, st.binary(max_size=60)), max_size=4), st.binary(max_size=30), st.integers(1, 40))
def test_messages_come_back_however_the_bytes_are_cut(sent, noise, step):
    """What is encoded is decoded, blobs and order included, between any noise and in pieces of any size."""
    data = b"".join(noise + encode(MARKER, message, blob) for message, blob in sent)
    decoder = Decoder(MARKER)
    got = [pair for at in range(0, len(data), step) for pair in decoder.feed(data[at : at + step])]
    assert got == sent


def test_bytes_one_at_a_time_give_the_message_with_the_last_of_them():
    """A frame is given when it is whole, not earlier and not later."""
    data = encode(MARKER, {"a": 1}, b"blob\n")
    decoder = Decoder(MARKER)
    given = [decoder.feed(bytes([byte])) for byte in data]
    assert given == [[]] * (len(data) - 1) + [[({"a": 1}, b"blob\n")]]


def test_a_marker_inside_a_blob_starts_no_frame():
    """Lengths say where a frame ends, whatever stands in it."""
    blob = encode(MARKER, {"inner": True})
    assert Decoder(MARKER).feed(encode(MARKER, {"outer": True}, blob)) == [({"outer": True}, blob)]


def test_text_around_frames_is_kept_for_people_and_never_parsed():
    """A banner that looks like our JSON, and half a marker, are noise."""
    decoder = Decoder(MARKER)
    banner = b'{"hello": 1} Welcome \xff\n' + MARKER[:20]
    assert decoder.feed(banner + encode(MARKER, {"a": 1}) + b"bye") == [({"a": 1}, b"")]
    assert decoder.text().startswith('{"hello": 1} Welcome')
    assert decoder.text().endswith("bye")
    assert decoder.noise_bytes >= len(banner) - 1


def test_a_frame_of_another_run_is_noise():
    """What was recorded from an earlier run carries another marker, and is not believed."""
    decoder = Decoder(MARKER)
    assert decoder.feed(encode(OTHER, {"opened": "x"}) + encode(MARKER, {"a": 1})) == [({"a": 1}, b"")]
    assert b"opened" in decoder.noise


def test_ten_megabytes_of_noise_are_counted_and_dropped():
    """A flood costs neither memory nor time beyond its own bytes."""
    decoder = Decoder(MARKER)
    flood = random.Random(1).randbytes(1 << 20)
    for _ in range(10):
        assert decoder.feed(flood) == []
    assert decoder.noise_bytes > (10 << 20) - len(MARKER)
    assert len(decoder.noise) <= frames.NOISE_KEPT_BYTES
    assert len(decoder._buffer) < len(MARKER)
    assert decoder.feed(encode(MARKER, {"a": 1})) == [({"a": 1}, b"")]


def test_a_cut_frame_gives_nothing():
    """A connection that breaks in mid-frame leaves no message, however much of it came."""
    data = encode(MARKER, {"a": "x" * 50}, b"y" * 50)
    for length in range(len(data)):
        assert Decoder(MARKER).feed(data[:length]) == []


@pytest.mark.parametrize("bit", range(8))
def test_a_mangled_body_is_noticed(bit):
    """One flipped bit anywhere behind the header breaks the checksum."""
    data = bytearray(encode(MARKER, {"a": 1}, b"blob"))
    for place in range(data.index(b"\n") + 1, len(data) - 1):
        mangled = bytearray(data)
        mangled[place] ^= 1 << bit
        with pytest.raises(FrameError, match="checksum"):
            Decoder(MARKER).feed(bytes(mangled))


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (header("zzzzzzzz"), "not three numbers"),
        (header("0" * 17, "", ""), "not three numbers"),
        (b"%s %s\n" % (MARKER, b"\xff" * 26), "not three numbers"),
        (header("ffffffff"), "wanted at most"),
        (header("01000000", "01000001"), "wanted at most"),
        (header("-0000001"), "not three numbers"),
        # A frame that ends where it begins would be read again and again.
        (header("00000000", "-000003c"), "not three numbers"),
        (header("00000002", "-fffffff"), "not three numbers"),
    ],
)
def test_a_lying_header_is_an_error_at_once(head, words):
    """Lengths that are no lengths, or beyond the limit, end the reading instead of waiting or looping for ever."""
    with pytest.raises(FrameError, match=words):
        Decoder(MARKER).feed(head + b"{}" + b"x" * 100)


@pytest.mark.parametrize("change", [-1, 1])
def test_a_length_off_by_one_is_noticed(change):
    """A header that promises a byte more or less than there is does not give another message."""
    text = b'{"a":1}'
    lying = header(f"{len(text) + change:08x}", checksum=f"{zlib.crc32(text):08x}") + text + b"\n\n"
    with pytest.raises(FrameError, match="checksum"):
        Decoder(MARKER).feed(lying)


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
        Decoder(MARKER).feed(frame_of(text))


@pytest.mark.parametrize("figure", ["nan", "inf", "-inf"])
def test_what_json_does_not_have_is_not_sent(figure):
    """A NaN of ours is an error where it is made, not on the other side."""
    with pytest.raises(ValueError, match="JSON"):
        encode(MARKER, {"a": float(figure)})


@settings(max_examples=300, deadline=None)
@given(VALUES)
def test_the_text_is_the_librarys(value):
    """Whatever is said is written as the json library would write it."""
    assert frames.json_text(value) == json.dumps(value, separators=(",", ":"))


def test_names_that_are_no_text_become_text():
    """As the library has it: a number as a name is no reason to lose an answer."""
    assert json.loads(frames.json_text({"links": {1: {True: "up"}}})) == {"links": {"1": {"true": "up"}}}


@settings(max_examples=100, deadline=None)
@given(MESSAGES, st.binary(max_size=60))
def test_orders_arrive_as_they_were_given(message, blob):
    """What a node is told comes back whole, in the same frames, and damage is noticed by the same checksum."""
    data = frames.order(MARKER, message, blob)
    assert Decoder(MARKER, frames.unmarshalled).feed(data) == [(message, blob)]
    with pytest.raises(FrameError):
        Decoder(MARKER, frames.unmarshalled).feed(data[:-2] + bytes([data[-2] ^ 1]) + data[-1:])


def test_the_usual_needs_no_library():
    """Saying and hearing what every node says and hears loads neither json nor re."""
    program = (
        "import sys; from preflight.node.agent import frames\n"
        "sent = {'a': [1, 2.5, None, True, 'eth0'], 'b': {}}\n"
        "frames.encode(b'm' * 32, sent)\n"
        "frames.Decoder(b'm' * 32, frames.unmarshalled).feed(frames.order(b'm' * 32, sent))\n"
        "sys.exit(bool({'json', 're'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-S", "-c", program], cwd=ROOT, check=True, timeout=30)


def test_control_characters_cross_as_data():
    """Escapes for terminals arrive as they are: outputs escape them, the wire does not care."""
    text = "\x1b[2J\x00\u202e\n"
    assert Decoder(MARKER).feed(encode(MARKER, {"a": text})) == [({"a": text}, b"")]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_messages_noise_or_a_frame_error(data):
    """No input ends in another exception."""
    decoder = Decoder(MARKER)
    try:
        decoder.feed(MARKER + b" " + data)
        decoder.feed(data)
    except FrameError:
        return
    assert isinstance(decoder.text(), str)


@settings(max_examples=200, deadline=None)
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


def test_the_longest_frame_is_waited_for_and_a_longer_one_refused():
    """By its header alone; text and blob count together."""
    for text, blob in ((FRAME_LIMIT_BYTES, 0), (FRAME_LIMIT_BYTES - 5, 5)):
        assert Decoder(MARKER).cut(b"%s %08x %08x %08x\n" % (MARKER, text, blob, 0)) == []
        with pytest.raises(FrameError, match="at most 8388608"):
            Decoder(MARKER).cut(b"%s %08x %08x %08x\n" % (MARKER, text, blob + 1, 0))


def test_as_much_noise_is_kept_as_is_said():
    """And all of it is counted, from none on."""
    decoder = Decoder(MARKER)
    assert decoder.noise_bytes == 0
    decoder.feed(b"x" * 5000 + MARKER)
    assert (decoder.noise_bytes, len(decoder.noise), len(decoder.text())) == (5000, 4096, 4096)
