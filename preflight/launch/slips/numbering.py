"""Does a script that numbers its nodes or processes itself, in a loop or by name, give each a number of its own?"""

from __future__ import annotations

import re
from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Sourced, Unknown
from preflight.launch.plan import LaunchFiles, fail
from preflight.said import said

CASE = re.compile(
    r"(?ms)^[ \t]*case[ \t]+(?P<asked>\S[^\n]{0,199}?)[ \t]+in\b(?P<arms>(?:(?!^[ \t]*case\b).)*?)^[ \t]*esac\b"
)
OF_A_HOST = re.compile(r"(?i)host|uname -n|_ip\b|_addr\b")
ARM = re.compile(r"(?ms)(?P<names>[^\s;()|&][^\n;()&]{0,200})\)(?P<body>.*?)(?:;;|\Z)")
SET = re.compile(r"\b(?P<name>[A-Za-z_]\w*)=(?P<value>[^\s;]*)")
TABLE = re.compile(r"(?s)\bdeclare\s+-\w{0,9}A\w{0,9}\s+(?P<name>\w+)=\((?P<held>[^()]*)\)")
ENTRY = re.compile(r"\[[\"']?(?P<host>[^\[\]\"'*]{1,200})[\"']?\]=[\"']?(?P<value>\d+)[\"']?(?!\S)")
OF_A_TABLE = re.compile(r"[\"']?\$\{(?P<name>\w+)\[[^\]]*(?i:host|uname -n)[^\]]*\]\}[\"']?")
COMMENT = re.compile(r"(?m)(?<!\S)#.*$")


def names_have_numbers_of_their_own(files: LaunchFiles) -> Iterable[Finding]:
    """Two arms of a `case` over the host's name that set one and the same node rank."""
    for file, text in files.script_texts.items():
        names = {name for plan in files.plans for name in _read_rank(plan.node_rank, file, text)}
        for found in CASE.finditer(COMMENT.sub(lambda one: " " * len(one[0]), text)) if names else ():
            if OF_A_HOST.search(found["asked"]):
                yield from _given_twice(file, text, found, names)


def tables_have_numbers_of_their_own(files: LaunchFiles) -> Iterable[Finding]:
    """Two hosts of an array that a start takes its node rank from by the host's name, and both have the same."""
    for plan in files.plans:
        rank, text = plan.node_rank, files.script_texts.get(plan.where.file, "")
        asked = OF_A_TABLE.fullmatch(rank.expression) if isinstance(rank, Unknown) else None
        for found in TABLE.finditer(COMMENT.sub(lambda one: " " * len(one[0]), text)) if asked else ():
            if asked is not None and found["name"] == asked["name"]:
                yield from _listed_twice(plan.where.file, text, found)


def _listed_twice(file: str, text: str, found: re.Match[str]) -> Iterable[Finding]:
    places: dict[str, list[Where]] = {}
    for entry in ENTRY.finditer(found["held"]):
        line = text.count("\n", 0, found.start("held") + entry.start()) + 1
        places.setdefault(entry["value"], []).append(Where(file, line))
    for value, where in places.items():
        if len(where) > 1:
            name = found["name"]
            message = said("{name}={value} for {hosts} hosts: two nodes with one rank", name, value, len(where))
            yield fail("ranks_are_distinct", message, *where, fix=said("A {name} of its own for each host.", name))


def _read_rank(rank: object, file: str, text: str) -> list[str]:
    """The variable that a start takes its node rank from, where one of several lines sets it."""
    if not isinstance(rank, Sourced | Unknown) or rank.file != file:
        return []
    lines = text.split("\n")
    line = lines[rank.line - 1] if rank.line <= len(lines) else ""
    return [found["name"] for found in SET.finditer(line) if found["value"].strip("\"'").isdigit()]


def _given_twice(file: str, text: str, found: re.Match[str], names: set[str]) -> Iterable[Finding]:
    """Arms for one host each that set no more than its number: one that sets an address is of a job of its own."""
    places: dict[tuple[str, str], list[Where]] = {}
    for arm in ARM.finditer(found["arms"]):
        sets = list(SET.finditer(arm["body"]))
        if any(one["name"] not in names for one in sets):
            return
        if "*" in arm["names"]:
            continue
        for one in sets:
            at = found.start("arms") + arm.start("body") + one.start()
            value = one["value"].strip("\"'")
            if value.isdigit():
                places.setdefault((one["name"], value), []).append(Where(file, text.count("\n", 0, at) + 1))
    for (name, value), where in places.items():
        if len(where) > 1:
            message = said("{name}={value} for {hosts} hosts: two nodes with one rank", name, value, len(where))
            yield fail("ranks_are_distinct", message, *where, fix=said("A {name} of its own for each host.", name))


FILES_RULES = (names_have_numbers_of_their_own, tables_have_numbers_of_their_own)
