"""How are words read that no option has: one line, with what was probably meant?"""

from __future__ import annotations

import argparse
import difflib
import re
import textwrap
from collections.abc import Iterable
from typing import NoReturn

from preflight.said import joined, said
from preflight.said.errors import UsageError

EXIT_CODES = (
    "Exit codes: 0 pass or warn, 1 fail, 3 not measured, 4 usage, 5 nothing asked; 130/143/129 on INT/TERM/HUP."
)
LANGUAGE = "The language of terminal and pages; auto is that of the locale. JSON stays English."
LANGUAGES = ("auto", "en", "zh")
# What other tools call it -> what it is here.
MEANT = {
    "check": "launch check",
    "write": "launch write",
    "test": "run",
    "start": "run",
    "verify": "run",
    "doctor": "run",
    "why": "diagnose",
    "logs": "diagnose",
    "fix": "report last --format=fix",
    "list": "report --list",
    "last": "report last",
    "show": "report last",
    "help": "--help",
    "version": "--version",
}
ALWAYS = frozenset({"help", "help_all", "verbosity"})
NAMES_WIDTH = 76
MORE = "more options, which --help-all describes"
ONE_WORD = "several hosts are one word: --hosts=node1,node2"


class HelpOfAll(argparse.Action):
    """--help with every option described, where --help describes the first ones and names the others."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print it, and end as --help does."""
        assert isinstance(parser, Parser)  # nothing else has this option
        print(parser.full_help(), end="")
        parser.exit()


class Parser(argparse.ArgumentParser):
    """argparse with our exit code for usage errors, in the language asked for, and one line instead of a page."""

    more = MORE  # the heading of the others
    first: frozenset[str] = frozenset()  # what --help describes; of a verb with few options all

    def describe_first(self, fields: Iterable[str]) -> None:
        """Let --help describe these options and name the others, which --help-all describes too."""
        self.first = frozenset(fields)
        self.add_argument("--help-all", action=HelpOfAll, nargs=0, help="Describe every option and exit.")

    def full_help(self) -> str:
        """The help in which every option is described."""
        return super().format_help()

    def format_help(self) -> str:
        """The first options, the names of all others under "more", and the examples."""
        if not self.first:
            return self.full_help()
        formatter = self._get_formatter()
        formatter.add_usage("%(prog)s [OPTION...]", [], [], None)
        formatter.add_text(self.description)
        rest: list[str] = []
        for group in self._action_groups:
            every = group._group_actions  # noqa: SLF001 - argparse offers no other way to them
            chosen = [one for one in every if one.dest in self.first | ALWAYS or not one.option_strings]
            rest += [one.option_strings[-1] for one in every if one not in chosen]
            if chosen:
                formatter.start_section(group.title)
                formatter.add_arguments(chosen)
                formatter.end_section()
        formatter.start_section(self.more)
        formatter.add_text("\n".join(textwrap.wrap(" ".join(rest), NAMES_WIDTH, break_on_hyphens=False)))
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def error(self, message: str) -> NoReturn:
        """One line, as for every other word that is not valid."""
        near = _near(message)
        stray = message.removeprefix("unrecognized arguments: ")
        sentences = [_sentence(message)]
        sentences += [said("did you mean {near}?", near)] if near else []
        sentences += [ONE_WORD] if stray != message and not stray.startswith("-") else []
        raise UsageError(said("{message}; see preflight --help", joined(sentences)))


# argparse's own words, and the sentence that each is, with the same values.
ARGPARSE = tuple(
    (re.compile(re.sub(r"\\\{\w+\\\}", "(.*?)", re.escape(template))), template)
    for template in (
        "unrecognized arguments: {words}",
        "argument {name}: expected one argument",
        "argument {name}: expected at least one argument",
        "argument {name}: invalid choice: {word} (choose from {choices})",
        "argument {name}: invalid {type} value: {word}",
        "the following arguments are required: {names}",
        "ambiguous option: {word} could match {options}",
    )
)


def _sentence(message: str) -> str:
    """What argparse says, as a sentence of ours."""
    found = ((pattern.fullmatch(message), template) for pattern, template in ARGPARSE)
    return next((said(template, *match.groups()) for match, template in found if match), message)


def _near(message: str) -> str:
    """What was probably meant by a choice or an option that is not there; "" where nothing is like it."""
    choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
    if choice and message.startswith("argument VERB") and choice[1] in MEANT:
        return MEANT[choice[1]]
    if choice:
        found = difflib.get_close_matches(choice[1], re.findall(r"[\w-]+", choice[2]), n=1)
        return found[0] if found else ""
    option = re.search(r"unrecognized arguments: (--[\w-]+)", message)
    if option is None:
        return ""
    from preflight.job.options.options import OPTIONS  # takes a while to import: only where something is wrong

    names = [f"--{name}" for row in OPTIONS.values() for name in (row.name, row.name.removeprefix("bench-"))]
    found = difflib.get_close_matches(option[1], [*names, "--format", "--match", "--out", "--like"], n=1)
    return found[0] if found else ""


class Formatter(argparse.HelpFormatter):
    """Wraps all but the epilog, whose lines are there to be pasted, and lists of options, which are wrapped."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n  preflight " in text or text.startswith("--"):
            return "".join(f"{indent}{line}" for line in text.splitlines(keepends=True))
        return super()._fill_text(text, width, indent)


def add_language(parser: argparse.ArgumentParser) -> None:
    """--lang before a verb or its part, where people put it too; the one behind comes after it and wins."""
    text = said("{LANGUAGE} Default: auto.", LANGUAGE)
    parser.add_argument("--lang", dest="lang_before", choices=LANGUAGES, help=text)
