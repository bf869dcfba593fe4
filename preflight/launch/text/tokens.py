"""Where do the words, operators and here-documents of a shell script begin and end?"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn

from preflight.launch.text.quotes import Broken, Quotes
from preflight.said import said

OPERATOR = re.compile(r"&>>|<<-|<<<|;;&|&&|\|\||\|&|;;|;&|<<|>>|<&|>&|<>|>\||&>|[;&|()<>\n]")
REDIRECT = frozenset({"<", ">", ">>", "<<", "<<-", "<<<", "<&", ">&", "<>", ">|", "&>", "&>>"})
BLANK = re.compile(r"(?:[ \t]|\\\n)*")
# A guide's <address>: no blank at its ends, no file's ending in it, and a word's end behind it; <two words> need none.
PLACEHOLDER = re.compile(
    r"<(?=[A-Za-z])(?:[A-Za-z0-9_-]{1,40}>(?=[\s:/\\\"'),;]|$)|[A-Za-z0-9_-]+(?: [A-Za-z0-9_-]+){1,9}>)"
)
ASSIGNED_ARRAY = re.compile(r"[A-Za-z_]\w*(\[[^\]\n]*\])?\+?=$")
NUMBER = re.compile(r"\d+|\{\w+\}")
ESCAPED = re.compile(r"\\[$`\"]")
RESERVED = re.compile(r"[a-z]+|\{|\}|\[\[|!")


@dataclass
class Tokens(Quotes):
    """A walk from token to token; `at` is where it stands."""

    placeholders: list[tuple[int, int]] = field(default_factory=list)
    escapes: list[tuple[int, int]] = field(default_factory=list)  # `\\$` right behind a quote's end
    comments: list[int] = field(default_factory=list)
    open_documents: list[int] = field(default_factory=list)
    documents: list[tuple[str, bool, int]] = field(default_factory=list)

    def unexpected(self) -> NoReturn:
        """Bash's "syntax error near unexpected token"."""
        operator = OPERATOR.match(self.text, self.at)
        word = operator[0] if operator else re.split(r"[\s;&|()<>]", self.text[self.at : self.at + 60], maxsplit=1)[0]
        shown = "the end of the line" if word == "\n" else f"`{word}`" if word else "the end of the file"
        raise Broken(said("{shown} is not expected here", shown), self.at)

    def blanks(self) -> None:
        """Go on to the next token of this line."""
        self.at = BLANK.match(self.text, self.at).end()  # type: ignore[union-attr]
        if self.text.startswith("#", self.at):
            self.comments.append(self.at)
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end

    def newlines(self) -> None:
        """Go on to the next token, over empty lines and here-documents."""
        self.blanks()
        while self.text.startswith("\n", self.at):
            self.newline()
            self.blanks()

    def newline(self) -> None:
        """One end of a line, and the here-documents that begin behind it."""
        self.at += 1
        for ending, is_indented, opened in self.documents:
            while True:
                if self.at >= len(self.text):
                    self.open_documents.append(opened)
                    break
                end = self.text.find("\n", self.at)
                line = self.text[self.at : end if end >= 0 else len(self.text)]
                self.at = len(self.text) if end < 0 else end + 1
                if (line.lstrip("\t") if is_indented else line) == ending:
                    break
        self.documents.clear()

    def operator(self) -> str:
        """The operator that stands here, "" where none does."""
        found = OPERATOR.match(self.text, self.at)
        if found is None:
            return ""
        if found[0] in ("<", ">") and self.text.startswith("(", found.end()):
            return ""  # <(...) is a word
        return "" if found[0] == "<" and PLACEHOLDER.match(self.text, self.at) else found[0]

    def reserved(self) -> str:
        """The unquoted word that stands here, where it may be a reserved one."""
        found = RESERVED.match(self.text, self.at)
        if found is None or not self.is_end(found.end()):
            return ""
        return found[0]

    def is_end(self, place: int) -> bool:
        """Whether a word ends before this place."""
        return place >= len(self.text) or self.text[place] in " \t\n;&|()<>"

    def words(self) -> None:
        """Words up to an operator."""
        while True:
            self.blanks()
            if self.at >= len(self.text) or self.operator():
                return
            self.word()

    def redirections(self) -> None:
        """Redirections, each with its target."""
        while True:
            self.blanks()
            number = NUMBER.match(self.text, self.at)
            before = self.at
            if number and self.text[number.end() : number.end() + 1] in ("<", ">"):
                self.at = number.end()
            if self.operator() not in REDIRECT:
                self.at = before
                return
            self.redirection()

    def redirection(self) -> None:
        """One redirection; that of a here-document notes its ending."""
        opened, operator = self.at, self.operator()
        self.at += len(operator)
        self.at = BLANK.match(self.text, self.at).end()  # type: ignore[union-attr]
        if self.at >= len(self.text) or self.operator():
            self.unexpected()
        start = self.at
        self.word()
        if operator in ("<<", "<<-"):
            ending = re.sub(r"[\"'\\]", "", self.text[start : self.at])
            self.documents.append((ending, operator == "<<-", opened))

    def word(self) -> None:
        """One word with all its quotes and expansions."""
        start = self.at
        while self.at < len(self.text):
            letter = self.text[self.at]
            if letter in " \t\n;&|)":
                break
            if letter in "<>":
                placeholder = PLACEHOLDER.match(self.text, self.at)
                if placeholder:
                    self.placeholders.append(placeholder.span())
                    self.at = placeholder.end()
                    continue
                if not self.text.startswith("(", self.at + 1):
                    break
                self.at += 2
                self.nested(self.at - 2)
            elif letter == "(":
                if ASSIGNED_ARRAY.fullmatch(self.text[start : self.at]):
                    self.array()
                elif self.at > start and self.text[self.at - 1] in "?*+@!":
                    self.at += 1
                    self.balanced(self.at - 1)
                else:
                    break
            else:
                if self.at > start and ESCAPED.match(self.text, self.at) and self.text[self.at - 1] in "\"'":
                    self.escapes.append((self.at, self.at + 2))
                self.part()
        if self.at == start:
            self.unexpected()

    def array(self) -> None:
        """``(a b # comment`` and further lines up to ``)``."""
        opened = self.at
        self.at += 1
        while True:
            self.newlines()
            if self.at >= len(self.text):
                raise Broken("nothing closes it: `)` is missing", opened)
            if self.text[self.at] == ")":
                self.at += 1
                return
            if self.operator():
                self.unexpected()
            self.word()
