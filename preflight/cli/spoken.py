"""How does --help speak another language?"""

from __future__ import annotations

import argparse

from preflight.report.language import Language


def tell(parser: argparse.ArgumentParser, language: Language) -> None:
    """Put every help, heading and description of a parser and of its verbs into the language."""
    seen: set[int] = set()
    parser.description = language.say(parser.description or "")
    parser.epilog = "\n".join(
        line if line.startswith("  preflight ") else language.lines(line) for line in (parser.epilog or "").split("\n")
    )
    for group in parser._action_groups:  # noqa: SLF001 - argparse offers no other way to its headings
        group.title = language.say(group.title or "")
    for action in parser._actions:  # noqa: SLF001
        if action.help and action.help is not argparse.SUPPRESS:
            action.help = language.say(action.help)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for choice in action._choices_actions:  # noqa: SLF001
                choice.help = language.say(choice.help or "")
            for verb in action.choices.values():
                if id(verb) not in seen:
                    seen.add(id(verb))
                    tell(verb, language)
