"""Which words of a template of the page are read by a person?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

CODE = re.compile(
    r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}|<(?:style|script)\b.*?</(?:style|script)>"
    r"|<!?/?[A-Za-z](?:[^<>\"{]|\"(?:\{\{.*?\}\}|\{%.*?%\}|[^\"])*\"|\{\{.*?\}\}|\{%.*?%\})*>",
    re.DOTALL,
)
LABEL = re.compile(r"(?<=aria-label=\")[^\"{]+(?=\")|(?<=placeholder=\")[^\"{]+(?=\")")
COUNTED = re.compile(r"(?<=, \")[a-z ]+(?=\"\) \}\})")  # the word that the macro `plural` puts behind a number
ENDING = '{{ "" if count == 1 else "s" }}'  # of that macro; other languages do without
WORD = re.compile(r"[A-Za-z]{2}")


def pieces(source: str) -> Iterator[tuple[str, int]]:
    """Each piece of text between marks, and each label, with its line."""
    found: list[tuple[str, int]] = []

    def note(text: str, at: int) -> str:
        found.append((text, source.count("\n", 0, at) + 1))
        return text

    replaced(source, note)
    yield from found


def replaced(source: str, say: Callable[[str, int], str]) -> str:
    """The template with each piece put through `say`."""
    made: list[str] = []
    end = 0
    for code in CODE.finditer(source):
        made.append(_text(source[end : code.start()], end, say))
        made.append(_labels(code[0], code.start(), say))
        end = code.end()
    made.append(_text(source[end:], end, say))
    return "".join(made)


def _text(text: str, at: int, say: Callable[[str, int], str]) -> str:
    core = text.strip()
    if not WORD.search(core):
        return text
    before, _, after = text.partition(core)
    return f"{before}{say(core, at + len(before))}{after}"


def _labels(code: str, at: int, say: Callable[[str, int], str]) -> str:
    if code.startswith(("<style", "<script", "{#")):
        return code
    pattern = LABEL if code.startswith("<") else COUNTED
    if pattern is COUNTED and "plural(" not in code:
        return code
    return pattern.sub(lambda found: say(found[0], at + found.start()), code)


def translated(source: str, language: str, say: Callable[[str], str]) -> str:
    """The template in another language."""
    text = replaced(source, lambda piece, _: say(piece))
    return text.replace(ENDING, "").replace('<html lang="en">', f'<html lang="{language}">')
