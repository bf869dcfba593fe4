"""What do the recipes of a justfile run, as a script of the same lines?"""

from __future__ import annotations

import re

NAME = re.compile(r"(?:.*/)?\.?justfile|.*\.just", re.IGNORECASE)
SET = re.compile(r"(?P<export>export\s+)?(?P<name>[A-Za-z_][\w-]*)\s*:=\s*(?P<value>.*)")
HEAD = re.compile(r"@?(?P<name>[A-Za-z_][\w-]*)(?P<given>(?:\s+[$+*]*[A-Za-z_][\w-]*(?:=\S+)?)*)\s*:(?!=)")
GIVEN = re.compile(r"(?P<sign>[$+*]*)(?P<name>[A-Za-z_][\w-]*)(?:=(?P<default>\S+))?")
QUIET = re.compile(r"^(@-?|-@?)(?!-)")  # what just reads in front of a command
REFERENCE = re.compile(r"\{\{\s*([A-Za-z_][\w-]*)\s*\}\}")
CALL = re.compile(r"\{\{[^{}]*\}\}")
FROM_OUTSIDE = re.compile(
    r"""env(?:_var)?(?:_or_default)?\(\s*["'](?P<name>\w+)["']\s*(?:,\s*["'](?P<default>[^"']*)["']\s*)?\)"""
)
PLAIN = re.compile(r"""(["'])(?P<text>[^"'`$\\]*)\1""")


def is_justfile(name: str) -> bool:
    """Whether just reads a file of this name."""
    return NAME.fullmatch(name) is not None


def as_script(text: str) -> str:
    """The recipes and variables as bash reads them, line by line; a recipe's parameters are what it is called with."""
    lines: list[str] = []
    is_recipe = False
    for line in text.split("\n"):
        found, head = SET.fullmatch(line.rstrip()), HEAD.match(line)
        if is_recipe and (line[:1] in (" ", "\t") or not line.strip()):
            lines.append(_filled(QUIET.sub("", line.strip())))
            continue
        is_recipe = head is not None and found is None
        lines.append(_assignment(found) if found else _parameters(head["given"]) if head else "")
    return "\n".join(lines)


def of_each_recipe(text: str, script: str, most: int) -> list[str]:
    """The script of each recipe: the variables, and its own lines; every line keeps its place; `most` of them."""
    owners: list[int] = []
    recipe = 0
    for line in text.split("\n"):
        starts = HEAD.match(line) is not None and SET.fullmatch(line.rstrip()) is None
        recipe += starts
        inside = starts or line[:1] in (" ", "\t") or not line.strip()
        owners.append(recipe if inside else 0)
    lines = script.split("\n")
    own = [{0, number} for number in dict.fromkeys(owners) if number][:most] or [{0}]
    return ["\n".join(line if owner in held else "" for line, owner in zip(lines, owners, strict=True)) for held in own]


def _filled(command: str) -> str:
    """A line with the shell's way to name a variable; what just works out itself comes from elsewhere."""
    named = REFERENCE.sub(lambda found: f"${{{_name(found[1])}}}", command)
    return CALL.sub("$(just --evaluate)", named)


def _name(name: str) -> str:
    return name.replace("-", "_")


def _assignment(found: re.Match[str]) -> str:
    name, exported = _name(found["name"]), "export " if found["export"] else ""
    value, outside = PLAIN.fullmatch(found["value"]), FROM_OUTSIDE.fullmatch(found["value"])
    if value:
        return f'{exported}{name}="{value["text"]}"'
    if outside:
        default = "" if outside["default"] is None else f":-{outside['default']}"
        return f"{exported}{name}=${{{outside['name']}{default}}}"
    return f"{exported}{name}=$(just --evaluate {name})"


def _parameters(given: str) -> str:
    """What a recipe is called with, under the names of its parameters."""
    sets: list[str] = []
    for place, found in enumerate(GIVEN.finditer(given), start=1):
        default = (found["default"] or "").strip("\"'")
        default = default if re.fullmatch(r"[\w./:-]*", default) else ""  # what just works out is not known
        exported = "export " if "$" in found["sign"] else ""
        value = "$*" if set(found["sign"]) & {"+", "*"} else f"${{{place}:-{default}}}" if default else f"${place}"
        sets.append(f'{exported}{_name(found["name"])}="{value}"')
    return "; ".join(sets)
