"""How does --help speak another language?"""

from __future__ import annotations

import argparse
import re
from functools import partial
from typing import Any

from preflight.cli.parser import Formatter, Parser
from preflight.report.language import Language
from preflight.report.language.wrap import wrapped

CHOICES = "%(choices)s"
LISTED = re.compile(r"(`[^`]*`)|, ")  # code stays


class Spoken(Formatter):
    """Lines end between letters too, as in a script without spaces; `usage` stands before the first one."""

    def __init__(self, *words: Any, usage: str, **more: Any) -> None:
        super().__init__(*words, **more)
        self._before = usage

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        """In the language, where argparse would put its own word."""
        super().add_usage(usage, actions, groups, self._before if prefix is None else prefix)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrapped(" ".join(text.split()), width, first=0, rest=0)


def tell(parser: argparse.ArgumentParser, language: Language) -> None:
    """Put every help, heading and description of a parser and of its verbs into the language."""
    seen: set[int] = set()
    parser.formatter_class = partial(Spoken, usage=language.say("usage:"))
    parser.description = language.say(parser.description or "")
    parser.epilog = "\n".join(
        line if line.startswith("  preflight ") else language.lines(line) for line in (parser.epilog or "").split("\n")
    )
    if isinstance(parser, Parser):
        parser.more = language.say(parser.more)
    for group in parser._action_groups:  # noqa: SLF001 - argparse offers no other way to its headings
        group.title = language.say(group.title or "")
    for action in parser._actions:  # noqa: SLF001
        if action.help and action.help is not argparse.SUPPRESS:
            translated = language.say(action.help)
            action.help = translated if translated == action.help else _in_line(translated, action)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for choice in action._choices_actions:  # noqa: SLF001
                choice.help = language.say(choice.help or "")
            for verb in action.choices.values():
                if id(verb) not in seen:
                    seen.add(id(verb))
                    tell(verb, language)


def _in_line(text: str, action: argparse.Action) -> str:
    """A help whose choices and names are listed as the rest of it lists things."""
    choices = [*(action.choices or ())]
    if CHOICES in text and all(isinstance(choice, str) for choice in choices):
        text = text.replace(CHOICES, "、".join(choices))
    return LISTED.sub(lambda found: found[1] or "、", text)
