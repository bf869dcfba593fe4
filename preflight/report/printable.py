r"""How is a text from a node made harmless for a terminal, a log and a parser?

Whatever could move the cursor, hide or reorder other text, break an XML parser or speak to a CI system is shown as
its escape: ``\x1b``, ``\u202e``. Everything else, letters of any script included, stays as it is.
"""

from __future__ import annotations

import re

from preflight.said import changed

# Letters by category, but drawn as nothing: they make two different names look the same.
INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u2800\u3164\ufe0e\ufe0f\uffa0")
# Commands that a CI system takes from a log: GitHub's `::name ...::` at the start of a line, and `##[name]`,
# `##vso[`, `##teamcity[` anywhere in it. An IPv6 address after `::` holds no letter beyond f.
LINE_COMMAND = re.compile(r"(?<!\S)::(?=[A-Za-z-]*[g-zG-Z])")
HASH_COMMAND = re.compile(r"##(?=[A-Za-z]*\[)")
SURROGATE = re.compile("[\ud800-\udfff]")


def printable(text: str, *, keep_newlines: bool = False) -> str:
    r"""`text` with every character that is not plainly visible escaped; newlines stay only where asked."""
    if keep_newlines and "\n" in text:
        return "\n".join(printable(line) for line in text.split("\n"))
    return changed(text, _printable)


def _printable(text: str) -> str:
    if not text.isprintable() or not INVISIBLE.isdisjoint(text):
        text = "".join(
            letter if letter.isprintable() and letter not in INVISIBLE else _escape(letter) for letter in text
        )
    if "::" in text:
        text = LINE_COMMAND.sub(r"\\x3a:", text)
    if "##" in text:
        text = HASH_COMMAND.sub(r"\\x23#", text)
    return text


def without_surrogates(text: str) -> str:
    r"""Lone surrogates written out as ``\ud800``: Python holds them, no encoder and no strict parser takes them."""
    return SURROGATE.sub(lambda match: _escape(match[0]), text)


def _escape(letter: str) -> str:
    code = ord(letter)
    if code <= 0xFF:
        # \n, \r and \t as people know them
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(letter, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
