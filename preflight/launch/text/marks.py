"""How does a text remember which of its parts are not known, and where a part was written?

A part that is not known is one private character in the text, so that splitting at ":" or "=" works as on any
other text; zero-width marks tell the line a part came from, and that it is only a default.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from preflight.launch.field import Field, Sourced, Unknown

UNKNOWN_BASE, DEFAULT_BASE, LINE_BASE, END = 0xF0000, 0xF8000, 0x100000, 0x10F000
UNKNOWN_MARK = re.compile(f"[{chr(UNKNOWN_BASE)}-{chr(DEFAULT_BASE - 1)}]")
DEFAULT_MARK = re.compile(f"[{chr(DEFAULT_BASE)}-{chr(LINE_BASE - 1)}]")
LINE_MARK = re.compile(f"[{chr(LINE_BASE)}-{chr(END - 1)}]")
ZERO_WIDTH = re.compile(f"[{chr(DEFAULT_BASE)}-{chr(END - 1)}]")
SPELLED_LIMIT = 1 << 16  # letters from which on a text is cut where it is shown: each mark stands for many
COMPOUND = re.compile(r"[;&|'\"`(){}<>]")
FOREIGN = re.compile("[\U000f0000-\U0010ffff]")
# What comes out different on every node that works it out.
VARIES = re.compile(
    r"\bRANDOM\b|\bhostname\b|\bHOSTNAME\b|\bhostid\b|\buuidgen\b|\bdate\b|\bshuf\b|\bifconfig\b|\bip (?:-\S+ )*a|\$\$"
    r"|\bmktemp\b|\buuid\b|\bopenssl rand\b|\w*free_?port|/dev/u?random|\bEPOCH"
    r"|\bgetsockname\b|\brandint\b|\brandrange\b"
    r"|\bSM_CURRENT_HOST\b|\bPOD_IP\b"
)

# Asked of another node, or of Slurm: the same wherever it is worked out.
ASKS_ELSEWHERE = re.compile(r"\b(scontrol|srun|ssh|sinfo|squeue)\b")


def varies(expression: str) -> bool:
    """Whether an expression comes out different on every node that works it out."""
    if ASKS_ELSEWHERE.search(expression):
        return "RANDOM" in expression
    return bool(VARIES.search(expression))


def clean(text: str) -> str:
    """A file's text without the characters that we use as marks."""
    return FOREIGN.sub("\ufffd", text)


def plain(text: str) -> str:
    """The text without zero-width marks."""
    return ZERO_WIDTH.sub("", text)


def is_known(text: str) -> bool:
    """Whether no part of the text is unknown."""
    return UNKNOWN_MARK.search(text) is None


def is_firm(text: str) -> bool:
    """Whether all of it is known and none of it a default that the environment may replace."""
    return is_known(text) and DEFAULT_MARK.search(text) is None


