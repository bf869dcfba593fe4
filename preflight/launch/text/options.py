"""What do the options of a launch command say, as its own parser reads them?"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Field, Sourced, Unknown
from preflight.launch.plan import Hostfile, Slurm, fail
from preflight.launch.text.expansion import Assigned
from preflight.launch.text.marks import Marks, is_known
from preflight.launch.text.shell import Command, Word
from preflight.launch.traits import Counts, Traits
from preflight.said import said

MANY = re.compile(r"ARGS|OPT|FLAG|PARAM|CONF|EXTRA|\[@\]|\$[@*]|\$\{[@*]", re.IGNORECASE)
LIKE = 0.9  # of two names from which on one is the other misspelt


@dataclass(frozen=True)
class Spec:
    """The options of a tool: those with a value, those without, and its letters."""

    valued: Collection[str]
    flags: Collection[str]
    short: Mapping[str, str] = field(default_factory=dict)
    abbreviates: bool = True

    def name(self, written: str) -> str:
        """The full name of an option as written, "" where the tool has none such."""
        if not written.startswith("--"):
            return self.short.get(written, "")
        name = written[2:].replace("-", "_")
        if name in self.valued or name in self.flags or not self.abbreviates:
            return name if name in self.valued or name in self.flags else ""
        fits = [option for option in (*self.valued, *self.flags) if option.startswith(name)]
        return fits[0] if len(fits) == 1 else ""

    def meant(self, written: str) -> str:
        """The option that is one slip away, "" where none is."""
        name = written.lstrip("-").replace("-", "_")
        near = difflib.get_close_matches(name, (*self.valued, *self.flags), n=1, cutoff=LIKE)
        return near[0] if near and written.startswith("--") else ""


@dataclass(frozen=True)
class Parsed:
    """The options that were given, then the program and its arguments.

    ``is_opaque``: among them stands a variable from outside, which may hold any option.
    """

    options: Mapping[str, Word]
    rest: tuple[Word, ...]
    unknown: tuple[Word, ...]
    is_opaque: bool


def parse_options(words: tuple[Word, ...], spec: Spec, marks: Marks) -> Parsed:
    """The options up to the program."""
    options: dict[str, Word] = {}
    unknown: list[Word] = []
    opaque = False
    place = 0
    while place < len(words):
        word = words[place]
        written, equals, value = word.plain.partition("=")
        if written == "--":
            place += 1
            break
        if not written.startswith("-") or len(written) == 1:
            if is_known(written) or not _may_be_options(marks.spelled(word.text), words[place + 1 :]):
                break
            opaque = True
            place += 1
            continue
        name = spec.name(written)
        if not name:
            unknown.append(word)
            name = spec.meant(written)  # told by itself, and judged as it was meant
        if not name:
            pass
        elif name in spec.flags:
            options[name] = Word(value if equals else "true", word.line)
        elif equals:
            options[name] = Word(word.text.partition("=")[2], word.line)
        elif place + 1 < len(words):
            place += 1
            options[name] = words[place]
        place += 1
    return Parsed(options, words[place:], tuple(unknown), opaque)


def _may_be_options(expression: str, following: tuple[Word, ...]) -> bool:
    """Whether an unknown word is more likely a bundle of options than the program."""
    is_program = expression.endswith((".py", ".sh"))
    return (
        bool(following) and not is_program and bool(MANY.search(expression) or not following[0].plain.startswith("-"))
    )


@dataclass(frozen=True)
class Around:
    """A launcher that may stand around the command of another program."""

    traits: Traits
    counts: Callable[[Reader, tuple[str, ...]], Counts]  # what it starts, as the words around that command tell


@dataclass
class Reader:
    """Turns words of one command into fields of a plan, and keeps what was wrong with them.

    `configs` and `hostfiles` are the files that the script's commands name, `wrappers` the launchers that start all
    nodes by a program around another command.
    """

    command: Command
    marks: Marks
    slurm: Slurm | None = None
    configs: Mapping[str, Mapping[str, Field[Any]]] = field(default_factory=dict)
    hostfiles: Mapping[str, Hostfile] = field(default_factory=dict)
    wrappers: Mapping[str, Around] = field(default_factory=dict)
    problems: list[Finding] = field(default_factory=list)

    @property
    def where(self) -> Where:
        """The line of the command."""
        return Where(self.marks.file, self.command.line)

    def text(self, word: Word | None) -> Field[str]:
        """A word as a field."""
        return None if word is None else self.marks.field(word.text, word.line)

    def refuse(
        self,
        parsed: Parsed,
        tool: str,
        others: Mapping[str, str],
        known: Collection[str],
        families: tuple[str, ...] = (),
    ) -> None:
        """What the parser of `tool` refuses: options of another launcher, misspelled ones, and those of the program."""
        # `others` has its names for those of other launchers, `known` all of its own, `families` how more of them begin
        for word in parsed.unknown:
            written = word.plain.partition("=")[0]
            name = written.lstrip("-").replace("-", "_")
            of_family = bool(families) and name.startswith(families)
            near = [] if of_family else difflib.get_close_matches(name, known, n=1, cutoff=LIKE)
            own = others.get(name) if written.startswith("--") else None
            own = own or (f"--{near[0]}" if near else None)
            is_whole = written.startswith("--") and is_known(word.text) and not parsed.is_opaque
            if own is None and is_whole and name and not of_family:
                own = said("{written} behind the program, if it is the program's", written)
            if own is not None:
                message = said("{tool} has no option {written} and stops: unrecognized arguments", tool, written)
                self.problems.append(fail("options_are_known", message, Where(self.marks.file, word.line), fix=own))

    def number(self, value: Field[str] | Word, name: str) -> Field[int]:
        """A number; a text that is none is a problem, and unknown."""
        found = self.text(value) if isinstance(value, Word) else value
        if not isinstance(found, Sourced):
            return found
        digits = found.value.strip()
        if re.fullmatch(r"[+-]?[0-9]{1,9}", digits):
            return Sourced(int(digits), found.file, found.line, found.origin)
        self.problems.append(
            fail(
                "numbers_are_numbers", said("{name} is {value!r}; wanted a number", name, found.value[:60]), found.where
            )
        )
        return Unknown(found.value[:60], found.file, found.line)

    def number_of(self, word: Word | None, name: str) -> Field[int]:
        """The number of an option that may be absent."""
        return self.number(word, name) if word is not None else None

    def variable(self, name: str) -> Field[str]:
        """An environment variable as the command sees it."""
        held = self.command.prefix.get(name)
        if held is None:
            found = self.command.variables.get(name)
            held = found if found is not None and found.exported else None
        return None if held is None else self.assigned(held)

    def assigned(self, held: Assigned) -> Field[str]:
        """The value of a variable, at the line that set it."""
        found = self.marks.field(held.text, held.line)
        if isinstance(found, Sourced):
            return Sourced(found.value, held.file or found.file, held.line, found.origin)
        return found

    def environment(self) -> dict[str, Field[str]]:
        """All exported variables of the command."""
        held = {name: found for name, found in self.command.variables.items() if found.exported}
        return {name: self.assigned(found) for name, found in {**held, **self.command.prefix}.items()}

    def unexported(self) -> dict[str, Field[str]]:
        """The variables that the script sets and the command does not see."""
        return {
            name: self.assigned(found)
            for name, found in self.command.variables.items()
            if not found.exported and name not in self.command.prefix
        }

    def address_and_port(self, word: Word | None, name: str) -> tuple[Field[str], Field[int]]:
        """``host:port``, ``[v6]:port`` or a host alone."""
        if word is None:
            return None, None
        text = word.text
        if word.plain.startswith("["):
            host, _, port = text.rpartition("]:")
            host = host + "]" if host else text
        elif word.plain.count(":") > 1:
            host, port = text, ""
        else:
            host, _, port = text.partition(":")
        address = self.marks.field(host, word.line) if host else None
        return address, self.number(Word(port, word.line), name) if port else None

    def wrapper(self, place: int) -> tuple[str, ...]:
        """The words around the launcher that stands at `place`."""
        return (*self.command.outer, *(word.plain for word in self.command.words[:place]))

    def outer_launcher(self, wrapper: tuple[str, ...]) -> Around | None:
        """The launcher around this command that starts it on all nodes."""
        names = {word.rpartition("/")[2] for word in wrapper}
        return next((row for program, row in self.wrappers.items() if program in names), None)

    def spelled(self) -> str:
        """The command as it was written, variables that are known filled in."""
        return " ".join(self.marks.spelled(word.text) for word in self.command.words)[:2000]


def product(left: Field[int], right: Field[int]) -> Field[int]:
    """The product of two fields, at the place of the left one."""
    if isinstance(left, Sourced) and isinstance(right, Sourced):
        origins = {left.origin, right.origin}
        origin = "environment" if "environment" in origins else "tool" if origins == {"tool"} else "written"
        place = left if left.origin != "tool" else right
        return Sourced(
            left.value * right.value,
            place.file,
            place.line,
            "environment" if origin == "environment" else "tool" if origin == "tool" else "written",
        )
    return None
