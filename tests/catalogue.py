"""Which sentences does a person read, and which of them have no Chinese yet? `python -m tests.catalogue`.

They are read out of the syntax trees of checks/ and preflight/: the templates of `said`, and texts without values. The
command brings zh.po up to date and prints what it lacks; what is gone is dropped.
"""

from __future__ import annotations

import ast
import difflib
import io
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeGuard

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

from preflight.judge.ledger.findings import Verdict
from preflight.judge.tables.launch_rules import VERDICTS
from preflight.report.language.catalogue import FOLDER
from preflight.report.language.template import pieces
from preflight.said import msgid as msgid_of
from tests.house import PACKAGE, ROOT

ZH = FOLDER / "zh.po"

# What nobody reads: the tests' own material, and the code in ranks and nodes that speaks in keys.
LEFT_OUT = (
    *(f"report/formats/{name}.py" for name in ("annotations", "csv", "hostlists", "junit", "metrics", "nagios")),
    "testing",
    "job/start/script.py",
    *(f"job/ranks/{name}" for name in ("collectives.py", "rank/", "train.py", "training/")),
    *(f"job/ranks/bench/{name}.py" for name in ("groups", "nccl", "operations", "pairs", "pattern", "sizes", "trial")),
    "said/redact",
    "node/agent/loader.py",
    "reach/transport/ray_driver.py",
    "diagnose/forms/objects.py",  # whose words are read as those of a log
)
PATTERNS = frozenset({"compile", "search", "match", "fullmatch", "findall", "sub", "split", "finditer"})
SILENT = frozenset(
    [
        "startswith",
        "endswith",
        "removeprefix",
        "removesuffix",
        "partition",
        "rpartition",
        "find",
        "index",
        "replace",
        "count",
        "strip",
        "encode",
        "addinivalue_line",
        "getgroup",
    ]
)
SHELL = re.compile(
    r"^import |\$\(|\bprintf\b|&& | \|\| |>/dev/null|#!/bin|\$SLURM|\$\{|\\\\n"
    r"|^(?:exec|srun|sudo|torchrun|until|case|echo) .*\{"
)
CODE = re.compile(r"`[^`\n]*`")
# Words that are put together where they are shown, and argparse's own.
PUT_TOGETHER = [
    "",
    "{count} node{s}",
    "{count} check{s}",
    "{count} rank{s}",
    "{count} step{s}",
    "{count} run{s}",
    "{count} figure{s}",
    "{count} more fact{s}",
    "{count} node{s} good, {need} needed",
    "added",
    "removed",
    "worse",
    "left out",
    "lasts",
    "Next",
    "Then start it",
    "before",
    "{count} node{s} recorded in {folder}/",
    "unfinished",
    "WORSE",
    "STEADY",
    "Figures",
    "Runs",
    "Table",
    "step",
    "run",
    "took",
    "{count} more figure{s}",
    "preflight trend",
    "trend of {counted}",
    "day of the run",
    "{count} of {counted} chosen",
    "{count} log{s}",
    "{count} character{s}",
    "{count} line{s}",
    "{count} file{s}",
    "{count} start{s}",
    "{count} more check{s}",
    "{count} more message{s}",
    "{count} check{s} fail{s2}",
    "{count} check{s} warn{s2}",
    "{count} check{s} was not measured",
    "{count} check{s} were not measured",
    "{count} check{s} passed",
    "{name} and {count} more (-v lists all)",
    "note",
    "no other node reaches {port}, where rank 0 will listen: {reasons}",
    "{sources} cannot reach {port}, where rank 0 will listen: {reasons}",
    "{low} or {high}",
    "{first} and {second}",
    "mesh",
    "training",
    "bench",
    "devices",
    "pairs of check and node judged",
    "started",
    "seconds",
    "version",
    "finished",
    "yes",
    "no",
    "none",
    "Default: {shown}.",
    "GO",
    "NO-GO",
    "INTERRUPTED",
    "UNFINISHED",
    "Fails",
    "Warnings",
    "Measured",
    "All checks",
    "verdict",
    "checks",
    "At",
    "ok",
    "usage:",
    "options",
    "positional arguments",
    "show this help message and exit",
    "not reported by any node",
    "{value} ({percent} % of expected)",
    "{name}: {value} ({percent} % of expected)",
    "of expected (%)",
    "measured",
    "expected",
    "(no GPU has any)",
    "blocked by {check}: {reason}",
    "blocked by {check} on {nodes}: {reason}",
    "no GPU has any",
    "see preflight --help",
    "unrecognized arguments: {words}",
    "argument {name}: expected one argument",
    "argument {name}: expected at least one argument",
    "argument {name}: invalid choice: {word} (choose from {choices})",
    "argument {name}: invalid {type} value: {word}; see preflight --help",
    "the following arguments are required: {names}",
    "ambiguous option: {word} could match {options}",
    "nodes",
    "bandwidth",
    "output",
    "examples:",
    "cause",
    "also",
    "means",
    "here",
    "fix",
    *("receives", "receives (GB/s)", "sends", "below 50 %", "50 to 80 %", "80 to 90 %", "90 to 95 %"),
    *(f"stage {name}" for name in ("facts", "files", "mesh", "rendezvous", "bench", "training", "vendor")),
    *("stage ending", "stage close"),
    *(f"verdict {name}" for name in (*Verdict, "not judged")),
    *(f"{{count}} {kind}" for kind in ("new", "fixed", "standing", "not judged now")),
    *("new", "fixed", "standing", "New", "No longer here", "bandwidth slower", "bandwidth faster"),
    "of them not measured again",
    *("slower", "faster", "within the noise", "nothing has changed"),
    *("time", "profile", "Copy", "Copied"),
    *("[1] of [2] checks", ", [1] of [2] nodes"),
    *("{title} on {nodes}: {message}", "Time by stage"),
    "no Python could be started ({reason}): give --python PATH (there {path} has torch {version})",
    "cannot start {path}: {reason} (there {path2} has torch {version})",
    "likely",
    "certain",
    "",
][1:-1]
NAMES = re.compile(r"\s*[\w.\-\[\]]+(?:\s+[\w.\-\[\]]+){2,}\s*")
STOP = re.compile(r"\b(?:a|an|the|is|of|on|in|to|and|no|not|each|every|all|are|by|for|with|than)\b")
WORD = re.compile(r"[A-Za-z][A-Za-z']+")
FIELD = re.compile(r"\{[^{}]*\}")
LABELS = ("report/facts.py", "report/columns.py")  # whose titles are single words