def without_lines(text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The text without marks of lines, fit to be parsed again, and the byte and line of each of them."""
    pieces, places, at, size = [], [], 0, 0
    for mark in LINE_MARK.finditer(text):
        piece = text[at : mark.start()]
        pieces.append(piece)
        size += len(piece.encode("utf-8", "replace"))
        places.append((size, ord(mark[0]) - LINE_BASE))
        at = mark.end()
    return "".join((*pieces, text[at:])), tuple(places)


def line_mark(line: int) -> str:
    """The mark that what follows was written in that line."""
    return chr(LINE_BASE + min(line, END - LINE_BASE - 1))


def lined(text: str, line: int) -> str:
    """The source of a text of several lines, the first of them this one, with the mark of its line in each."""
    pieces = []
    for place, piece in enumerate(text.split("\n")):
        words = piece.lstrip()
        mark = line_mark(line + place) if words not in ("", "\\") else ""
        pieces.append(f"{piece[: len(piece) - len(words)]}{mark}{words}")
    return "\n".join(pieces)


def split_words(text: str) -> list[str]:
    """The pieces between blanks, each with the marks of what it came from."""
    default = DEFAULT_MARK.search(text[:2])
    line, words = "", []
    for piece in text.split():
        marks = LINE_MARK.findall(piece)
        if not plain(piece):  # nothing but the mark of a line
            line = marks[-1] if marks else line
            continue
        kept = default[0] if default and default[0] not in piece else ""
        words.append(f"{'' if marks else line}{kept}{piece}")
        line = marks[-1] if marks else line
    return words


@dataclass
class Marks:
    """The unknown parts of one file, by their characters."""

    file: str
    unknowns: list[Unknown] = field(default_factory=list)

    def unknown(
        self,
        expression: str,
        line: int,
        *,
        varies: bool = False,
        in_container: bool = False,
        per_node: bool = True,
        hidden: str = "",
    ) -> str:
        """The character that stands for an unknown part."""
        found = Unknown(expression, self.file, line, varies, in_container, per_node, hidden)
        if self.unknowns and self.unknowns[-1] == found:
            return chr(UNKNOWN_BASE + len(self.unknowns) - 1)
        if len(self.unknowns) >= DEFAULT_BASE - UNKNOWN_BASE:
            return chr(DEFAULT_BASE - 1)
        self.unknowns.append(found)
        return chr(UNKNOWN_BASE + len(self.unknowns) - 1)

    def at_line(self, text: str, line: int) -> str:
        """The text with the mark that it was written in that line."""
        return line_mark(line) + text if text and LINE_MARK.match(text) is None else text

    def default(self, text: str) -> str:
        """The text with the mark that it is only a default."""
        return chr(DEFAULT_BASE) + text

    def shared(self, texts: list[str], name: str, line: int) -> str:
        """The words that alternatives of one variable share, option by option; "" where there is nothing to keep."""
        bundles = [text.split() for text in texts]
        if min(map(len, bundles)) < 2 or any(COMPOUND.search(plain(text)) for text in texts):
            return ""
        kept: list[str] = []
        for column in zip(*bundles, strict=False):
            options = {plain(word).partition("=")[0] for word in column}
            if len(set(map(plain, column))) == 1:
                kept.append(column[-1])
            elif len(options) == 1 and all("=" in word for word in column) and len(set(map(len, bundles))) == 1:
                either = sorted({self.spelled(word).partition("=")[2] for word in column})
                kept.append(f"{options.pop()}={self.unknown(' or '.join(either)[:400], line)}")
            else:
                break
        if not kept:
            return ""
        is_whole = len(kept) == max(map(len, bundles))
        return " ".join(kept if is_whole else [*kept, self.unknown(f"${name}", line)])

    def spelled(self, text: str) -> str:
        """The text as it was written, expressions in the places of unknown parts."""
        pieces = UNKNOWN_MARK.split(plain(text))
        marks, size = UNKNOWN_MARK.findall(text), 0
        spelled = [pieces[0]]
        for mark, piece in zip(marks, pieces[1:], strict=True):
            size += len(spelled[-1])
            if size > SPELLED_LIMIT:
                return "".join([*spelled, "..."])
            spelled.append(self._unknown_of(mark).expression + piece)
        return "".join(spelled)

    def field(self, text: str, line: int) -> Field[str]:
        """The text as a field of a plan."""
        lines = LINE_MARK.search(text)
        place, file = ord(lines[0]) - LINE_BASE if lines else line, self.file
        parts = [self._unknown_of(mark) for mark in UNKNOWN_MARK.findall(text)]
        if parts:
            if lines is None and len(parts) == 1 and parts[0].line:
                place, file = parts[0].line, parts[0].file  # where it stands, not the variable that holds it
            varies, inside = any(part.varies for part in parts), any(part.in_container for part in parts)
            everywhere = all(part.per_node for part in parts)
            hidden = next((part.hidden for part in parts if part.hidden), "")
            return Unknown(self.spelled(text), file, place, varies, inside, everywhere, hidden)
        return Sourced(plain(text), self.file, place, "environment" if DEFAULT_MARK.search(text) else "written")

    def _unknown_of(self, mark: str) -> Unknown:
        index = ord(mark) - UNKNOWN_BASE
        return self.unknowns[index] if index < len(self.unknowns) else Unknown("...", self.file, 1)
