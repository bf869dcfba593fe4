"""Which letters of a file did a web page, a word processor or another encoding put there, and what was meant?

A page shows `--nnodes` with one long dash and `key: value` with a full-width colon; a chat puts no-break spaces
between words. bash and YAML take each of them for a part of a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from preflight.judge.ledger.findings import Edit, Finding, Where
from preflight.launch.plan import fail, warn
from preflight.said import said

BLANKS = {
    "\u00a0": "a no-break space",
    "\u3000": "a full-width space",
    "\u2003": "a wide space",
    "\u202f": "a no-break space",
}
NOTHING = {"\u200b": "a zero-width space", "\u2060": "a zero-width space", "\ufeff": "a byte order mark"}
DASH = re.compile(r"(?<!\S)[\u2010-\u2015\u2212][-\u2010-\u2015\u2212]?(?=[A-Za-z])")
ASSIGNED = re.compile(r"(?P<name>^\s*(?:export\s+)?[A-Za-z_]\w*)\uff1d")
COLON = re.compile(r"(?P<name>^\s*[A-Za-z_]\w*)\s?\uff1a\s?")
CURLY = re.compile(
    r"(?<=[=\s:])[\u201c\u201d\u2018\u2019](?P<text>[^\u201c\u201d\u2018\u2019]*)[\u201c\u201d\u2018\u2019]"
)
QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'")
COMMENT = re.compile(r"(?:^|\s)#.*")
DOCUMENT = re.compile(r"<<-?\s*[\"']?([A-Za-z_]\w*)[\"']?")
BAD_NAME = re.compile(r"\$\{([^}$\s]*[^\x00-\x7f}][^}$]*)\}")
# Words beside which a dash begins an option, even within quotes or a text of YAML.
OF_A_COMMAND = re.compile(r"(?:^|\s)--[a-z]|\b(?:torchrun|accelerate|deepspeed|mpirun|srun)\b|\\$")
LOST = "\ufffd"
SHOWN = 4


def as_meant(text: str, *, is_yaml: bool) -> str:
    """The text with plain letters in the places of those; every line keeps its number."""
    return "\n".join(_plain(line, is_yaml=is_yaml)[0] if is_read else line for line, is_read in _lines(text))


def problems(text: str, file: str, *, is_yaml: bool) -> Iterable[Finding]:
    """Every letter that is not what it looks like, each kind once; and what another encoding has made unreadable."""
    found: dict[str, list[Edit]] = {}
    unread: list[int] = []
    holes: dict[str, list[int]] = {}
    for number, (line, is_read) in enumerate(_lines(text), start=1):
        code = COMMENT.sub("", line)
        if is_read:
            meant, names = _plain(line, is_yaml=is_yaml)
            for name in names:
                found.setdefault(name, []).append(Edit(file, number, number, (meant.rstrip("\r"),)))
        if LOST in (line if is_yaml else code):  # a YAML's reader stops at a comment, too
            unread.append(number)
        for hole in BAD_NAME.findall(code) if is_read and not is_yaml else ():
            holes.setdefault(hole, []).append(number)
    reader = "YAML" if is_yaml else "bash"
    for name, edits in found.items():
        numbers = _listed(edit.first for edit in edits)
        message = said(
            "{name} in {numbers}, as web pages and word processors write it: {reader} takes it for a part of a word",
            name,
            numbers,
            reader,
        )
        where = [Where(file, edit.first) for edit in edits[:SHOWN]]
        yield fail("letters_are_plain", message, *where, fix=said("Type {numbers} again.", numbers), edits=tuple(edits))
    if unread:
        where = [Where(file, number) for number in unread[:SHOWN]]
        tell = fail if is_yaml else warn
        message = said("{listed} cannot be read as UTF-8 (GBK or another encoding)", _listed(unread))
        yield tell("letters_are_plain", message, *where, fix=said("iconv -f GBK -t UTF-8 {file} -o {file}.utf8", file))
    for hole, lines in holes.items():
        message = f"${{{hole}}} was never filled in: bash stops with `bad substitution`"
        where = [Where(file, number) for number in lines[:SHOWN]]
        yield fail("placeholders_are_filled_in", message, *where, fix=f"The value in the place of ${{{hole}}}.")


def _listed(numbers: Iterable[int]) -> str:
    listed = list(dict.fromkeys(numbers))
    more = said(" and {SHOWN} more", len(listed) - SHOWN) if len(listed) > SHOWN else ""
    return f"line{'s' * (len(listed) > 1)} {', '.join(map(str, listed[:SHOWN]))}{more}"


def _lines(text: str) -> Iterable[tuple[str, bool]]:
    """Every line, and whether it is read as code: not as text of a here-document."""
    ending = ""
    for line in text.split("\n"):
        if ending:
            yield line, False
            ending = "" if line.strip() == ending else ending
            continue
        yield line, not line.lstrip().startswith("#")
        opened = DOCUMENT.search(QUOTED.sub(lambda held: held[0] if "<<" not in held[0] else "", line))
        ending = opened[1] if opened else ""


def _plain(line: str, *, is_yaml: bool) -> tuple[str, list[str]]:
    """The line as it was meant, and what was in it; what stands in quotes or in a comment is left alone."""
    if line.isascii():
        return line, []
    names: list[str] = []
    kept = [held.span() for pattern in (QUOTED, COMMENT) for held in pattern.finditer(line)]

    is_command = OF_A_COMMAND.search(line) is not None and "#" not in line

    def swap(pattern: re.Pattern[str], name: str, new: str, text: str) -> str:
        def one(held: re.Match[str]) -> str:
            if (
                not (pattern is DASH and is_command)
                and any(start <= held.start() < end for start, end in kept)
                and len(text) == len(line)
            ):
                return held[0]
            names.append(name)
            return held.expand(new)

        return pattern.sub(one, text)

    text = line
    for letter, name in {**BLANKS, **NOTHING}.items():
        text = swap(re.compile(letter), name, " " if letter in BLANKS else "", text) if letter in text else text
    text = swap(CURLY, "curly quotes", '"\\g<text>"', text)
    if is_yaml:
        text = swap(COLON, "a full-width colon", "\\g<name>: ", text)
    if not is_yaml or is_command:
        text = swap(DASH, "a long dash", "--", text)
    if not is_yaml:
        text = swap(ASSIGNED, "a full-width equals sign", "\\g<name>=", text)
    return text, list(dict.fromkeys(names))
