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
from preflight.node.agent.frames import FRAME_LIMIT_BYTES, FrameError, encode
from preflight.node.agent.strict import strict_json

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


def decoder_of_a_node() -> frames.Decoder:
    """As the controller has it."""
    return frames.Decoder(MARKER, strict_json)


def header(text_length: object, blob_length: object = "00000000", checksum: object = "00000000") -> bytes:
    return b"%s %s %s %s\n" % (MARKER, *(str(word).encode() for word in (text_length, blob_length, checksum)))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(MESSAGES, st.binary(max_size=60)), max_size=4), st.binary(max_size=30), st.integers(1, 40))
def test_messages_come_back_however_the_bytes_are_cut(sent, noise, step):
    """What is encoded is decoded, blobs and order included, between any noise and in pieces of any size."""
    data = b"".join(noise + encode(MARKER, message, blob) for message, blob in sent)
    decoder = decoder_of_a_node()
    got = [pair for at in range(0, len(data), step) for pair in decoder.feed(data[at : at + step])]
    assert got == sent


def test_bytes_one_at_a_time_give_the_message_with_the_last_of_them():
    """A frame is given when it is whole, not earlier and not later."""
    data = encode(MARKER, {"a": 1}, b"blob\n")
    decoder = decoder_of_a_node()
    given = [decoder.feed(bytes([byte])) for byte in data]
    assert given == [[]] * (len(data) - 1) + [[({"a": 1}, b"blob\n")]]


def test_a_marker_inside_a_blob_starts_no_frame():
    """Lengths say where a frame ends, whatever stands in it."""
    blob = encode(MARKER, {"inner": True})
    assert decoder_of_a_node().feed(encode(MARKER, {"outer": True}, blob)) == [({"outer": True}, blob)]


def test_text_around_frames_is_kept_for_people_and_never_parsed():
    """A banner that looks like our JSON, and half a marker, are noise."""
    decoder = decoder_of_a_node()
    banner = b'{"hello": 1} Welcome \xff\n' + MARKER[:20]
    assert decoder.feed(banner + encode(MARKER, {"a": 1}) + b"bye") == [({"a": 1}, b"")]
    assert decoder.text().startswith('{"hello": 1} Welcome')
    assert decoder.text().endswith("bye")
    assert decoder.noise_bytes >= len(banner) - 1


def test_a_frame_of_another_run_is_noise():
    """What was recorded from an earlier run carries another marker, and is not believed."""
    decoder = decoder_of_a_node()
    assert decoder.feed(encode(OTHER, {"opened": "x"}) + encode(MARKER, {"a": 1})) == [({"a": 1}, b"")]
    assert b"opened" in decoder.noise


def test_ten_megabytes_of_noise_are_counted_and_dropped():
    """A flood costs neither memory nor time beyond its own bytes."""
    decoder = decoder_of_a_node()
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
        assert decoder_of_a_node().feed(data[:length]) == []


@pytest.mark.parametrize("bit", range(8))
def test_a_mangled_body_is_noticed(bit):
    """One flipped bit anywhere behind the header breaks the checksum."""
    data = bytearray(encode(MARKER, {"a": 1}, b"blob"))
    for place in range(data.index(b"\n") + 1, len(data) - 1):
        mangled = bytearray(data)
        mangled[place] ^= 1 << bit
        with pytest.raises(FrameError, match="checksum"):
            decoder_of_a_node().feed(bytes(mangled))


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
        decoder_of_a_node().feed(head + b"{}" + b"x" * 100)


@pytest.mark.parametrize("change", [-1, 1])
def test_a_length_off_by_one_is_noticed(change):
    """A header that promises a byte more or less than there is does not give another message."""
    text = b'{"a":1}'
    lying = header(f"{len(text) + change:08x}", checksum=f"{zlib.crc32(text):08x}") + text + b"\n\n"
    with pytest.raises(FrameError, match="checksum"):
        decoder_of_a_node().feed(lying)


@pytest.mark.parametrize("figure", ["nan", "inf", "-inf"])
def test_what_json_does_not_have_is_not_sent(figure):
    """A NaN of ours is an error where it is made, not on the other side."""
    with pytest.raises(ValueError, match="JSON"):
        encode(MARKER, {"a": float(figure)})


@settings(max_examples=80, deadline=None)
@given(VALUES)
def test_the_text_is_the_librarys(value):
    """Whatever is said is written as the json library would write it."""
    assert frames.json_text(value) == json.dumps(value, separators=(",", ":"))


def test_names_that_are_no_text_become_text():
    """As the library has it: a number as a name is no reason to lose an answer."""
    assert json.loads(frames.json_text({"links": {1: {True: "up"}}})) == {"links": {"1": {"true": "up"}}}


@settings(max_examples=50, deadline=None)
@given(MESSAGES, st.binary(max_size=60))
def test_orders_arrive_as_they_were_given(message, blob):
    """What a node is told comes back whole, in the same frames, and damage is noticed by the same checksum."""
    data = frames.order(MARKER, message, blob)
    assert frames.Decoder(MARKER, frames.unmarshalled).feed(data) == [(message, blob)]
    with pytest.raises(FrameError):
        frames.Decoder(MARKER, frames.unmarshalled).feed(data[:-2] + bytes([data[-2] ^ 1]) + data[-1:])


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
    assert decoder_of_a_node().feed(encode(MARKER, {"a": text})) == [({"a": text}, b"")]


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_messages_noise_or_a_frame_error(data):
    """No input ends in another exception."""
    decoder = decoder_of_a_node()
    try:
        decoder.feed(MARKER + b" " + data)
        decoder.feed(data)
    except FrameError:
        return
    assert isinstance(decoder.text(), str)


def test_the_longest_frame_is_waited_for_and_a_longer_one_refused():
    """By its header alone; text and blob count together."""
    for text, blob in ((FRAME_LIMIT_BYTES, 0), (FRAME_LIMIT_BYTES - 5, 5)):
        assert decoder_of_a_node().cut(b"%s %08x %08x %08x\n" % (MARKER, text, blob, 0)) == []
        with pytest.raises(FrameError, match="at most 8388608"):
            decoder_of_a_node().cut(b"%s %08x %08x %08x\n" % (MARKER, text, blob + 1, 0))


def test_as_much_noise_is_kept_as_is_said():
    """And all of it is counted, from none on."""
    decoder = decoder_of_a_node()
    assert decoder.noise_bytes == 0
    decoder.feed(b"x" * 5000 + MARKER)
    assert (decoder.noise_bytes, len(decoder.noise), len(decoder.text())) == (5000, 4096, 4096)
