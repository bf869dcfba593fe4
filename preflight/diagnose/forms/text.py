"""Is it text at all, and in which encoding?"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from preflight.diagnose.forms.blocks import Blocks
from preflight.said import said

HEAD_BYTES = 1 << 16
BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)
WIDE = (("utf-32-le", 4), ("utf-32-be", 4), ("utf-16-le", 2), ("utf-16-be", 2))
# What no program prints into a log: not among them are tabs, ends of lines, bells, backspaces, form feeds and escapes.
CONTROL = bytes(code for code in range(32) if code not in b"\a\b\t\n\v\f\r\x0e\x0f\x1b") + b"\x7f"
MOST_CONTROL = 0.02
MOST_HIGH = 0.3  # of bytes above 127 in a text that is neither UTF-8 nor of an encoding of East Asia
LEAST_ASCII = 0.2  # of the letters of a log in UTF-16: its ends of lines, times and numbers are
LEAST_ZEROS = 8  # so many at the beginning are none of UTF-16
MANY_ZEROS = 512
HOLE = re.compile(rb"\0{64,}")  # where a file system never wrote what was printed
# What people name by mistake for a log, and what makes text of it.
OTHERS = (
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "unpack it first"),
    (b"Rar!", "a RAR archive", "unpack it first"),
    (b"LZIP", "packed by lzip", "unpack it first"),
    (b"\xff\x06\0\0sNaPpY", "packed by snappy", "unpack it first"),
    (b"LPKSHHRH", "a file of systemd's journal", "`journalctl --file FILE` prints it"),
    (b"%PDF", "a PDF document", "save its text"),
    (b"SQLite format 3", "an SQLite database", "export it as text"),
    (b"\x7fELF", "a program or core dump", "`coredumpctl info` or gdb reads it"),
)


def zeros_at_the_start(blocks: Blocks) -> int:
    """Drop the zero bytes that a file begins with, where a log was emptied while its program wrote on; their number."""
    dropped = 0
    least = LEAST_ZEROS
    while len(head := blocks.peek(least)) == least and not head.strip(b"\0"):
        block = next(blocks)
        rest = block.lstrip(b"\0")
        dropped += len(block) - len(rest)
        blocks.give_back(rest)
        least = 1
    return dropped


def without_holes(head: bytes) -> bytes:
    """The beginning of a file without what was never written of it."""
    return HOLE.sub(b"", head)


def encoding_of(head: bytes) -> str:
    """The encoding of a text in which letters take two or four bytes, or that begins with its mark; else ""."""
    for mark, encoding in BOMS:
        if head.startswith(mark):
            return encoding
    if b"\0" in head:
        for encoding, width in WIDE:
            text = head[: len(head) // width * width].decode(encoding, "replace")
            letters = sum(letter.isascii() and (letter.isprintable() or letter.isspace()) for letter in text)
            if text and letters >= LEAST_ASCII * len(text) and not _is_odd(text):
                return encoding
    return ""


def why_not_text(head: bytes, encoding: str) -> str:
    """Why the beginning of a file is none of a text; "" where it is."""
    for mark, what, hint in OTHERS:
        if head.startswith(mark):
            return said("{what}; {hint}", what, hint)
    if encoding and encoding != "utf-8-sig":
        return "its bytes are no letters" if _is_odd(head.decode(encoding, "replace")) else ""
    control = sum(head.count(code) for code in CONTROL)
    if control > MOST_CONTROL * len(head):
        return "it holds zero bytes" if head.count(0) * 2 > control else "it holds bytes that no program prints"
    high = sum(code > 127 for code in head)
    if high > MOST_HIGH * len(head) and not any(_decodes(head, name) for name in ("utf-8", "gb18030", "shift_jis")):
        return "it is in no known encoding"
    return ""


def _is_odd(text: str) -> bool:
    """Whether a text holds what no program prints: control characters, and numbers of no letter."""
    odd = sum(not (letter.isprintable() or letter.isspace() or letter in "\a\b\x1b\ufeff") for letter in text)
    return odd + text.count("\ufffd") > MOST_CONTROL * len(text) + 1


def _decodes(head: bytes, encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        decoder.decode(head)  # the last letter may be cut in two
    except UnicodeDecodeError:
        return False
    return True


def decoded(blocks: Blocks, encoding: str) -> Iterator[bytes]:
    """The text in UTF-8."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for block in blocks:
        yield decoder.decode(block).encode()
    yield decoder.decode(b"", final=True).encode()


def watched(blocks: Blocks) -> Iterator[bytes]:
    """The text as it is; many zero bytes in it, as after a node lost its power, are lines that are lost."""
    zeros = 0
    for block in blocks:
        zeros += block.count(0)
        yield block
    if zeros >= MANY_ZEROS:
        blocks.reading.cut_short(said("{zeros:,} zero bytes stand in it: lines are lost", zeros))
