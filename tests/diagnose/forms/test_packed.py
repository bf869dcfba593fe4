"""Is a packed stream unpacked piece by piece, and is its end known?"""

from __future__ import annotations

import gzip
import zlib

from preflight.diagnose.forms.blocks import BLOCK_BYTES, Blocks, Reading
from preflight.diagnose.forms.packed import FORMS, Inflater, inflated
from preflight.diagnose.forms.text import OTHERS


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


def test_the_forms_are_told_apart_by_their_first_bytes():
    """As the programs write them: no beginning is that of another form, nor one of a text."""
    starts = [start for start, _ in FORMS] + [start for start, _, _ in OTHERS]
    magic = {b"\x1f\x8b", b"\xfd7zXZ\0", b"BZh", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"\x1f\x9d"}
    assert all(any(start.startswith(one) for start in starts) for one in magic)
    assert [one for one in starts for other in starts if one is not other and one.startswith(other)] == []


def test_a_program_that_ends_badly_says_why(tmp_path, monkeypatch):
    """Its last word, or its exit code; what it gave until then is kept."""
    unpack = dict(FORMS)[b"\x1f\x9d"]
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for script, reason in {
        "echo some; echo one >&2; echo 'corrupt input' >&2; exit 1": "gzip could not unpack all of it: corrupt input",
        "echo some; exit 3": "gzip could not unpack all of it: exit code 3",
        "echo some": "",
    }.items():
        (tmp_path / "gzip").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "gzip").chmod(0o755)
        blocks = Blocks(iter([b"\x1f\x9d"]), Reading("x"))
        assert (b"".join(unpack(blocks)), blocks.reading.cut) == (b"some\n", reason)
