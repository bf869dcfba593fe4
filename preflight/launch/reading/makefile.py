"""What do the recipes of a Makefile run, as a script of the same lines?"""

from __future__ import annotations

import re

NAME = re.compile(r"(?:.*[/._-])?(?:GNU)?[Mm]akefile(?:[._-][\w.-]*)?|.*\.mk")
SET = re.compile(
    r"(?P<export>export\s+)?(?:override\s+)?(?P<name>[A-Za-z_]\w*)\s*(?P<sets>\?=|:{0,3}=)\s*(?P<value>.*)"
)
IF, END = re.compile(r"if(?:def|ndef|eq|neq)\b"), re.compile(r"endif\b")
REFERENCE = re.compile(r"(?<!\$)\$\(([A-Za-z_]\w*)\)")  # not $(shell ...), nor $$(hostname)
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


TARGET = re.compile(r"[^\s#=:][^=:]*::?(?!=)")


def of_each_target(text: str, script: str) -> list[str]:
    """The script of each target of a Makefile: the variables, and its own recipe; every line keeps its place."""
    owners: list[int] = []
    target = 0
    goes_on = False
    for line in text.split("\n"):
        is_recipe = line.startswith("\t") or goes_on
        target += 0 if is_recipe or not TARGET.match(line) else 1
        owners.append(target if is_recipe else 0)
        goes_on = is_recipe and line.endswith("\\")
    lines = script.split("\n")
    own = [{0, number} for number in dict.fromkeys(owners) if number] or [{0}]
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
