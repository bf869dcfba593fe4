"""What do a check, a launch rule, an error of a log, a variable or a threshold mean, and how is it fixed?"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from preflight import launch
from preflight.diagnose.causes import CAUSES
from preflight.judge.settings import Settings
from preflight.judge.tables.launch_rules import TEXTS, VERDICTS
from preflight.knowledge.sysctls import SYSCTLS
from preflight.knowledge.variables.leftovers import LEFTOVERS, Leftover
from preflight.knowledge.variables.names import ROWS
from preflight.report.language import ENGLISH, Language
from preflight.run.suite.plugin import checks_folder
from preflight.said import said
from preflight.said.errors import UsageError
from preflight.said.redact import without_secrets

SHOWN_WHOLE = 6  # of more than so many only the best are shown whole, the others by their first lines
BEST = 3
LISTED = 30
SCATTERED, UNRELATED = 4, 9
VARIABLE, SYSCTL, THRESHOLD = "a variable of the job", "a setting of sysctl", "a threshold"


@dataclass(frozen=True)
class Entry:
    """One thing that can be explained: its name, what it is, and its text, of which the first line says most."""

    name: str
    kind: str
    text: str
    patterns: tuple[re.Pattern[str], ...] = ()  # what a log would show

    @property
    def first(self) -> str:
        """The first line of the text."""
        return self.text.partition("\n")[0]

    def whole(self, language: Language) -> str:
        """Everything, as it is shown."""
        text = textwrap.indent(language.document(self.text), "  ")
        return f"{self.name} ({language.say(self.kind)})\n\n{text}\n"


def explain(wanted: str, language: Language = ENGLISH) -> int:
    """Print what is known of the words: whole where it is little, else a line each; every check without words.

    A part of a name is enough; words that no name holds are looked for in the texts. Raises UsageError where
    nothing is found.
    """
    if not wanted:
        checks = sorted(_checks(), key=lambda held: held.name)
        print("\n".join(f"{entry.name}\n    {language.say(entry.first)}" for entry in checks))
        return 0
    known = entries()
    found = search(wanted, known)
    if not found:
        names = [entry.name for entry in known]
        near = difflib.get_close_matches(wanted, [*names, *(name.partition(".")[2] for name in names)], n=3, cutoff=0.6)
        shown = without_secrets(wanted)  # perhaps a line of a log
        hint = said("; did you mean {near}?", ", ".join(near)) if near else "; preflight explain lists the checks"
        raise UsageError(said("explain: nothing is known of {shown!r}{hint}", shown, hint))
    whole = len(found) if wanted.endswith(".") or len(found) <= SHOWN_WHOLE else BEST
    print("\n".join(entry.whole(language) for entry in found[:whole]))
    if found[whole:]:
        print(language.say("Also, by preflight explain NAME:\n"))
        rest = [(entry, language.say(entry.kind), language.say(entry.first)) for entry in found[whole:LISTED]]
        print("\n".join(f"{entry.name} ({kind})\n    {first}" for entry, kind, first in rest))
    if found[LISTED:]:
        print(language.say(said("... and {LISTED} more", len(found) - LISTED)))
    return 0


def search(wanted: str, among: Sequence[Entry]) -> list[Entry]:
    """What the words are about, the most to the point first.

    An exact name, or a subject such as "clock.", stands alone; else come errors that a log would show in these words,
    then names that hold them, then texts that do. A text that merely has all the words somewhere counts only where
    nothing is closer: "out of memory" is not about every text with an "out", an "of" and a "memory".
    """
    plain = wanted.strip().lower()
    words = [word for word in re.split(r"[^a-z0-9]+", plain) if word]
    exact = [entry for entry in among if entry.name.lower() == plain]
    if plain.endswith("."):
        exact = sorted((entry for entry in among if entry.name.startswith(plain)), key=lambda entry: entry.name)
    if exact or not words:
        return exact
    ranks = {entry: _rank(entry, plain, words) for entry in among}
    closer = [entry for entry in among if ranks[entry] < SCATTERED]
    found = closer or [entry for entry in among if ranks[entry] == SCATTERED]
    return sorted(found, key=lambda entry: ranks[entry])


def _rank(entry: Entry, plain: str, words: list[str]) -> int:
    """How far an entry is from the words: 0 is about them."""
    name, text = entry.name.lower(), entry.text.lower()
    far = entry.kind in (VARIABLE, SYSCTL, THRESHOLD)  # of which there are hundreds, with few words on each
    all_in_name = all(_speaks_of(word, name) for word in words)
    steps = (
        any(pattern.search(plain) for pattern in entry.patterns),
        _speaks_of(plain, name) and not far,
        not far and (_speaks_of(plain, entry.first.lower()) or all_in_name),
        _speaks_of(plain, text) or all_in_name,
        all(_speaks_of(word, text) for word in words),
    )
    return next((number for number, holds in enumerate(steps) if holds), UNRELATED)


def _speaks_of(words: str, text: str) -> bool:
    """Whether the words stand in the text, where a word begins: "hang" is in "hangs", and not in "changed"."""
    return re.search(rf"(?<![a-z0-9]){re.escape(words)}", text) is not None


@cache
def entries() -> tuple[Entry, ...]:
    """All that can be explained."""
    return (*_checks(), *_rules(), *_causes(), *_variables(), *_sysctls(), *_thresholds())


def check_texts(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Id, the verdict where it does not hold, and docstring of every check in a folder, without running anything."""
    for path in sorted(folder.glob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                text = ast.get_docstring(node) or ""
                marks = {mark.attr for mark in node.decorator_list if isinstance(mark, ast.Attribute)}
                name = f"{path.stem.removeprefix('test_')}.{node.name.removeprefix('test_')}"
                yield name, "warn" if "advisory" in marks else "fail", text


def _checks() -> Iterator[Entry]:
    for name, verdict, text in check_texts(checks_folder()):
        yield Entry(name, said("{verdict} where it does not hold", verdict), text)


def _rules() -> Iterator[Entry]:
    """Each rule about launch files with its own text, or that of the function that finds it broken."""
    found = dict(TEXTS)
    for module in pkgutil.walk_packages(launch.__path__, f"{launch.__name__}."):
        for function in _functions(importlib.import_module(module.name)):
            text = inspect.getdoc(function) or ""
            for name in VERDICTS.keys() & _texts_in(function.__code__) if text else ():
                found.setdefault(name, text)
    for name in VERDICTS:
        yield Entry(f"launch.{name}", "a rule about launch files", found[name])


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    """The functions that a module defines, and then the methods of its classes."""
    own = [held for held in vars(module).values() if getattr(held, "__module__", "") == module.__name__]
    yield from (held for held in own if isinstance(held, FunctionType))
    for held in own:
        if inspect.isclass(held):
            yield from (inner for inner in vars(held).values() if isinstance(inner, FunctionType))


def _texts_in(held: object) -> set[str]:
    """The texts that the code of a function holds, within functions of its own and lists too."""
    if isinstance(held, str):
        return {held}
    inner = held.co_consts if isinstance(held, CodeType) else held if isinstance(held, (tuple, frozenset)) else ()
    return {text for one in inner for text in _texts_in(one)}


def _causes() -> Iterator[Entry]:
    for cause in CAUSES:
        lines = [f"{cause.meaning}.", f"Fix: {cause.fix}."]
        lines += [said("Checked by: {check}", cause.check)] if cause.check else []
        text = "\n".join([*lines, f"Source: {cause.source}"])
        yield Entry(cause.name, "found in logs by preflight diagnose", text, tuple(map(re.compile, cause.patterns)))


def _variables() -> Iterator[Entry]:
    left = {row.name: row for row in LEFTOVERS}
    for row in ROWS.values():
        lines = [f"Holds {row.kind.wanted}."]
        lines += [said("Read since version {since}.", row.since)] if row.since else []
        lines += [said("No longer read: {until}.", row.until)] if row.until else []
        lines += ["Ranks that disagree hang or stop: the same on every node."] if row.must_agree else []
        lines += ["May differ between nodes."] if row.may_differ else []
        lines += [_left(left.pop(row.name))] if row.name in left else []
        yield Entry(row.name, VARIABLE, "\n".join([*lines, f"Source: {row.source}"]))
    for rest in left.values():
        yield Entry(rest.name, VARIABLE, f"{_left(rest)}\nSource: {rest.source}")


def _left(row: Leftover) -> str:
    return said("A warning as {name}={example}: {does}.", row.name, row.example, row.does)


def _sysctls() -> Iterator[Entry]:
    for row in SYSCTLS:
        decides = said("It decides {decides}: the same on every node.", row.decides)
        text = f"{decides}\nChecked by: kernel.settings_are_the_same_on_every_node\nSource: {row.source}"
        yield Entry(row.name, SYSCTL, text)


def _thresholds() -> Iterator[Entry]:
    settings = Settings()
    for section in fields(settings):
        held = getattr(settings, section.name)
        for threshold in fields(held) if section.name != "waivers" else ():
            line = f"[{section.name}] {threshold.name} = {getattr(held, threshold.name)}"
            text = said("{partition} by default.\nIn the file of --settings: {line}", line.partition(" = ")[2], line)
            yield Entry(f"{section.name}.{threshold.name}", THRESHOLD, text)
