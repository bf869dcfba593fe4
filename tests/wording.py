"""Sentences of ours with every word changed and every value kept: what a program reads of one must be the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from preflight.launch.rules import check
from preflight.run.suite import judge
from preflight.said import Said, joined, knowing, pieces, sentence
from preflight.said.sentence import _made

WORD = re.compile(r"[A-Za-z]+")
PROSE = re.compile(
    r"in every file|the same on every node|address of (rank 0's node|node 0)|head's address|prints it there"
)
WORDINGS = ("as it is written", "every word changed")


def _changed(text: str) -> str:
    return WORD.sub(lambda found: f"z{found[0][::-1].lower()}q", text)


def reworded(text: str, change: Callable[[str], str] = _changed) -> str:
    """The same sentence in words that nobody has seen before; one without values is nothing but words."""
    if not isinstance(text, Said):
        return change(text)
    if text.parts:
        again = joined([reworded(part, change) for part in text.parts], change(text.joint))
        return knowing(again, **text.known)
    values = {
        name: reworded(value, change) if isinstance(value, Said) else value for name, value in text.values.items()
    }
    shown = {**text.texts(), **{name: value for name, value in values.items() if isinstance(value, Said)}}
    literals = [(change(piece.literal), piece.name) for piece in pieces(text.template)]
    template = "".join(literal + (f"{{{name}}}" if name else "") for literal, name in literals)
    made = "".join(literal + shown.get(name, "") for literal, name in literals)
    return _made(made, template, values, (), "", known=text.known)


def rephrased(text: str) -> str:
    """A fix whose prose is another: what is no word of a file, and is not to be put into one."""
    return reworded(text, change=lambda literal: PROSE.sub("zzz", literal))


def templates_say_other_words(monkeypatch) -> None:
    """Every sentence that is made of a template from now on."""

    def filled(template: str, texts: Mapping[str, str]) -> str:
        return "".join(_changed(piece.literal) + texts.get(piece.name, "") for piece in pieces(template))

    monkeypatch.setattr(sentence, "filled", filled)


def commands_read_other_words(monkeypatch) -> None:
    """The rows of commands get each finding in other words."""
    real = judge.with_commands

    def with_commands(finding, cluster):
        return replace(real(replace(finding, message=reworded(finding.message)), cluster), message=finding.message)

    monkeypatch.setattr(judge, "with_commands", with_commands)


def fixes_read_other_words(monkeypatch, *, prose: bool = False) -> None:
    """What corrects launch files gets each message in other words, and the prose of each fix."""
    real = check.judge

    def judged(files, cluster):
        return [
            replace(finding, message=reworded(finding.message), fix=rephrased(finding.fix) if prose else finding.fix)
            for finding in real(files, cluster)
        ]

    monkeypatch.setattr(check, "judge", judged)
