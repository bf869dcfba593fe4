"""How is a line written that a finding speaks of, once it is right?

Only where nothing but one value can be meant, or any value of its kind is as good: a free port, the rank that no other
file has. What is left to the user (an address, the number of nodes) stays words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from preflight.judge.ledger.findings import Edit, Finding, Where
from preflight.said import joined, said, values_in

Lines = Mapping[str, list[str]]
Editor = Callable[[Finding, Where, str], "str | None"]
ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>\S*)")
WRITTEN = r"(\"[^\"\n]*\"|'[^'\n]*'|[^\s;\"'&|)\\]*)"  # a value as a shell takes it


def with_edits(finding: Finding, lines: Lines) -> Finding:
    """The finding with the edits of its lines, and the corrected line for its fix, where the right value is known."""
    rule = finding.check.removeprefix("launch.")
    edits = finding.edits
    if not edits and rule in EDITORS:
        pick, editor = EDITORS[rule]
        found = [_edit(finding, where, lines, editor) for where in pick(finding)]
        edits = tuple(edit for edit in found if edit is not None)
        if not edits or len(edits) < len(found):
            return finding
    if not edits:
        return finding
    is_shown = len(edits) < FEW and all(len(edit.lines) < 2 and edit.is_sure for edit in edits) and rule not in IN_WORDS
    return replace(finding, edits=edits, fix=_shown(finding, edits) if is_shown and edits[0].lines else finding.fix)


def _shown(finding: Finding, edits: tuple[Edit, ...]) -> str:
    """Every line as it is to be, behind its number; where lines of several files are to blame, behind its file too."""
    is_of_several = len({where.file for where in finding.where}) > 1
    by_text: dict[str, list[str]] = {}
    for edit in edits:
        place = f"{edit.file}:{edit.first}" if is_of_several else f"{edit.first}"
        by_text.setdefault(edit.lines[0].strip() if edit.lines else "", []).append(place)
    word = "" if is_of_several else "line "
    deleted = [said("delete {word}{place}", word, place) for place in by_text.pop("", [])]
    named = (
        f"{word if len(places) == 1 else word and 'lines '}{', '.join(places)}: {text}"
        for text, places in by_text.items()
    )
    return joined([*named, *deleted])


IN_WORDS = frozenset({"keys_are_indented"})  # what changes there is not seen in one line
FEW = 5  # edits beyond which one line does not say the fix


def _edit(finding: Finding, where: Where, lines: Lines, editor: Editor) -> Edit | None:
    text = lines.get(where.file, [])
    if not 0 < where.line <= len(text):
        return None
    before = text[where.line - 1]
    after = editor(finding, where, before)
    if after is None or after == before:
        return None
    return Edit(where.file, where.line, where.line, (after,) if after.strip() else ())


def _once(line: str, old: str, new: str) -> str | None:
    """The line with one value in the place of another, where that stands in it exactly once."""
    found = re.findall(rf"(?<![\w.$]){re.escape(old)}(?![\w.])", line)
    return re.sub(rf"(?<![\w.$]){re.escape(old)}(?![\w.])", lambda _: new, line) if len(found) == 1 else None


def port(finding: Finding, _where: Where, line: str) -> str | None:
    """Another number; or a number in the place of what every node works out for itself."""
    if finding.fix.startswith("$(("):
        return None  # worked out, and to be worked out in another way
    expression, number = _held(finding, "expression"), _held(finding, "value")
    if expression is not None:
        return _once_raw(line, expression, "29500")
    return _once(line, str(number), "29500") if number is not None else None


def _held(finding: Finding, *names: str) -> Any:
    """What a message holds under one of these names, shown or not; None where it holds nothing."""
    return next((value for name in names for value in values_in(finding.message, name)), None)


def _once_raw(line: str, old: str, new: str) -> str | None:
    """The same for an expression, which may stand in quotes."""
    quoted = f'"{old}"'
    old = quoted if quoted in line else old
    old = f"\\{old}" if f"\\{old}" in line else old  # escaped for the shell of another node
    return line.replace(old, new) if line.count(old) == 1 else None


def rendezvous_id(finding: Finding, _where: Where, line: str) -> str | None:
    """One id in the place of what comes out different on every node."""
    found = _held(finding, "expression")
    right = re.match(r"--rdzv_id=([\w$]+)", finding.fix)
    return _once_raw(line, found, right[1]) if found and right else None


def variable(finding: Finding, _where: Where, line: str) -> str | None:
    """``NAME=value`` in the place of another value or a misspelt name; a line that only sets what is to be unset."""
    if finding.fix.startswith("unset "):
        name = finding.fix.removeprefix("unset ")
        return "" if re.fullmatch(rf"\s*(export\s+)?{re.escape(name)}={WRITTEN}\s*(#.*)?", line) else None
    meant = ASSIGNMENT.fullmatch(finding.fix)
    if meant is None:
        return None
    there = re.compile(rf"\b{re.escape(meant['name'])}={WRITTEN}")
    if len(there.findall(line)) == 1:
        return there.sub(lambda _: meant[0], line) if meant["value"] not in GUESSED else None
    misspelt = re.findall(rf"\b(NCCL_\w+)=[\"']?{re.escape(meant['value'])}\b", line)
    return line.replace(f"{misspelt[0]}=", f"{meant['name']}=") if len(misspelt) == 1 else None


GUESSED = ("eth0", "mlx5_0", "...")  # of the values in a fix, those that only show the form


def export(finding: Finding, _where: Where, line: str) -> str | None:
    """``export`` before the assignment."""
    name = _held(finding, "name", "hidden")
    found = re.match(rf"(\s*){re.escape(name)}=", line) if name else None
    return f"{found[1]}export {line.lstrip()}" if found else None


def directive(finding: Finding, _where: Where, line: str) -> str | None:
    """An option of #SBATCH with another value."""
    right = re.fullmatch(r"#SBATCH --([\w-]+)=(\d+)", finding.fix)
    there = re.compile(rf"--{re.escape(right[1])}[= ]\d+") if right else None
    if not right or not there or not line.startswith("#SBATCH") or len(there.findall(line)) != 1:
        return None
    return there.sub(f"--{right[1]}={right[2]}", line)


