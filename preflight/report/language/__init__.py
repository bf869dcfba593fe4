"""In which language is a person spoken to? Messages are made in English, and translated where they are shown.

``catalogue``  zh.po, written by ``python -m tests.catalogue``
``plain``      texts without values, and lists of them
``template``   the words of the page's template
``wrap``       lines of a script without spaces

JSON, exit codes, and the names of checks, options and commands are the same in every language.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from preflight.report.language.catalogue import catalogue
from preflight.report.language.plain import known, plain
from preflight.said import Said, translated

LINE = re.compile(r"^([ \t]*(?:- )?)(.*?)([ \t]*)$", re.MULTILINE)
FIX = re.compile(r"(?:^|\n)Fix:\s*")


@dataclass(frozen=True)
class Language:
    """A language by its name; English says everything as it is."""

    name: str = "en"

    def say(self, text: str) -> str:
        """A message, label or sentence in this language; what the catalogue does not know stays as it is."""
        if self.name == "en":
            return text
        return translated(text, catalogue(self.name).get, lambda words: plain(words, self.name))

    def lines(self, text: str) -> str:
        """A text whose every line is a message of its own, indented or not."""
        if self.name == "en":
            return text
        if isinstance(text, Said):
            return self.say(text)
        return LINE.sub(lambda found: f"{found[1]}{self.say(found[2])}{found[3]}", text)

    def stage(self, name: str) -> str:
        """The name of a stage of a run; those of ours are short words that also mean other things."""
        return self._of_kind("stage", name)

    def verdict(self, name: str) -> str:
        """A verdict, or "not judged", as a person reads it; programs read the English word."""
        return self._of_kind("verdict", name)

    def _of_kind(self, kind: str, name: str) -> str:
        translated = self.say(f"{kind} {name}")
        return name if translated == f"{kind} {name}" else translated

    def document(self, text: str) -> str:
        """A docstring: its paragraphs, and what follows ``Fix:``."""
        if self.name == "en":
            return text
        body, *fix = FIX.split(text, maxsplit=1)
        translated = "\n\n".join(self._paragraph(part) for part in re.split(r"\n\s*\n", body.strip()))
        return f"{translated}\n{self.say('Fix')}: {self._paragraph(fix[0])}" if fix else translated

    def _paragraph(self, text: str) -> str:
        """One sentence broken over lines, or lines that each stand by themselves."""
        joined = " ".join(text.split())
        return self.say(joined) if known(joined, self.name) else self.lines(text)


ENGLISH = Language()


def chosen(name: str, environment: Mapping[str, str]) -> Language:
    """The language of ``--lang``; with auto that of the locale, where there is a catalogue of it."""
    if name in ("", "auto"):
        locale = next((environment[key] for key in ("LC_ALL", "LC_MESSAGES", "LANG") if environment.get(key)), "")
        name = re.split(r"[_.@]", locale)[0]
    return Language(name) if catalogue(name) and name.isalpha() else ENGLISH