@dataclass
class Sentence:
    """A msgid with the places it comes from."""

    msgid: str
    places: list[tuple[str, int]] = field(default_factory=list)


def sentences() -> dict[str, Sentence]:
    """Every msgid, in the order of files and lines."""
    found: dict[str, Sentence] = {}
    for path in (*sorted((ROOT / "checks").glob("*.py")), *sorted(PACKAGE.rglob("*.py"))):
        place = path.relative_to(ROOT).as_posix()
        if place.removeprefix("preflight/").startswith(LEFT_OUT) or "report/language/" in place:
            continue
        for msgid, line in spoken(path.read_text(encoding="utf-8"), place):
            found.setdefault(msgid, Sentence(msgid)).places.append((place, line))
    for msgid in PUT_TOGETHER:
        found.setdefault(msgid, Sentence(msgid)).places.append(("tests/catalogue.py", 1))
    for path in sorted((PACKAGE / "report" / "html").glob("*.j2")):
        for msgid, line in pieces(path.read_text(encoding="utf-8")):
            found.setdefault(msgid, Sentence(msgid)).places.append((path.relative_to(ROOT).as_posix(), line))
    return found


def spoken(source: str, place: str) -> Iterator[tuple[str, int]]:
    """Msgid and line of each sentence of one module."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    yield from _documented(tree, nodes, place)
    skipped = _silent(nodes, source)
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "said":
            template = node.args[0]
            if isinstance(template, ast.Constant):
                skipped.add(id(template))
                if WORD.search(FIELD.sub("", template.value)):
                    yield " ".join(msgid_of(template.value).split()), node.lineno
    for node in nodes:
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Dict) and place.endswith(LABELS):
            yield from ((key.value, key.lineno) for key in node.keys if _is_label(key))
        if isinstance(node, ast.keyword) and node.arg == "title" and _is_label(node.value):
            yield node.value.value, node.value.lineno
        if isinstance(node, ast.JoinedStr | ast.Constant):
            text = template_of(node)
            if is_prose(text, is_formatted=isinstance(node, ast.JoinedStr)) and is_shown(text, place):
                yield " ".join(text.split()), node.lineno
        if isinstance(node, ast.FormattedValue):
            for inner in ast.walk(node.value):
                if isinstance(inner, ast.IfExp):
                    for side in (inner.body, inner.orelse):
                        if _is_label(side) and _is_word(side.value):
                            yield side.value.strip(), side.lineno


def _is_label(node: ast.AST | None) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(WORD.search(node.value))


def _is_word(text: str) -> bool:
    return bool(re.fullmatch(r" ?[a-z]{2,}[,.]? ?", text))


def _documented(tree: ast.Module, nodes: list[ast.AST], place: str) -> Iterator[tuple[str, int]]:
    """The docstrings that people read: of checks, and of the rules about launch files."""
    if place.startswith("checks/"):
        yield from ((part, 1) for part in parts(ast.get_docstring(tree) or ""))
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and (
            (place.startswith("checks/") and node.name.startswith("test_"))
            or (place.startswith("preflight/launch/") and _reports_a_rule(node))
        ):
            yield from ((part, node.lineno) for part in parts(ast.get_docstring(node) or ""))


def _reports_a_rule(function: ast.FunctionDef) -> bool:
    """Whether a function of launch/ names a rule, so that `preflight explain` shows its docstring."""
    words = (node.value for node in ast.walk(function) if isinstance(node, ast.Constant))
    return any(isinstance(word, str) and word in VERDICTS for word in words)


def parts(text: str) -> list[str]:
    """A docstring as what is translated by itself: its first line, each paragraph, and the fix."""
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n|(?:^|\n)Fix:", text) if part.strip()]


def _silent(nodes: list[ast.AST], source: str) -> set[int]:
    """The nodes that are no messages: docstrings, patterns, keys, pieces of f-strings."""
    lines = source.splitlines()
    silent: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                silent.add(id(first.value))
        if isinstance(node, ast.JoinedStr):
            silent.update(id(value) for value in node.values if isinstance(value, ast.Constant))
            for value in node.values:
                if isinstance(value, ast.FormattedValue) and value.format_spec is not None:
                    silent.update(map(id, ast.walk(value.format_spec)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "split" and isinstance(node.func.value, ast.Constant):
                silent.add(id(node.func.value))
            if node.func.attr in PATTERNS | SILENT and not isinstance(node.func.value, ast.JoinedStr):
                silent.update(id(word) for word in node.args if isinstance(word, ast.Constant))
        if isinstance(node, ast.Compare):
            silent.update(map(id, (node.left, *node.comparators)))
        if isinstance(node, ast.Subscript):
            silent.add(id(node.slice))
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            line = lines[node.lineno - 1]
            begin = line if line.isascii() else line.encode().decode("latin-1")  # columns are counted in bytes
            if begin[node.col_offset : node.col_offset + 2].lower().startswith(("r", "br")):
                silent.add(id(node))
    return silent


def template_of(node: ast.AST) -> str:
    """The msgid of a string: what is filled in has the last name of its expression, and a number where two share it."""
    if isinstance(node, ast.Constant):
        return node.value.replace("{", "{{").replace("}", "}}") if isinstance(node.value, str) else ""
    if not isinstance(node, ast.JoinedStr):
        return ""
    text = ""
    used: dict[str, int] = {}
    for value in node.values:
        if isinstance(value, ast.Constant):
            text += str(value.value).replace("{", "{{").replace("}", "}}")
        elif isinstance(value, ast.FormattedValue):
            name = _name(value.value)
            used[name] = used.get(name, 0) + 1
            text += f"{{{name}{'' if used[name] == 1 else used[name]}}}"
    return text


def _name(expression: ast.AST) -> str:
    """A word for what stands there: plural endings are `s`, which a translation may leave out."""
    if isinstance(expression, ast.IfExp | ast.Subscript | ast.BinOp):
        ends = {
            inner.value
            for inner in ast.walk(expression)
            if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
        }
        if ends and ends <= {"", "s", "es"}:
            return "s"
    names = [
        inner.attr if isinstance(inner, ast.Attribute) else inner.id
        for inner in ast.walk(expression)
        if isinstance(inner, ast.Attribute | ast.Name)
    ]
    plain = [
        name.strip("_")
        for name in names
        if name not in {"join", "map", "self", "str", "sorted", "printable", "fold", "len"}
    ]
    return plain[0] if plain else "value"


def is_prose(text: str, *, is_formatted: bool) -> bool:
    """Whether a person would read it as words: two of them with a space between, one where something is filled in."""
    literal = re.sub(r"\{\w*\}", " 0 ", text)
    words = [word for word in re.findall(r"(?<![\w./%$=-])[A-Za-z][A-Za-z']*(?![\w/=(%])", literal) if len(word) > 1]
    if is_formatted and re.search(r"(?:^| |\()[a-z]{2,}[,;:]? |(?: |\()[a-z]{2,}$", text):
        return len(words) >= 1
    return " " in text.strip() and len(words) >= 2 and not text.lstrip().startswith(("import ", "<", "def "))


def is_shown(text: str, place: str) -> bool:
    """Whether it reaches a person as a sentence: no command of a shell, no word that is compared or split."""
    if "judge/commands/" in place:
        return text.startswith("# ")
    if "/node/" in place and not text[:1].islower() and "{" not in text and len(text.split()) < 5:
        return False
    if "launch/" in place and NAMES.fullmatch(text) and not STOP.search(text):
        return False  # a list of names, to be split
    return not SHELL.search(CODE.sub("", text))  # a sentence may quote a command


NAMED = re.compile(r"\b(?:[A-Z]+_[A-Z0-9_]+)\b")  # of variables
ALIKE = 0.7  # of the words of two sentences, from which on one is the other reworded


def reworded(old: str, new: str) -> float:
    """How much of an English sentence stayed, as long as it has the same values; 0 where it may mean something else."""
    if any(sorted(kept.findall(old)) != sorted(kept.findall(new)) for kept in (FIELD, CODE, NAMED)):
        return 0.0
    return difflib.SequenceMatcher(None, old.split(), new.split(), autojunk=False).ratio()


def catalogue(existing: Catalog, wanted: Iterable[Sentence] = ()) -> Catalog:
    """What zh.po ought to hold: every msgid of today, with the translation that it has.

    A sentence that was only reworded in English keeps its translation.
    """
    wanted = tuple(wanted) or tuple(sentences().values())
    ids = {sentence.msgid for sentence in wanted}
    orphans = {str(held.id): held for held in existing if held.id and held.string and str(held.id) not in ids}
    made = Catalog(
        locale="zh_CN",
        project="preflight",
        charset="utf-8",
        header_comment="# Chinese. Written by python -m tests.catalogue; translate what has no msgstr.",
        fuzzy=False,
    )
    made.creation_date = made.revision_date = None
    for sentence in wanted:
        held = existing.get(sentence.msgid)
        if held is None and orphans:
            nearest = max(orphans, key=lambda old: reworded(old, sentence.msgid))
            if reworded(nearest, sentence.msgid) >= ALIKE:
                held = orphans.pop(nearest)
        made.add(
            sentence.msgid,
            string=str(held.string) if held and held.string else "",
            locations=[(sentence.places[0][0], None)],
        )
    return made


def read(path: Path) -> Catalog:
    """A catalogue from disk."""
    with path.open("rb") as file:
        return read_po(file, locale="zh_CN")


def text_of(made: Catalog) -> str:
    """A catalogue as its file has it: long lines, so that a sentence can be searched for."""
    file = io.BytesIO()
    write_po(file, made, width=0, omit_header=True, include_lineno=False)
    return file.getvalue().decode("utf-8")


def untranslated(made: Catalog) -> list[str]:
    """The msgids without Chinese."""
    return [str(message.id) for message in made if message.id and not message.string]


def main(words: Iterable[str]) -> int:
    """Write zh.po, and print what it lacks."""
    existing = read(ZH) if ZH.exists() else Catalog(locale="zh_CN")
    made = catalogue(existing)
    ZH.write_text(text_of(made), encoding="utf-8")
    missing = untranslated(made)
    print("\n".join([*missing, f"{len(made) - len(missing)} of {len(made)} sentences have Chinese"]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
