"""How is a script read in a test: its commands as words, expressions in the places of what is unknown?"""

from __future__ import annotations

from preflight.launch.text.marks import Marks
from preflight.launch.text.shell import Command
from preflight.launch.text.statements import read_script


def commands(text: str, **more) -> tuple[list[Command], Marks]:
    """The commands of a script named x.sh, and the marks of their words."""
    found, marks, *_ = read_script(text, "x.sh", **more)
    return found, marks


def words(text: str, **more) -> list[list[str]]:
    """The words of every command, expressions in the places of what is unknown."""
    found, marks = commands(text, **more)
    return [[marks.spelled(word.text) for word in command.words] for command in found]
