"""Does sbatch read a script as it was meant, its first line and its #SBATCH lines?"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from preflight.judge.ledger.findings import Edit, Finding, Where
from preflight.launch.plan import fail, warn
from preflight.launch.text.grammar import Lines, Reading
from preflight.said import said

DIRECTIVE = re.compile(r"#SBATCH\s+\S")
ALIKE = 0.8  # one letter of SBATCH is another, is missing, or stands twice
SHEBANG = re.compile(r"#!\s*/\S")
DIRECTIVE_HOLE = re.compile(
    r"#SBATCH\s[^\n#]*?((?<!\$)(?:<(?=[A-Za-z])[A-Za-z0-9_ @./-]{1,60}>|\{[ ]?(?=[A-Za-z])[A-Za-z0-9_ -]{1,40}\}))"
)
# Options of sbatch without which the job has another shape.
SHAPES = re.compile(r"-(N|n|G|-nodes|-ntasks|-gpus|-gres|-cpus|-c\b|-mem|-exclusive|-array)")
WORLD = re.compile(r"-(N|n|G|-nodes|-ntasks|-gpus|-gres)")  # without these a job has another number of ranks
DISABLED = re.compile(r"#[ \t]+SBATCH[ \t]+(--?[A-Za-z][\w-]*)")
WRITTEN = re.compile(r"#(?P<word>[A-Za-z]{4,8})(?=[ \t]+--?[A-Za-z])")
# A variable in an option that names a file or speaks to people: sbatch takes the letters as they stand.
EXPANDED = re.compile(r"#SBATCH\s+(?P<option>--?[A-Za-z][\w-]*)[=\s]*[\"']?[^\s#]*\$\{?[A-Za-z_]\w*")
NAMES = re.compile(r"-(o|e|i|J|D|-output|-error|-input|-job-name|-chdir|-comment|-mail-user|-wckey)$")


def problems(text: str, file: str, reading: Reading) -> Iterable[Finding]:
    """Sbatch wants a first line with #!, and reads #SBATCH lines up to the first command."""
    lines, places = text.split("\n"), Lines(text)
    comments = {places.line(place) for place in reading.comments}
    yield from _holes(text, file, places, comments)
    directives = [number for number in sorted(comments) if DIRECTIVE.match(lines[number - 1])]
    yield from _misspelt(file, lines, sorted(comments))
    if not directives:
        return
    yield from _expanded(file, lines, directives)
    yield from _disabled(file, lines, sorted(comments), directives)
    if not lines[0].startswith("#!"):
        at = next((number for number, line in enumerate(lines[:40], start=1) if SHEBANG.match(line)), 0)
        place = said("#! is in line {at}", at) if at else "there is no #! line"
        shebang = lines[at - 1] if at else "#!/bin/bash"
        moved = (Edit(file, at, at, ()),) if at else ()
        message = said("sbatch refuses a script whose first line is not #!: {place}", place)
        edits = (Edit(file, 1, 0, (shebang,)), *moved)
        yield fail("batch_script_is_read", message, Where(file, at or 1), fix=f"1: {shebang}", edits=edits)
    first = min((places.line(place) for place in reading.commands), default=len(lines))
    late = [number for number in directives if number > first]
    if late:
        early = [number for number in directives if number < first]
        after = max(early, default=1 if lines[0].startswith("#!") else 0)
        words = ", ".join(lines[number - 1].removeprefix("#SBATCH").strip() for number in late[:4])
        message = said("sbatch reads no #SBATCH line below the first command (line {first}): {words}", first, words)
        edits = (
            Edit(file, after + 1, after, tuple(lines[number - 1] for number in late)),
            *(Edit(file, number, number, ()) for number in late),
        )
        judged = fail if any(SHAPES.search(lines[number - 1]) for number in late) else warn
        wheres = [Where(file, number) for number in late[:4]]
        yield judged("batch_script_is_read", message, *wheres, fix=said("Above line {first}.", first), edits=edits)


def _disabled(file: str, lines: list[str], comments: list[int], directives: list[int]) -> Iterable[Finding]:
    """A blank after # makes a comment of a line that asks for nodes or devices, where no other line asks for them."""
    asked = "\n".join(lines[number - 1] for number in directives)
    for number in comments:
        found = DISABLED.match(lines[number - 1])
        if found and WORLD.match(found[1]) and not re.search(rf"{re.escape(found[1])}\b", asked):
            right = re.sub(r"#[ \t]+SBATCH", "#SBATCH", lines[number - 1], count=1)
            message = said(
                "a blank after the #: sbatch takes the line for a comment, and {found} is asked for nowhere", found[1]
            )
            edits = (Edit(file, number, number, (right,)),)
            yield warn("batch_script_is_read", message, Where(file, number), fix=f"{number}: {right}", edits=edits)


def _misspelt(file: str, lines: list[str], comments: list[int]) -> Iterable[Finding]:
    """`#SBATCh` is a comment like any other: what the line asks for is not asked for."""
    for number in comments:
        found = WRITTEN.match(lines[number - 1])
        if found is None or found["word"] == "SBATCH":
            continue
        if difflib.SequenceMatcher(None, found["word"].upper(), "SBATCH").ratio() < ALIKE:
            continue
        right = lines[number - 1].replace(found[0], "#SBATCH", 1)
        option = right.removeprefix("#SBATCH").strip()
        message = said("#{word} is not #SBATCH: sbatch takes the line for a comment: {option}", found["word"], option)
        judged = fail if SHAPES.match(option) and WORLD.match(option) else warn
        edits = (Edit(file, number, number, (right,)),)
        yield judged("batch_script_is_read", message, Where(file, number), fix=f"{number}: {right}", edits=edits)


def _expanded(file: str, lines: list[str], directives: list[int]) -> Iterable[Finding]:
    """No shell reads the #SBATCH lines, so that a variable in them stays its name."""
    found = [(number, match) for number in directives if (match := EXPANDED.match(lines[number - 1]))]
    for judged, is_name in ((fail, False), (warn, True)):
        alike = [(number, match) for number, match in found if bool(NAMES.match(match["option"])) == is_name]
        if not alike:
            continue
        words = ", ".join(lines[number - 1].removeprefix("#SBATCH").split("#")[0].strip() for number, _ in alike[:4])
        ends = "the name holds the letters" if is_name else "sbatch refuses the script"
        fix = said("The value itself, or `sbatch {alike}=...` on the command line.", alike[0][1]["option"])
        message = said("sbatch expands no variable in #SBATCH lines, {ends}: {words}", ends, words)
        yield judged("batch_script_is_read", message, *(Where(file, number) for number, _ in alike[:4]), fix=fix)


def _holes(text: str, file: str, places: Lines, comments: set[int]) -> Iterable[Finding]:
    """<account> in an #SBATCH line: sbatch takes it for the name."""
    for found in DIRECTIVE_HOLE.finditer(text):
        if places.line(found.start()) != 1 and text[found.start() - 1] != "\n":
            continue
        option = found[0].split(None, 2)[1].partition("=")[0]
        line = places.line(found.start())
        if found[1].startswith("{") and (NAMES.match(option) or line not in comments):
            continue  # a name may hold braces, and a text that the script writes is filled in by whoever reads it
        message = said("{found} was never filled in: sbatch refuses the script", found[1])
        where = Where(file, places.line(found.start(1)))
        yield fail(
            "placeholders_are_filled_in", message, where, fix=said("The value in the place of {found}.", found[1])
        )
