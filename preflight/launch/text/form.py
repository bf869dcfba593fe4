"""Does bash read a script as it was meant, its commands that go on in the next line and its assignments?"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable
from dataclasses import replace

from preflight.judge.ledger.findings import Edit, Finding, Verdict, Where
from preflight.launch.plan import fail, problem
from preflight.launch.text import bash
from preflight.launch.text.grammar import Lines, Reading
from preflight.said import said

QUOTED = re.compile(r"`[^`]*`")
OTHER_SHELL = re.compile(r"#!.*\b(zsh|fish|t?csh|ksh\d*|python[\d.]*|perl)\b")
CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\$")


def problems(text: str, file: str, reading: Reading) -> Iterable[Finding]:
    """Everything that is wrong with the form of a script."""
    lines = text.split("\n")
    places = Lines(text)
    # else nothing that follows is a command of bash
    if not reading.verdict.open_documents and not OTHER_SHELL.match(text):
        yield from _syntax(file, lines, reading)
    yield from _holes(text, file, places, reading)
    yield from _assignments(text, file, places, reading)
    yield from _folded(_continued(text, file, lines, places, reading))
    yield from _open_documents(file, lines, reading)


def as_meant(text: str, found: Iterable[Finding]) -> str:
    """The text with its commands continued as they were meant to be; every line keeps its number."""
    lines = text.split("\n")
    for finding in found:
        changes_commands = finding.check in ("launch.commands_are_continued", "launch.variables_are_assigned")
        for edit in finding.edits if changes_commands else ():
            kept = edit.lines or ("\\",)  # a line that goes is an empty part of the command
            for number in range(edit.first, edit.last + 1):
                lines[number - 1] = kept[min(number - edit.first, len(kept) - 1)]
    return "\n".join(lines)


def _syntax(file: str, lines: list[str], reading: Reading) -> Iterable[Finding]:
    """What bash stops at, in its own words, told where it begins; or why it could not be asked."""
    verdict, torn = reading.verdict, reading.torn
    if verdict.unasked:
        message = said("whether bash reads it to its end is not known: {reason}", verdict.unasked)
        yield problem(Verdict.SKIP, "script_is_bash", message, Where(file, 1), fix=said("bash -n {file}", file))
    if not verdict.line:
        return
    unclosed = said("; {token} of line {torn} is never closed", f"`{reading.unclosed}`", torn)
    line = lines[torn - 1].strip()[:80]
    message = said(
        "{bash} stops at line {line}: {words}{unclosed}{shown}",
        bash.name(),
        verdict.line,
        verdict.words,
        unclosed if reading.unclosed else "",
        f": {line}" if line else "",
    )
    yield fail("script_is_bash", message, Where(file, torn))


def _holes(text: str, file: str, places: Lines, reading: Reading) -> Iterable[Finding]:
    """<ADDRESS> outside quotes is a redirection to bash: it reads from a file ADDRESS and writes to the next word."""
    for start, end in reading.placeholders[:8]:
        hole, number = text[start:end], places.line(start)
        message = said("{hole} was never filled in: bash takes it for a redirection from a file", hole)
        yield fail(
            "placeholders_are_filled_in",
            message,
            Where(file, number),
            fix=said("The value in the place of {hole}.", hole),
        )


# What follows the equals sign begins a value: the rest of it may be a command substitution of several lines.
ASSIGNED = re.compile(
    r"(?P<export>export[ \t]+)(?P<name>[A-Za-z_]\w*)(?:[ \t]+=[ \t]*|=[ \t]+)(?=[\w./:$\"'`~-])"
    r"|(?P<plain>[A-Za-z_]\w*)[ \t]+=[ \t]*(?=[\w./:$\"'`~({-]|\n|;|#|$)"
)


def _assignments(text: str, file: str, places: Lines, reading: Reading) -> Iterable[Finding]:
    """Blanks around the equals sign: bash runs the name as a command, or exports it without its value."""
    for place in reading.commands:
        found = ASSIGNED.match(text, place)
        if found is None:
            continue
        number = places.line(place)
        name = found["name"] or found["plain"]
        if not found["export"] and not name.isupper() and not re.search(rf"\$\{{?{name}\b", text):
            continue  # `expr = 1`, a command: what the script never reads as a variable
        does = said("exports {name} without it", name) if found["export"] else said("runs {name} as a command", name)
        message = said("a blank beside the equals sign of {name}: bash {does}", name, does)
        line = text.split("\n")[number - 1]
        edit = Edit(file, number, number, (line.replace(found[0], f"{found['export'] or ''}{name}=", 1),))
        yield fail("variables_are_assigned", message, Where(file, number), fix=_numbered(edit), edits=(edit,))


def _continued(text: str, file: str, lines: list[str], places: Lines, reading: Reading) -> Iterable[Finding]:
    """A command that goes on in the next line ends in a backslash, with nothing after it."""
    named: set[int] = set()
    for place in reading.blanked:
        number = places.line(place)
        following = lines[number].strip() if number < len(lines) else ""
        named.add(number + 1)
        if not following or following.startswith("#"):
            continue
        line = lines[number - 1].rstrip()
        message = said(
            "a blank after the backslash: the command ends here, and `{head}` runs as a command", _head(following)
        )
        edit = Edit(file, number, number, (line,))
        yield fail("commands_are_continued", message, Where(file, number), fix=_numbered(edit), edits=(edit,))
    behind = [(place, "its words become arguments") for place in reading.hashed]
    behind += [(place, "the blank becomes an argument") for place in reading.comments]
    for place, becomes in behind:
        number = places.line(place)
        start = text.rfind("\n", 0, place) + 1
        code = text[start : place + 1] if text[place] == "\\" else text[start:place].rstrip()
        if not CONTINUED.search(code):
            continue
        named.add(number + 1)
        message = said("a comment behind the backslash: {becomes}, and nothing continues the line", becomes)
        edit = Edit(file, number, number, (code,))
        yield fail("commands_are_continued", message, Where(file, number), fix=_numbered(edit), edits=(edit,))
    for place in reading.commands:
        number = places.line(place)
        if not re.match(r"--?[A-Za-z]", text[place : place + 3]) or number in named or not _leads(lines[number - 1]):
            continue
        named.add(number)
        comment = next((place for place in reading.comments if places.line(place) == number - 1), 0)
        until = comment - text.rfind("\n", 0, comment) - 1 if comment else None
        yield from _torn(file, lines, number, _ends_in_comment(reading, places, lines, number), until)


def _folded(found: Iterable[Finding]) -> Iterable[Finding]:
    """What is wrong in the same way in many lines is one finding."""
    alike: dict[str, list[Finding]] = {}
    for finding in found:
        alike.setdefault(QUOTED.sub("", finding.message), []).append(finding)
    for first, *others in alike.values():
        where = dict.fromkeys(place for one in (first, *others) for place in one.where)
        edits = tuple(edit for one in (first, *others) for edit in one.edits)
        more = said("; {others} more, the last in line {line}", len(others), others[-1].where[0].line) if others else ""
        yield replace(first, message=f"{first.message}{more}", where=tuple(where), edits=edits)


def _leads(line: str) -> bool:
    """Whether an option is the first word of its line."""
    return line.lstrip().startswith("-")


def _ends_in_comment(reading: Reading, places: Lines, lines: list[str], number: int) -> int:
    """The line above that is a comment behind a backslash, 0 where there is none."""
    above = number - 1
    while above > 1 and lines[above - 1].lstrip().startswith("#"):
        above -= 1
    is_comment = above < number - 1 and CONTINUED.search(lines[above - 1]) is not None
    starts = [places.line(place) for place in reading.comments]
    return above + 1 if is_comment and _has(starts, above + 1) else 0


def _has(numbers: list[int], wanted: int) -> bool:
    place = bisect.bisect_left(numbers, wanted)
    return place < len(numbers) and numbers[place] == wanted


def _torn(file: str, lines: list[str], number: int, comment: int, until: int | None) -> Iterable[Finding]:
    """What is wrong above an option that leads a command; `until` is where the comment of the line above begins."""
    option = _head(lines[number - 1].strip())
    if comment:
        message = said("a comment within a continued command ends it, and `{option}` runs as a command", option)
        edit = Edit(file, comment, number - 1, ())
        where = Where(file, comment)
        fix = (
            said("Delete line {comment}", comment)
            + (said(" to {number}", number - 1) if number - 1 > comment else "")
            + "."
        )
        yield fail("commands_are_continued", message, where, Where(file, number), fix=fix, edits=(edit,))
        return
    above = number - 1
    while above > 1 and not lines[above - 1].strip():
        above -= 1
    before = lines[above - 1].rstrip() if above >= 1 else ""
    if above < number - 1 and CONTINUED.search(before):
        message = said("an empty line within a continued command ends it, and `{option}` runs as a command", option)
        edit = Edit(file, above + 1, number - 1, ())
        fix = (
            said("Delete line {above}", above + 1)
            + (said(" to {number}", number - 1) if number - 1 > above + 1 else "")
            + "."
        )
        yield fail("commands_are_continued", message, Where(file, number), fix=fix, edits=(edit,))
    elif before and above == number - 1 and not before.lstrip().startswith("#"):
        message = said(
            "no backslash at the end of this line: the command ends here, and `{option}` runs as a command", option
        )
        edit = Edit(file, above, above, (f"{before[:until].rstrip()} \\",))
        where = Where(file, above)
        yield fail("commands_are_continued", message, where, Where(file, number), fix=_numbered(edit), edits=(edit,))


def _head(text: str) -> str:
    return re.split(r"[\s\\]", text, maxsplit=1)[0][:60]


def _numbered(edit: Edit) -> str:
    return f"{edit.first}: {' '.join(line.strip() for line in edit.lines)}"


def _open_documents(file: str, lines: list[str], reading: Reading) -> Iterable[Finding]:
    """Bash takes the rest of the script for the here-document, and only warns."""
    for number, ending in reading.verdict.open_documents[:4]:
        alike = next((at for at, line in enumerate(lines, start=1) if at > number and line.strip() == ending), 0)
        why = said(" (line {alike} has blanks around it)", alike) if alike else ""
        message = said(
            "no line is {ending} alone{why}: all that follows is text of this here-document, and never runs",
            ending,
            why,
        )
        where = (Where(file, number), *([Where(file, alike)] if alike else []))
        edits = (Edit(file, alike, alike, (ending,)),) if alike else ()
        fix = said("{ending} at the beginning of its line", ending)
        yield fail("script_is_bash", message, *where, fix=fix, edits=edits)


def carriage_returns(text: str, file: str) -> Iterable[Finding]:
    """Line ends of Windows: bash takes the carriage return for a part of the last word."""
    lines = text.split("\n")
    marked = [number for number, line in enumerate(lines, start=1) if line.endswith("\r")]
    if marked:
        edits = tuple(Edit(file, number, number, (lines[number - 1].rstrip("\r"),)) for number in marked)
        message = said(
            "{marked} line{s} with a carriage return at the end (written on Windows): bash takes it for "
            "a part of the last word, and the kernel finds no interpreter of that name",
            len(marked),
            "s" * (len(marked) != 1),
        )
        yield fail(
            "script_is_bash", message, Where(file, marked[0]), fix=said("sed -i 's/\\r$//' {file}", file), edits=edits
        )
