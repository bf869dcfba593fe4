"""What does a script consist of, and can bash read it to its end?

bash says whether it can (`bash`), the tree that tree-sitter's grammar of bash gives says where comments, commands and
quoted texts stand. What neither knows is what people forget in a script: a guide's <address>, a blank behind the
backslash at the end of a line.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import re
from dataclasses import dataclass
from typing import Any

from preflight.launch.text.bash import Verdict, verdict

DEPTH_LIMIT = 4_000
PARENTHESIS = re.compile("[()]")
# A guide's <address>: no blank at its ends, no file's ending in it, and a word's end behind it; <two words> need none.
PLACEHOLDER = re.compile(
    r"(?<![<&])<(?=[A-Za-z])(?:[A-Za-z0-9_-]{1,40}>(?=[\s:/\\\"'),;]|$)|[A-Za-z0-9_-]+(?: [A-Za-z0-9_-]+){1,9}>)"
)
BLANKED = re.compile(r"(?<!\\)(?:\\\\)*(\\)[ \t]+(?=\n|$)")
HASHED = re.compile(r"(?<=[ \t])\\[ \t]#")
ESCAPED = re.compile(r"(?<=[\"'])\\[$`\"]")
IN_WORD = re.compile(r"[^\s;&|()]\Z|\\[ \t]\Z")  # a # behind it begins no comment
QUOTES = ("'", '"', "`")
IN_TEXT = re.compile(r"[\w./$-]")
TEXTS = frozenset({"string", "raw_string", "ansi_c_string", "translated_string"})
# In these a letter has no meaning of its own, whatever stands around them.
OPAQUE = TEXTS | {"comment", "heredoc_body", "arithmetic_expansion", "regex", "extglob_pattern", "expansion"}
COMMANDS = frozenset({"command_substitution", "process_substitution"})
STATEMENTS = frozenset(
    {
        "case_statement",
        "c_style_for_statement",
        "command",
        "compound_statement",
        "declaration_command",
        "for_statement",
        "function_definition",
        "if_statement",
        "subshell",
        "test_command",
        "unset_command",
        "variable_assignment",
        "while_statement",
    }
)
PAIRS = {
    "if": "fi",
    "do": "done",
    "case": "esac",
    "{": "}",
    "${": "}",
    "(": ")",
    "$(": ")",
    "<(": ")",
    ">(": ")",
    "((": "))",
    "$((": "))",
    "[[": "]]",
}
AT_THE_END = re.compile(r"unexpected end of file|unexpected EOF while looking for matching `(?P<wanted>.)'")


@dataclass(frozen=True)
class Reading:
    """What reading a script to its end brought to light; every place is an offset into the text.

    ``verdict`` is bash's own, ``torn`` the line from which on nothing is sure, 0 where bash reads all of it,
    ``unclosed`` what is open there. ``placeholders`` are the spans of ``<ADDRESS>`` that nobody filled in, ``blanked``
    the backslashes with a blank between them and the end of their line, ``hashed`` those with a blank and a # behind
    them, ``comments`` and ``commands`` the places where they begin, ``escapes`` the spans of escaped letters right
    behind a quote's end.
    """

    verdict: Verdict
    torn: int
    unclosed: str
    placeholders: tuple[tuple[int, int], ...]
    blanked: tuple[int, ...]
    hashed: tuple[int, ...]
    comments: tuple[int, ...]
    commands: tuple[int, ...]
    escapes: tuple[tuple[int, int], ...]


@functools.lru_cache(maxsize=256)
def read(text: str) -> Reading:
    """What a script consists of, up to the first thing that bash does not understand."""
    masked = PLACEHOLDER.sub(lambda found: "_" * len(found[0]), text)
    told = verdict(masked)
    tree = Tree(masked)
    torn, unclosed = tree.unclosed(told)
    # behind a quote without its end texts are taken for code, and code for texts; an open block hides nothing
    limit = tree.lines.end(torn if unclosed in QUOTES else told.line) if told.line else len(text)

    def found(pattern: re.Pattern[str], *, nested: bool) -> tuple[tuple[int, int], ...]:
        spans = (one.span(one.lastindex or 0) for one in pattern.finditer(text, 0, limit))
        return tuple((start, end) for start, end in spans if tree.is_code(start, nested=nested))

    return Reading(
        told,
        torn,
        unclosed,
        found(PLACEHOLDER, nested=True),
        tuple(start for start, _ in found(BLANKED, nested=False)),
        tuple(start for start, _ in found(HASHED, nested=False)),
        tuple(
            place for place in tree.comments if place < limit and not IN_WORD.search(text[max(place - 2, 0) : place])
        ),
        tuple(place for place in tree.commands if place < limit),
        found(ESCAPED, nested=True),
    )


def filled(text: str, reading: Reading) -> str:
    """The text with its placeholders quoted, so that they are the words that were meant.

    So are escaped letters behind a quote's end, where the parser that reads what is meant takes an assignment to end.
    """
    pieces, at = [], 0
    spans = [(start, end, start) for start, end in reading.placeholders]
    spans += [(start, end, start + 1) for start, end in reading.escapes]
    for start, end, first in sorted(spans):
        if start >= at:
            pieces += [text[at:start], f"'{text[first:end]}'"]
            at = end
    return "".join((*pieces, text[at:]))


class Lines:
    """The line of an offset."""

    def __init__(self, text: str) -> None:
        self.size = len(text)
        self.ends = [place for place, letter in enumerate(text) if letter == "\n"]

    def line(self, place: int) -> int:
        """Counted from 1."""
        return bisect.bisect_left(self.ends, place) + 1

    def end(self, line: int) -> int:
        """Where a line ends: the offset of its line feed, or the length of the text."""
        return [*self.ends, self.size][min(line, len(self.ends) + 1) - 1]


@functools.cache
def _parser() -> Any:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse(text: str) -> Any:
    """The syntax tree of a script; the grammar takes what is broken as far as it goes.

    What is nested too deep is not looked into: to mend it, the grammar would try for minutes.
    """
    if is_too_deep(text):
        text = "("
    return _parser().parse(text.encode("utf-8", "replace")).root_node


def behind_the_first(text: str) -> str:
    """The second command of a line of a shell and all after it; "" where it is one, whatever it is piped into."""
    statements = [node for node in parse(text).named_children if node.type != "comment"]
    while statements and statements[0].type == "list":
        statements[:1] = statements[0].named_children
    return " ".join(text.encode()[statements[1].start_byte :].decode().split()) if len(statements) > 1 else ""


def is_too_deep(text: str) -> bool:
    """Whether more parentheses are open at one place than any script has."""
    if text.count("(") <= DEPTH_LIMIT:
        return False
    opened = 0
    for found in PARENTHESIS.finditer(text):
        opened = max(0, opened + (1 if found[0] == "(" else -1))
        if opened > DEPTH_LIMIT:
            return True
    return False


class Tree:
    """The tree of a script, by offsets into its text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = Lines(text)
        sizes = (len(letter.encode("utf-8", "replace")) for letter in text)
        self._bytes = None if text.isascii() else list(itertools.accumulate(sizes, initial=0))
        self.leaves: list[Any] = []
        self.texts: list[Any] = []
        self.comments: list[int] = []
        self.commands: list[int] = []
        # Where code, the commands of `$(...)` and quoted texts begin, one after the other.
        self._borders: list[int] = [0]
        self._kinds: list[str] = ["code"]
        self._walk(parse(text))

    def _walk(self, root: Any) -> None:
        """Every node once, without recursion: a script may be nested as deep as it likes."""
        cursor, inside = root.walk(), ["code"]
        while True:
            inside.append(self._enter(cursor.node, inside[-1]))
            if cursor.goto_first_child():
                continue
            self._leave(cursor.node, inside)
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    return
                self._leave(cursor.node, inside)

    def _enter(self, node: Any, around: str) -> str:
        """Note a node; what stands in it."""
        start = self._offset(node.start_byte)
        if node.type == "comment":
            self.comments.append(start)
        elif node.type in STATEMENTS and not (node.type == "variable_assignment" and _is_part(node)):
            self.commands.append(start)
        elif node.type in TEXTS:
            self.texts.append(node)
        if not node.child_count:
            self.leaves.append(node)
        is_command = node.type in COMMANDS and not self.text.startswith("`", start)
        kind = "nested" if is_command else "text" if node.type in OPAQUE or node.type in COMMANDS else around
        if kind != around:
            self._borders.append(start + 2 * is_command)
            self._kinds.append(kind)
        return kind

    def _leave(self, node: Any, inside: list[str]) -> None:
        """Note that what stood around a node goes on."""
        kind = inside.pop()
        if inside[-1] != kind:
            self._borders.append(self._offset(node.end_byte))
            self._kinds.append(inside[-1])

    def _offset(self, place: int) -> int:
        return place if self._bytes is None else bisect.bisect_left(self._bytes, place)

    def is_code(self, place: int, *, nested: bool) -> bool:
        """Whether the letter at an offset stands outside of all texts; `nested`: in ``$(...)`` it may."""
        kind = self._kinds[bisect.bisect_right(self._borders, place) - 1]
        return kind == "code" or (nested and kind == "nested")

    def unclosed(self, told: Verdict) -> tuple[int, str]:
        """The line from which on nothing is sure, and the token of what is open where the script ends too early."""
        found = AT_THE_END.search(told.words)
        if found is None:
            return told.line, ""
        last = min(told.line, self.text.rstrip("\n").count("\n") + 1)
        if found["wanted"] in QUOTES:
            return self._quote() or last, found["wanted"]
        opened: list[Any] = []
        for leaf in self.leaves:
            if leaf.is_missing:
                continue
            if leaf.type in PAIRS:
                opened.append(leaf)
            elif opened and leaf.type == PAIRS[opened[-1].type]:
                opened.pop()
        return (int(opened[-1].start_point.row) + 1, str(opened[-1].type)) if opened else (last, "")

    def _quote(self) -> int:
        """The line of the first text of several lines that ends right before a letter: it was meant to end earlier."""
        for node in self.texts:
            if b"\n" in node.text and IN_TEXT.match(self.text, self._offset(node.end_byte)):
                return int(node.start_point.row) + 1
        return 0


def _is_part(node: Any) -> bool:
    return node.parent is not None and node.parent.type in (
        "c_style_for_statement",
        "command",
        "declaration_command",
        "variable_assignments",
    )
