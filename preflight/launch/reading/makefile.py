"""What do the recipes of a Makefile run, as a script of the same lines?"""

from __future__ import annotations

import re
from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.launchers import launch_words
from preflight.launch.plan import fail
from preflight.said import said

NAME = re.compile(r"(?:.*[/._-])?(?:GNU)?[Mm]akefile(?:[._-][\w.-]*)?|.*\.mk")
SET = re.compile(
    r"(?P<export>export\s+)?(?:override\s+)?(?P<name>[A-Za-z_]\w*)\s*(?P<sets>\?=|:{0,3}=)\s*(?P<value>.*)"
)
IF, END = re.compile(r"if(?:def|ndef|eq|neq)\b"), re.compile(r"endif\b")
REFERENCE = re.compile(r"(?<!\$)\$\(([A-Za-z_]\w*)\)")  # not $(shell ...), nor $$(hostname)
# $NODE_RANK in a recipe: make knows names of one letter without brackets.
OF_THE_SHELL = re.compile(r"(?<!\$)(?:\$\$)*\$(?P<name>[A-Za-z_]\w*)")
PLAIN = re.compile(r"[\w./:@%+,=-]*")


def is_makefile(name: str) -> bool:
    """Whether make reads a file of this name."""
    return NAME.fullmatch(name) is not None


def as_script(text: str) -> str:
    """The recipes and variables as bash reads them, line by line; of branches that make alone can choose, nothing.

    A variable that a branch sets is left out as well, so that its value is taken for one from outside.
    """
    lines: list[str] = []
    depth = 0
    goes_on = False
    for line in text.split("\n"):
        bare = line.strip()
        if line.startswith("\t") or goes_on:
            lines.append(_recipe(line, is_first=not goes_on) if depth == 0 else "")
            goes_on = line.endswith("\\") and depth == 0
            continue
        depth += 1 if IF.match(bare) else -1 if END.match(bare) and depth else 0
        found = SET.fullmatch(bare) if depth == 0 else None
        lines.append(_assignment(found) if found else "")
    return "\n".join(lines)


def problems(text: str, file: str) -> Iterable[Finding]:
    """Variables of the shell that make takes for its own in a recipe which starts a job."""
    words = launch_words()
    sets = {found["name"] for line in text.split("\n") if (found := SET.fullmatch(line.strip()))}
    for first, command in _commands(text):
        if not any(word in command for word in words):
            continue
        for found in OF_THE_SHELL.finditer(command):
            name = found["name"]
            if name[0] in sets:
                continue
            line = first + command.count("\n", 0, found.start())
            is_makes = name in sets and len(name) > 1
            message = said("${name} in a recipe: make reads its own ${letter} there, which is empty", name, name[0])
            yield fail("variables_are_set", message, Where(file, line), fix=f"$({name})" if is_makes else f"$${name}")


def _commands(text: str) -> Iterable[tuple[int, str]]:
    """The commands of the recipes with their first lines, those that a backslash continues as one."""
    held: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if held or (line.startswith("\t") and not line.strip().startswith("#")):
            held.append(line)
            if not line.endswith("\\"):
                yield number - len(held) + 1, "\n".join(held)
                held = []


TARGET = re.compile(r"[^\s#=:][^=:]*::?(?!=)")


def of_each_target(text: str, script: str, most: int) -> list[str]:
    """The script of each target of a Makefile, `most` of them: variables and its own recipe; lines keep their place."""
    owners: list[int] = []
    target = 0
    goes_on = False
    for line in text.split("\n"):
        is_recipe = line.startswith("\t") or goes_on
        target += 0 if is_recipe or not TARGET.match(line) else 1
        owners.append(target if is_recipe else 0)
        goes_on = is_recipe and line.endswith("\\")
    lines = script.split("\n")
    own = [{0, number} for number in dict.fromkeys(owners) if number][:most] or [{0}]
    return ["\n".join(line if owner in held else "" for line, owner in zip(lines, owners, strict=True)) for held in own]


def _recipe(line: str, *, is_first: bool) -> str:
    """A line as the shell gets it: @ and - in front of a command are make's, $$ is one $."""
    command = line.lstrip("\t").lstrip("@-+ ") if is_first else line
    return REFERENCE.sub(r"${\1}", command).replace("$$", "$")


def _assignment(found: re.Match[str]) -> str:
    value = REFERENCE.sub(r"${\1}", found["value"].partition(" #")[0].strip())
    if not PLAIN.fullmatch(re.sub(r"\$\{\w+\}", "", value)):
        value = "" if "$(" in value else f'"{value}"' if '"' not in value else ""
        if not value:
            return ""
    name, exported = found["name"], "export " if found["export"] else ""
    return f"{exported}{name}=${{{name}:-{value}}}" if found["sets"] == "?=" else f"{exported}{name}={value}"
