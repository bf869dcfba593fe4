"""Where do the quotes and expansions of a shell script end?"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from preflight.said import said

PLAIN = re.compile(r"[^\\'\"`$\s;&|()<>]+")
IN_QUOTES = re.compile(r"[^\\\"`$]+")
BLANKED = re.compile(r"\\[ \t]+(?=\n|$)")
HASHED = re.compile(r"\\[ \t]#")


class Broken(Exception):
    """What bash does not understand, and the offset of where it begins."""

    def __init__(self, reason: str, place: int) -> None:
        super().__init__(reason)
        self.reason, self.place = reason, place


@dataclass
class Quotes:
    """A walk over a text; `at` is where it stands."""

    text: str
    at: int = 0
    blanked: list[int] = field(default_factory=list)
    hashed: list[int] = field(default_factory=list)
    # Quoted texts of several lines with a letter right behind them: one that was meant to end earlier.
    suspects: list[int] = field(default_factory=list)
    inside: int = 0

    def nested(self, opened: int) -> None:
        """The commands of ``$(...)``; the grammar knows how."""
        raise NotImplementedError

    def part(self) -> None:
        """The next piece of a word: plain letters, a quoted text, an expansion, a backslash with its letter."""
        plain = PLAIN.match(self.text, self.at)
        if plain:
            self.at = plain.end()
            return
        letter = self.text[self.at]
        if letter == "\\":
            if BLANKED.match(self.text, self.at) and not self.inside:
                self.blanked.append(self.at)
            if HASHED.match(self.text, self.at) and not self.inside and self.text[self.at - 1] in " \t":
                self.hashed.append(self.at)
            self.at += 2
        elif letter == "'":
            self.single(self.at + 1)
        elif letter == '"':
            self.double()
        elif letter == "`":
            self.backticks()
        elif letter == "$":
            self.dollar(quoted=False)
        else:
            self.at += 1

    def unclosed(self, quote: str, opened: int) -> Broken:
        """A quote without its partner: where a text of several lines ends right before a letter, that one is meant."""
        return Broken(said("the quote {quote} is never closed", quote), self.suspects[0] if self.suspects else opened)

    def closed(self, opened: int) -> None:
        """Note a quoted text that may have ended too late."""
        if "\n" in self.text[opened : self.at] and re.match(r"[\w./$-]", self.text[self.at : self.at + 1]):
            self.suspects.append(opened)

    def single(self, start: int) -> None:
        """``'...'``, in which nothing is special."""
        opened = self.at
        end = self.text.find("'", start)
        if end < 0:
            raise self.unclosed("'", opened)
        self.at = end + 1
        self.closed(opened)

    def ansi(self) -> None:
        """``$'...'``, with backslashes."""
        opened = self.at
        found = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL).match(self.text, self.at)
        if not found:
            raise self.unclosed("'", opened)
        self.at = found.end()

    def double(self) -> None:
        """A text in double quotes, with its expansions."""
        opened = self.at
        self.at += 1
        while self.at < len(self.text):
            plain = IN_QUOTES.match(self.text, self.at)
            if plain:
                self.at = plain.end()
                continue
            letter = self.text[self.at]
            if letter == '"':
                self.at += 1
                self.closed(opened)
                return
            if letter == "\\":
                self.at += 2
            elif letter == "`":
                self.backticks()
            else:
                self.dollar(quoted=True)
        raise self.unclosed('"', opened)

    def backticks(self) -> None:
        """Up to the next backtick without a backslash."""
        found = re.compile(r"`(?:[^`\\]|\\.)*`", re.DOTALL).match(self.text, self.at)
        if not found:
            raise self.unclosed("`", self.at)
        self.at = found.end()

    def dollar(self, *, quoted: bool) -> None:
        """``$NAME``, ``${...}``, ``$(...)``, ``$((...))`` and, outside of quotes, ``$'...'``."""
        opened = self.at
        following = self.text[self.at + 1 : self.at + 2]
        if following == "{":
            self.at += 2
            self.braces(opened, quoted=quoted)
        elif self.text.startswith("((", self.at + 1):
            self.at += 3
            try:
                self.arithmetic(opened)
            except Broken:
                self.at = opened + 2
                self._commands(opened)
        elif following == "(":
            self.at += 2
            self._commands(opened)
        elif following == "'" and not quoted:
            self.ansi()
        else:
            self.at += 1

    def _commands(self, opened: int) -> None:
        self.inside += 1
        self.nested(opened)
        self.inside -= 1

    def braces(self, opened: int, *, quoted: bool) -> None:
        """The rest of ``${...}``."""
        while self.at < len(self.text):
            letter = self.text[self.at]
            if letter == "}":
                self.at += 1
                return
            if letter == '"':
                self.double()
            elif letter == "'" and not quoted:
                self.single(self.at + 1)
            elif letter == "\\":
                self.at += 2
            elif letter == "`":
                self.backticks()
            elif letter == "$":
                self.dollar(quoted=quoted)
            else:
                self.at += 1
        raise Broken("nothing closes it: `}` is missing", opened)

    def arithmetic(self, opened: int) -> None:
        """The rest of ``((...))``."""
        self.balanced(opened)
        if not self.text.startswith(")", self.at):
            raise Broken("nothing closes it: `))` is missing", opened)
        self.at += 1

    def balanced(self, opened: int) -> None:
        """Up to the parenthesis that closes one that was opened."""
        depth = 1
        while self.at < len(self.text):
            letter = self.text[self.at]
            if letter == "(":
                depth += 1
            elif letter == ")":
                depth -= 1
            if letter in "'\"`\\$":
                self.part()
                continue
            self.at += 1
            if not depth:
                return
        raise Broken("nothing closes it: `)` is missing", opened)
