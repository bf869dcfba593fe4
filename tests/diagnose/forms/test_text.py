"""Is text told from what is none?"""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.diagnose.forms.blocks import Blocks, Reading
from preflight.diagnose.forms.text import decoded, encoding_of, watched, why_not_text, zeros_at_the_start

LINES = st.lists(
    st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, categories=("L", "N", "P", "Zs")), max_size=20)
)


@given(LINES, st.sampled_from(["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-16", "utf-32", "utf-8-sig"]))
def test_a_text_comes_back_from_every_encoding(lines, encoding):
    """Whatever its lines hold beside what a log's begin with."""
    text = "".join(f"2030-01-02 rank 0: {line}\n" for line in ["step 1", *lines])
    data = text.encode(encoding)
    found = encoding_of(data)
    assert found
    assert why_not_text(data, found) == ""
    pieces = (data[at : at + 7] for at in range(0, len(data), 7))
    assert b"".join(decoded(Blocks(pieces, Reading("x")), found)).decode() == text


@pytest.mark.parametrize("length", [64, 200, 5000])
def test_random_bytes_are_no_text(length):
    """Of any number from which on chance decides nothing."""
    for seed in range(50):
        data = random.Random(seed).randbytes(length)
        assert why_not_text(data, encoding_of(data)), seed


def test_colours_bells_and_bars_are_text():
    """Programs print them."""
    assert why_not_text(b"\x1b[32m ok \x1b[0m\a\b\b\t 5%\r\n", "") == ""


def test_zeros_are_dropped_at_the_beginning_and_counted_behind():
    """Those of an encoding in which letters take two bytes are not."""
    blocks = Blocks(iter([b"\0" * 99, b"\0text"]), Reading("x"))
    assert (zeros_at_the_start(blocks), blocks.read(9)) == (100, b"text")
    assert zeros_at_the_start(Blocks(iter([b"\0a\0b\0c\0d"]), Reading("x"))) == 0
    blocks = Blocks(iter([b"text", b"\0" * 600]), Reading("x"))
    assert len(b"".join(watched(blocks))) == 604
    assert blocks.reading.cut == "600 zero bytes stand in it: lines are lost"


@pytest.mark.parametrize(
    ("head", "what"),
    [
        (b"7z\xbc\xaf'\x1c\0\4", "a 7-Zip archive; unpack it first"),
        (b"Rar!\x1a\7\1\0", "a RAR archive; unpack it first"),
        (b"LZIP\1\x0c", "packed by lzip; unpack it first"),
        (b"\xff\6\0\0sNaPpY\0", "packed by snappy; unpack it first"),
        (b"LPKSHHRH\0\0", "a file of systemd's journal; `journalctl --file FILE` prints it"),
        (b"%PDF-1.7\n", "a PDF document; save its text"),
        (b"SQLite format 3\0", "an SQLite database; export it as text"),
        (b"\x7fELF\2\1\1\0", "a program or core dump; `coredumpctl info` or gdb reads it"),
        (b"plain text\n", ""),
    ],
)
def test_what_people_take_for_a_log_is_named(head, what):
    """By its first bytes, with what makes text of it."""
    assert why_not_text(head, "") == what


@pytest.mark.parametrize(
    ("name", "mark", "broken"),
    [
        ("utf-8", b"\xef\xbb\xbf", b"\xff"),
        *((name, mark, b"\0\xdc") for name, mark in (("utf-16-le", b"\xff\xfe"), ("utf-16-le", b""))),
        *((name, mark, b"\xdc\0") for name, mark in (("utf-16-be", b"\xfe\xff"), ("utf-16-be", b""))),
        *((name, mark, b"\xff\xff\xff\0") for name, mark in (("utf-32-le", b"\xff\xfe\0\0"), ("utf-32-le", b""))),
        *((name, mark, b"\0\xff\xff\xff") for name, mark in (("utf-32-be", b"\0\0\xfe\xff"), ("utf-32-be", b""))),
    ],
)
def test_a_broken_letter_spoils_no_log(name, mark, broken):
    """It is read as the sign for one, wherever pieces of the file end; so is one that the end cuts in two."""
    line = "all is well\n".encode(name)
    data = mark + line * 3 + broken + line
    encoding = encoding_of(data)
    assert why_not_text(data, encoding) == ""
    for cut in (1, len(mark) + 5, len(data) - len(line) - 1):
        read = b"".join(decoded(Blocks(iter([data[:cut], data[cut:]]), Reading("x")), encoding)).decode()
        assert read == "all is well\n" * 3 + "\ufffd" + "all is well\n"
    read = b"".join(decoded(Blocks(iter([data[:-1]]), Reading("x")), encoding)).decode()
    assert read.endswith("\ufffdall is well" + ("" if name == "utf-8" else "\ufffd"))


@pytest.mark.parametrize(
    ("head", "encoding", "why"),
    [
        (b"a\0" * 60, "", "it holds zero bytes"),
        (b"\xef\xbb\xbf" + b"a\0" * 60, "utf-8-sig", "it holds zero bytes"),
        (b"a\1b\2" * 60, "", "it holds bytes that no program prints"),
        (b"a" * 98 + b"\1" * 2, "", ""),  # a fiftieth may be broken
        (b"a" * 97 + b"\1" * 3, "", "it holds bytes that no program prints"),
        (b"a" * 70 + b"\x80" * 30, "", ""),  # of an older encoding
        (b"a" * 69 + b"\x80" * 31, "", "it is in no known encoding"),
        ("naïve Größe\n".encode() * 9, "", ""),
        ("训练开始\n".encode("gb18030") * 9, "", ""),
        ("学習開始\n".encode("shift_jis") * 9, "", ""),
        (b"\xff\xfe" + b"\1\0" * 99, "utf-16", "its bytes are no letters"),
    ],
)
def test_what_is_no_text_is_told_by_its_bytes(head, encoding, why):
    """Control characters, zero bytes and bytes of no encoding, each from a share of all on."""
    assert why_not_text(head, encoding) == why
