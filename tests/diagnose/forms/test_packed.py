"""Is a packed stream unpacked piece by piece, and is its end known?"""

from __future__ import annotations

import gzip
import zlib

from preflight.diagnose.forms.blocks import BLOCK_BYTES, Blocks, Reading
from preflight.diagnose.forms.packed import FORMS, Inflater, inflated


def test_a_stream_leaves_what_follows_it():
    """As entries of a zip archive need it; no piece is larger than a block."""
    packed = gzip.compress(b"a" * (3 * BLOCK_BYTES))
    blocks = Blocks(iter([packed[:9], packed[9:] + b"rest"]), Reading("x"))
    pieces = list(inflated(blocks, Inflater()))
    assert (sum(map(len, pieces)), max(map(len, pieces)) <= BLOCK_BYTES) == (3 * BLOCK_BYTES, True)
    assert (blocks.read(9), blocks.reading.cut) == (b"rest", "")


def test_a_program_that_is_not_there_is_named(monkeypatch):
    """The log is not taken for an empty one."""
    monkeypatch.setenv("PATH", "/nowhere")
    unpack = dict(FORMS)[b"\x28\xb5\x2f\xfd"]
    blocks = Blocks(iter([b"\x28\xb5\x2f\xfd"]), Reading("x"))
    assert list(unpack(blocks)) == []
    assert blocks.reading.cut == "it is packed with zstd, and the program zstd is not installed here"


def test_what_follows_a_stream_and_is_none_is_said():
    """Instead of being left out."""
    blocks = Blocks(iter([gzip.compress(b"one") + b"no stream"]), Reading("x"))
    assert b"".join(dict(FORMS)[b"\x1f\x8b"](blocks)) == b"one"
    assert blocks.reading.cut.startswith("it is damaged: ")
    assert zlib.error.__name__ not in blocks.reading.cut
