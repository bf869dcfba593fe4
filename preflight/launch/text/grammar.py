"""Can bash read a script to its end, and if not, where does it stop?

A recogniser of bash's grammar (bash(1), SHELL GRAMMAR) that gives no tree: the tree of `shell` takes what is broken as
far as it goes, and takes some of what is right for broken.
"""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass, field

from preflight.launch.text.quotes import Broken
from preflight.launch.text.tokens import REDIRECT, Tokens
from preflight.said import said

DEPTH_LIMIT = 60
COPROCESS = re.compile(r"coproc[ \t]+[A-Za-z_]\w*[ \t]+(?=[{(])")
PARENTHESES = re.compile(r"\([ \t]*\)")
CLOSING = frozenset({"then", "else", "elif", "fi", "do", "done", "esac", "}"})
COMPOUND = frozenset({"if", "for", "while", "until", "case", "select", "{", "[[", "function", "(", "(("})


@dataclass(frozen=True)
class Reading:
    """What reading a script to its end brought to light; every place is an offset into the text.

    ``placeholders`` are the spans of ``<ADDRESS>`` that nobody filled in, ``blanked`` the backslashes with a blank
    between them and the end of their line, ``hashed`` those with a blank and a # behind them, ``comments``
    the places of comments, ``open_documents`` here-documents without their last line, ``escapes`` the spans of
    escaped letters right behind a quote's end.
    """

    broken: Broken | None
    placeholders: tuple[tuple[int, int], ...] = ()
    blanked: tuple[int, ...] = ()
    hashed: tuple[int, ...] = ()
    comments: tuple[int, ...] = ()
    commands: tuple[int, ...] = ()
    open_documents: tuple[int, ...] = ()
    escapes: tuple[tuple[int, int], ...] = ()


