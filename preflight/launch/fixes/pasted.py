"""Where do the words of a fix go in the files, and what do the files say then?

A fix is often no whole line: ``--nnodes=4``, ``#SBATCH --ntasks=2``, ``parallelism: 4``. Here it is put where whoever
reads it would put it, so that it can be tried. Words that have no one such place, and prose, are None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from preflight.judge.ledger.findings import Edit, Finding, Where
from preflight.said import said, sentences_of, values_in

Lines = Mapping[str, list[str]]
Change = Callable[[str], "str | None"]
VALUE = r"(?:\"[^\"\n]*\"|'[^'\n]*'|\$\([^()\n]*\)|[^\s,\]\"'\\;|&]+)"
DIRECTIVE = re.compile(r"#SBATCH --(?P<name>[\w-]+)=(?P<value>\S+)")
OPTION = re.compile(said("(?P<name>--?[A-Za-z][\\w-]*)(?:=|: | )(?P<value>(?:{VALUE})+)", VALUE))
VARIABLE = re.compile(r"(?:export )?(?P<name>[A-Z][A-Z0-9_]*)=(?P<value>\S+|\$\(.*\))")
KEY = re.compile(r"[\"']?(?P<name>[A-Za-z_][\w.-]*)[\"']?: (?P<value>\S+)")
SEVERAL = re.compile(rf"(?<!\S)--?[A-Za-z][\w-]*[= ](?:{VALUE})+(?!\S)")
HOLE = re.compile(r"<[A-Za-z][\w' -]*>")
STARTER = re.compile(r"(?:[A-Z_]\w*=\S*\s+)*(srun|mpiexec|blaunch) (?!bash -c ')")
LETTERS = {"nodes": "N", "ntasks": "n", "cpus-per-task": "c", "gpus": "G"}
STARTS = re.compile(r"\b(torchrun|accelerate launch|deepspeed|torch\.distributed\.(?:run|launch))(?=\s)")
CONTAINERS = re.compile(r"\b((?:docker|podman|nerdctl) run)(?=\s)")
OF_CONTAINERS = re.compile(r"--(network|shm-size|ulimit)\b|-e$")
MPIRUN = re.compile(r"\b((?:mpirun|mpiexec)(?:\.\w+)?)(?=\s)")
REPEATED = ("-e", "-x")  # options that name one variable each, and stand there as often as there are any


def edits_of(fix: str, finding: Finding, lines: Lines, *, every: bool) -> tuple[Edit, ...] | None:
    """The lines of the files once the words of this fix stand in their place, or in `every` place that it names."""
    if HOLE.search(fix) or "..." in fix:
        return None
    places = [where for where in finding.where if 0 < where.line <= len(lines.get(where.file, ()))]
    if STARTER.match(fix):
        return _in_place_of(fix, places[:1], lines)
    known: dict[str, list[str]] = dict(lines)
    done: dict[tuple[str, int, int], Edit] = {}
    everywhere = next(values_in(fix, "everywhere"), "")
    for piece in _pieces(everywhere or fix):
        file = next(values_in(piece, "script"), "")  # that it says it is for
        inside = [Where(file, number) for number in range(1, len(lines.get(file, ())) + 1)]
        words = next(values_in(piece, "words"), piece)
        edits = _edits(words, inside or places, known, every=every or bool(everywhere))
        if not edits or any(edit.last < edit.first for edit in done.values()):
            return None  # nowhere; or the numbers of the lines have moved
        for edit in edits:
            done[edit.file, edit.first, edit.last] = edit
            known[edit.file] = list(known[edit.file])
            known[edit.file][edit.first - 1 : edit.last] = edit.lines
    return tuple(done.values())


def _in_place_of(command: str, places: list[Where], lines: Lines) -> tuple[Edit, ...] | None:
    """The command as it is to be, in the place of the one that is there."""
    for where in places:
        numbers = command_at(lines[where.file], where.line)
        line = lines[where.file][min(numbers) - 1]
        indent = line[: len(line) - len(line.lstrip())]
        return (Edit(where.file, min(numbers), max(numbers), (indent + command,)),)
    return None


def _pieces(fix: str) -> Iterator[str]:
    """The parts of a fix that are put in one by one: each that it lists, and each of several options."""
    for piece in sentences_of(fix):
        options = SEVERAL.findall(piece)
        yield from options if len(options) > 1 and " ".join(options) == piece else (piece,)


def _edits(words: str, places: list[Where], lines: Lines, *, every: bool) -> tuple[Edit, ...] | None:
    for form, make in FORMS:
        found = form.fullmatch(words)
        if found is not None:
            if found["name"] in REPEATED:
                return _added(words, found["name"], places, lines)
            edits = tuple(_changed(make(found["name"], found["value"]), places, lines, every=every))
            return edits or _added(words, found["name"], places, lines)
    return None


def _changed(change: Change, places: list[Where], lines: Lines, *, every: bool) -> Iterator[Edit]:
    """The first of the places, or every one, whose line the change fits; a command goes on over its backslashes."""
    done: set[tuple[str, int]] = set()
    for where in places:
        for number in command_at(lines[where.file], where.line):
            before = lines[where.file][number - 1]
            after = change(before)
            if after is None:
                continue
            if after != before and (where.file, number) not in done:
                yield Edit(where.file, number, number, (after,))
            done.add((where.file, number))
            if not every:
                return
            break


def command_at(lines: list[str], number: int) -> list[int]:
    """A line, and the others of the command that it is part of."""
    first = last = number
    while first > 1 and lines[first - 2].rstrip().endswith("\\"):
        first -= 1
    while last < len(lines) and lines[last - 1].rstrip().endswith("\\"):
        last += 1
    return [number, *(other for other in range(first, last + 1) if other != number)]


def _added(words: str, name: str, places: list[Where], lines: Lines) -> tuple[Edit, ...] | None:
    """What stands nowhere yet: a directive below the others, an option behind its launcher, a key below another."""
    if words.startswith("#SBATCH"):
        for where in places:
            given = [number for number, line in enumerate(lines[where.file], start=1) if line.startswith("#SBATCH")]
            if given:
                return (Edit(where.file, given[-1] + 1, given[-1], (words,)),)
        return None
    for where in places[:1] if KEY.fullmatch(words) and not words.startswith("-") else ():
        line = lines[where.file][where.line - 1]
        if KEY.fullmatch(line.strip()) and not any(name in other for other in lines[where.file]):
            indent = line[: len(line) - len(line.lstrip())]
            return (Edit(where.file, where.line + 1, where.line, (indent + words,)),)
    behind = CONTAINERS if OF_CONTAINERS.match(name) else MPIRUN if name == "-x" else STARTS
    for where in places if name.startswith("-") else ():
        for number in command_at(lines[where.file], where.line):
            line = lines[where.file][number - 1]
            found = list(behind.finditer(line))
            if len(found) == 1 and "[" not in line:
                end = found[0].end()
                option = words.replace(": ", "=", 1)
                return (Edit(where.file, number, number, (f"{line[:end]} {option}{line[end:]}",)),)
    return None


def _directive(name: str, value: str) -> Change:
    letter = LETTERS.get(name)
    there = rf"(--{re.escape(name)}[= ]|(?<!\S)-{letter}[= ]?)\S+" if letter else rf"(--{re.escape(name)}[= ])\S+"
    return _one(re.compile(there), value)


def _option(name: str, value: str) -> Change:
    spelled = "[-_]".join(map(re.escape, re.split("[-_]", name.lstrip("-"))))
    dashes = name[: len(name) - len(name.lstrip("-"))]
    return _one(re.compile(rf"((?<![\w-]){dashes}{spelled}(?:=|\s+)){VALUE}"), value)


def _variable(name: str, value: str) -> Change:
    return _one(re.compile(rf"((?<![\w$]){re.escape(name)}=){VALUE}"), value)


def _key(name: str, value: str) -> Change:
    return _one(re.compile(rf"((?:^|[\s,{{\[-])[\"']?{re.escape(name)}[\"']?\s*:\s*){VALUE}"), value.rstrip(","))


def _one(there: re.Pattern[str], value: str) -> Change:
    """The value in the place of another, where that stands in the line once."""

    def change(line: str) -> str | None:
        return there.sub(lambda at: f"{at[1]}{value}", line) if len(there.findall(line)) == 1 else None

    return change


FORMS: tuple[tuple[re.Pattern[str], Callable[[str, str], Change]], ...] = (
    (DIRECTIVE, _directive),
    (OPTION, _option),
    (VARIABLE, _variable),
    (KEY, _key),
)
