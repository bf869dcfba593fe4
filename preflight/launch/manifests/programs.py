"""Which commands does a container of a manifest run, with which variables, and is its script one for bash?"""

from __future__ import annotations

import re
from dataclasses import replace

from preflight.launch.launchers import first_words
from preflight.launch.text import form, grammar
from preflight.launch.text.expansion import Assigned
from preflight.launch.text.located import Located
from preflight.launch.text.marks import Marks, plain
from preflight.launch.text.shell import SHELLS, Command, Word
from preflight.launch.text.statements import read_script
from preflight.ledger.findings import Finding

REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_]\w*)\)")


def program_of(
    container: Located, marks: Marks, file: str, operator: tuple[str, ...]
) -> tuple[list[Command], list[Finding]]:
    """The commands of a container: its words, or the script that a shell among them reads; and what is wrong with it.

    Variables that `operator` names are set by what starts the container, and unknown here.
    """
    variables = {
        name: Assigned((marks.unknown(f"${name}", container.line),), container.line, True) for name in operator
    }
    env = container.get("env")
    for entry in env.each() if env else []:
        name, value = entry.get("name"), entry.get("value")
        if name is not None:
            text = str(value.text) if value is not None else marks.unknown(f"valueFrom of {name.value}", name.line)
            line = value.line if value is not None else name.line
            variables[str(name.value)] = Assigned((_referred(text, variables, marks, line),), line, True)
    words: list[Word] = []
    for part in ("command", "args"):
        held = container.get(part)
        for item in held.each() if held else []:
            line = item.line + 1 if "\n" in item.text else item.line
            words.append(Word(_referred(item.text, variables, marks, item.line), line))
    if not words:
        return [], []
    names = [word.plain.rpartition("/")[2] for word in words]
    if names[0] in SHELLS:
        for place, option in enumerate(names[1:-1], start=1):
            if option.startswith("-") and "c" in option:
                return _script(words[place + 1], marks, file, variables)
    return [Command(tuple(words), words[0].line, variables, {}, (), False, True)], []


def _script(
    script: Word, marks: Marks, file: str, variables: dict[str, Assigned]
) -> tuple[list[Command], list[Finding]]:
    """The commands of a script in a manifest; its form is judged where it has lines of its own."""
    text, problems = script.text, []
    if "\n" in text.strip():
        above = "\n" * (script.line - 1)
        found = list(form.problems(above + plain(text), file, grammar.read(above + plain(text))))
        meant = form.as_meant(above + text, found)
        text = meant[len(above) :]
        # the lines of the manifest are indented otherwise than the script's
        problems = [replace(finding, edits=()) for finding in found]
    commands = read_script(
        text,
        file,
        per_node=True,
        variables=variables,
        first_line=script.line,
        marks=marks,
        launch_words=first_words(),
    ).commands
    return commands, problems


def _referred(text: str, variables: dict[str, Assigned], marks: Marks, line: int) -> str:
    """Kubernetes' own ``$(NAME)``, and ``$$`` for a dollar."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        held = variables.get(match[1])
        return held.text if held else marks.unknown(match[0], line)

    return REFERENCE.sub(value, text) if len(text) < 200 else text
