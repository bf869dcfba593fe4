"""Which command line starts the run again in the right way, where only the words of this one were wrong?"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from preflight.judge.ledger.findings import Command
from preflight.reach.transport.local import Local
from preflight.said import values_in
from preflight.said.redact import words_without_secrets

ROW = "reach.every_node_answers"
HOSTS, PYTHON = "--hosts", "--python"


def again(reason: str, nodes: Sequence[str], command: Sequence[str]) -> tuple[Command, ...]:
    """The command of the run, for the machine where it was typed, with what the loss of these nodes tells.

    A Python that is there in place of one that is not, or a host that exists in place of a slip of the pen. None where
    the reason tells neither, the word does not stand in the command, or a secret does.
    """
    words = list(command)
    if words_without_secrets(words) != tuple(words):
        return ()
    made: list[str] | None = None
    for python in values_in(reason, "python"):
        if "hostfile" not in values_in(reason, "python_of"):
            made = _with_value(words, PYTHON, re.compile(".+"), str(python))
    for meant in values_in(reason, "meant_host"):
        own = re.compile(rf"(?<![\w.-]){re.escape(nodes[0])}(?![\w.-])")
        if len(nodes) == 1:
            made = _with_value(words, HOSTS, own, str(meant))
    return () if made is None or made == words else (Command(Local.name, shlex.join(made), row=ROW),)


def _with_value(words: list[str], name: str, old: re.Pattern[str], new: str) -> list[str] | None:
    """The words with `new` for `old` in the value of an option, however it is written; None where it is not there."""

    def changed(value: str) -> str:
        return old.sub(lambda _: new, value)

    for place, word in enumerate(words):
        short = word.replace("--preflight-", "--", 1)
        if short.startswith(f"{name}="):
            head, _, value = word.partition("=")
            return [*words[:place], f"{head}={changed(value)}", *words[place + 1 :]]
        if short == name and place + 1 < len(words):
            return [*words[: place + 1], changed(words[place + 1]), *words[place + 2 :]]
    return None
