"""Which words of the pages and messages are misspelled? `python -m tests.spelling` prints them, with their places.

A word is right when the American dictionary of Hunspell has it, or tests/data/spelling.txt: the words of the field.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from functools import cache

from spylls.hunspell import Dictionary

from tests import catalogue
from tests.house import ROOT

FIELD = ROOT / "tests" / "data" / "spelling.txt"
PAGES = (
    *(ROOT / name for name in ("README.md", "README.zh-CN.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
)
# What is typed, filled in or linked to is no word of a sentence.
NO_WORDS = re.compile(
    r"^```.*?^```$|^    .*?$|`[^`\n]*`|`[^`]{1,200}`|\]\([^)]*\)|https?://\S+|%\(\w+\)s|\{[^{}]*\}|<[^<>\n]*>",
    re.DOTALL | re.MULTILINE,
)
# A word, and not a piece of a path, a variable, an option or a call.
WORD = re.compile(r"(?<![\w./@%$=:\\-])[A-Za-z]+(?:'[a-z]+)?(?:-[A-Za-z]+)*(?![\w/=(@\\]|[.:-]\w)")
NAME = re.compile(r"[a-z]+[A-Z]\w*")  # of a key in a manifest or a function: hostNetwork


def words(text: str) -> Iterator[str]:
    """The words of a text in Markdown or of a message's template, each part of a compound by itself."""
    for found in WORD.finditer(NO_WORDS.sub("\0", text)):
        yield from found[0].split("-")


@cache
def dictionary() -> Dictionary:
    """The American English that comes with the library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # its reader leaves files to be closed by the interpreter
        return Dictionary.from_files("en_US")


@cache
def of_the_field() -> frozenset[str]:
    """The words that we use and the dictionary has not."""
    return frozenset(FIELD.read_text(encoding="utf-8").split())


@cache
def is_known(word: str) -> bool:
    """Whether a word is one of the dictionary or of the field, the owner of something by its name alone."""
    stem = word.removesuffix("'s")
    return (
        bool(NAME.fullmatch(stem)) or not of_the_field().isdisjoint((stem, stem.lower())) or dictionary().lookup(stem)
    )


def unknown(text: str) -> list[str]:
    """The words of a text that are written wrong, or new to us."""
    return sorted({word for word in words(text) if not is_known(word)})


def texts() -> Iterator[tuple[str, str]]:
    """Every page by its path, and every message by the file that says it."""
    for path in PAGES:
        yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    for held in catalogue.read(catalogue.ZH):
        if held.id and "(?" not in str(held.id):  # else it is a pattern
            yield held.locations[0][0], str(held.id)


def misspelled() -> list[str]:
    """A line for each word that is not known: where it stands, the word, and what may have been meant."""
    found = sorted({(place, word) for place, text in texts() for word in unknown(text)})
    return [
        f"{place}: {word} ({', '.join(list(dictionary().suggest(word))[:3]) or 'nothing like it'})"
        for place, word in found
    ]


if __name__ == "__main__":
    print("\n".join(misspelled()) or "every word is known")