def rank(finding: Finding, _where: Where, line: str) -> str | None:
    """The only rank that is free for the second of two files."""
    taken, free = _held(finding, "taken"), re.search(r": (\d+)$", finding.fix)
    return _once(line, str(taken), free[1]) if free and _held(finding, "where") == 2 else None


def batch(finding: Finding, _where: Where, line: str) -> str | None:
    """The product in the place of a figure that is none."""
    product = _held(finding, "product")
    found = re.search(r"(\"train_batch_size\"\s*:\s*)(\d+)", line)
    return line.replace(found[0], f"{found[1]}{product}") if found and product is not None else None


def user(finding: Finding, _where: Where, line: str) -> str | None:
    """The host without ``user@``."""
    address = _held(finding, "value") or ""
    return _once_raw(line, address, address.rpartition("@")[2]) if "@" in address else None


def majority(finding: Finding, where: Where, line: str) -> str | None:
    """What most of the files say, in those that do not."""
    held: Mapping[str, list[Where]] = _held(finding, "held") or {}
    counts = sorted(((len(places), value) for value, places in held.items()), reverse=True)
    if len(counts) < 2 or counts[0][0] <= sum(count for count, _ in counts[1:]):
        return None
    mine = next((value for value, places in held.items() if where in places), "")
    return line if mine == counts[0][1] else _once(line, mine, counts[0][1])


def every(finding: Finding) -> tuple[Where, ...]:
    """All lines of a finding."""
    return finding.where


def first(finding: Finding) -> tuple[Where, ...]:
    """The line that it is about; the others only explain it."""
    return finding.where[:1]


def second(finding: Finding) -> tuple[Where, ...]:
    """Of two lines that say the same the later."""
    return finding.where[1:2] if len(finding.where) == 2 else ()


EDITORS: Mapping[str, tuple[Callable[[Finding], tuple[Where, ...]], Editor]] = {
    "master_port_is_valid": (every, port),
    "master_port_is_not_ephemeral": (every, port),
    "master_port_is_the_same_everywhere": (first, port),
    "rendezvous_id_is_the_same_everywhere": (first, rendezvous_id),
    "nccl_variables_are_known": (every, variable),
    "nccl_variables_are_safe": (every, variable),
    "variables_have_values_that_count": (every, variable),
    "cuda_launches_do_not_block": (every, variable),
    "variables_are_exported": (every, export),
    "slurm_tasks_are_counted_once": (first, directive),
    "ranks_are_distinct": (second, rank),
    "batch_sizes_multiply": (first, batch),
    "master_address_is_an_address": (first, user),
    "fields_agree": (first, majority),
}