def read(text: str) -> Reading:
    """Read a script as ``bash -n`` does, up to the first thing that bash does not understand."""
    grammar = Grammar(text)
    broken: Broken | None = None
    try:
        grammar.script()
    except Broken as error:
        broken = error
    except RecursionError:
        pass
    return Reading(
        broken,
        tuple(grammar.placeholders),
        tuple(grammar.blanked),
        tuple(grammar.hashed),
        tuple(grammar.comments),
        tuple(grammar.starts),
        tuple(grammar.open_documents),
        tuple(grammar.escapes),
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
        self.ends = [place for place, letter in enumerate(text) if letter == "\n"]

    def line(self, place: int) -> int:
        """Counted from 1."""
        return bisect.bisect_left(self.ends, place) + 1


@dataclass
class Grammar(Tokens):
    """The walk over one script; `at` is where it stands."""

    starts: list[int] = field(default_factory=list)
    depth: int = 0

    def script(self) -> None:
        """All of it."""
        self.lists(frozenset(), frozenset(), 0)
        if self.at < len(self.text):
            self.unexpected()

    def lists(self, words: frozenset[str], operators: frozenset[str], opened: int, *, empty: bool = True) -> None:
        """Commands up to one of these words or operators."""
        self.depth += 1
        if self.depth > DEPTH_LIMIT:
            raise RecursionError
        count = 0
        while True:
            self.newlines()
            operator = self.operator()
            if self.at >= len(self.text):
                if words or operators:
                    wanted = " or ".join(f"`{word}`" for word in sorted(words or operators) if word != "elif")
                    raise Broken(said("nothing closes it: {wanted} is missing", wanted), opened)
                break
            if operator in operators or self.reserved() in words:
                if not count and not empty:
                    self.unexpected()
                break
            if self.reserved() in CLOSING or (operator and operator not in REDIRECT and operator != "("):
                self.unexpected()
            self.and_or()
            count += 1
            self.blanks()
            if self.operator() in (";", "&"):
                self.at += 1
        self.depth -= 1

    def and_or(self) -> None:
        """``a && b || c | d``."""
        while True:
            self.blanks()
            while self.reserved() in ("!", "time", "coproc"):
                named = COPROCESS.match(self.text, self.at)
                self.at = named.end() if named else self.at + len(self.reserved())
                self.blanks()
                while self.text.startswith("-p", self.at) and self.is_end(self.at + 2):
                    self.at += 2
                    self.blanks()
            self.command()
            self.blanks()
            operator = self.operator()
            if operator not in ("&&", "||", "|", "|&"):
                if operator not in ("", "\n", ";", "&", ")", ";;", ";&", ";;&"):
                    self.unexpected()
                if operator == "" and self.at < len(self.text) and not self.follows_closing:
                    self.unexpected()
                return
            self.at += len(operator)
            self.newlines()
            if self.at >= len(self.text):
                self.unexpected()

    follows_closing: bool = False

    def command(self) -> None:
        """A compound or a simple command, with its redirections."""
        self.follows_closing = False
        self.starts.append(self.at)
        word = self.reserved() or ("((" if self.text.startswith("((", self.at) else self.operator())
        if word in CLOSING:
            self.unexpected()
        if word not in COMPOUND:
            self.simple()
            return
        opened = self.at
        self.at += len(word)
        {
            "if": self._if,
            "for": self._for,
            "select": self._for,
            "while": self._while,
            "until": self._while,
            "case": self._case,
            "function": self._function,
            "{": self._group,
            "(": self._subshell,
            "((": self._arithmetic,
            "[[": self._test,
        }[word](opened)
        self.redirections()
        self.blanks()
        self.follows_closing = self.reserved() in CLOSING

    def take(self, word: str, opened: int) -> None:
        """One reserved word or operator that must stand here."""
        self.blanks()
        if self.at >= len(self.text):
            raise Broken(said("nothing closes it: `{word}` is missing", word), opened)
        if not self.text.startswith(word, self.at):
            self.unexpected()
        self.at += len(word)

    def _if(self, opened: int) -> None:
        self.lists(frozenset({"then"}), frozenset(), opened, empty=False)
        while True:
            self.take("then", opened)
            self.lists(frozenset({"elif", "else", "fi"}), frozenset(), opened, empty=False)
            ending = self.reserved()
            self.at += len(ending)
            if ending == "else":
                self.lists(frozenset({"fi"}), frozenset(), opened, empty=False)
                self.take("fi", opened)
                return
            if ending == "fi":
                return
            self.lists(frozenset({"then"}), frozenset(), opened, empty=False)

    def _while(self, opened: int) -> None:
        self.lists(frozenset({"do"}), frozenset(), opened, empty=False)
        self._do(opened)

    def _do(self, opened: int) -> None:
        self.newlines()
        if self.reserved() == "{":
            self.at += 1
            self._group(opened)
            return
        self.take("do", opened)
        self.lists(frozenset({"done"}), frozenset(), opened, empty=False)
        self.take("done", opened)

    def _for(self, opened: int) -> None:
        self.blanks()
        if self.text.startswith("((", self.at):
            self.at += 2
            self.arithmetic(opened)
        else:
            self.word()
            self.newlines()
            if self.reserved() == "in":
                self.at += 2
                self.words()
        self.blanks()
        if self.operator() == ";":
            self.at += 1
        self._do(opened)

    def _case(self, opened: int) -> None:
        self.blanks()
        self.word()
        self.newlines()
        self.take("in", opened)
        while True:
            self.newlines()
            if self.reserved() == "esac":
                self.at += 4
                return
            if self.at >= len(self.text):
                raise Broken("nothing closes it: `esac` is missing", opened)
            if self.operator() == "(":
                self.at += 1
            while True:
                self.blanks()
                if self.operator() == "(":
                    self.unexpected()
                self.word()
                self.blanks()
                if self.operator() != "|":
                    break
                self.at += 1
            if self.operator() != ")":
                self.unexpected()
            self.at += 1
            self.lists(frozenset({"esac"}), frozenset({";;", ";&", ";;&"}), opened)
            if self.operator():
                self.at += len(self.operator())

    def _function(self, opened: int) -> None:
        self.blanks()
        self.word()
        self.blanks()
        if self.operator() == "(":
            self.at += 1
            self.take(")", opened)
        self.newlines()
        self.command()

    def _group(self, opened: int) -> None:
        self.lists(frozenset({"}"}), frozenset(), opened, empty=False)
        self.take("}", opened)

    def _subshell(self, opened: int) -> None:
        self.lists(frozenset(), frozenset({")"}), opened, empty=False)
        self.take(")", opened)

    def _arithmetic(self, opened: int) -> None:
        before = self.at
        try:
            self.arithmetic(opened)
        except Broken:
            self.at = before - 1  # two subshells
            self._subshell(opened)

    def _test(self, opened: int) -> None:
        while True:
            self.newlines()
            if self.at >= len(self.text):
                raise Broken("nothing closes it: `]]` is missing", opened)
            if self.text.startswith("]]", self.at) and self.is_end(self.at + 2):
                self.at += 2
                return
            if self.text[self.at] in "()<>&|;":
                self.at += 1
            else:
                self.word()

    def simple(self) -> None:
        """Words, assignments and redirections; ``name()`` makes a function."""
        count = 0
        while True:
            self.blanks()
            if self.at >= len(self.text):
                return
            before = self.at
            self.redirections()
            if self.at != before:
                count += 1
                continue
            operator = self.operator()
            pair = PARENTHESES.match(self.text, self.at)
            if pair and count == 1:
                self.at = pair.end()
                self.newlines()
                self.command()
                return
            if operator:
                if not count or operator == "(":
                    self.unexpected()
                return
            self.word()
            count += 1

    def nested(self, opened: int) -> None:
        """The commands of ``$(...)`` and ``<(...)``, with here-documents of their own."""
        documents, self.documents = self.documents, []
        self.lists(frozenset(), frozenset({")"}), opened)
        self.documents = documents
        self.at += 1
