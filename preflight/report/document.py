"""What is known at the end of a run, and how does it become the document of report.json and come back?"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec

from preflight import __version__
from preflight.facts.results import Bench, Mesh, Rehearsal, Training
from preflight.judge.ledger.choice import Choice, concerning
from preflight.judge.ledger.findings import EXIT_CODES, SEVERITY, Finding, Verdict, worst
from preflight.report.changes import Changes
from preflight.report.printable import printable
from preflight.said import Said, restored, said, stored
from preflight.said.errors import UsageError

INTERRUPTED_CODES = (129, 130, 143)
Count = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Frozen, and strict when it is read again: no key is skipped in silence."""


class RunInfo(Part, frozen=True, kw_only=True):
    """Which run it was: `started` is ISO 8601 in UTC, `command` the words of the command line."""

    id: str
    started: str
    seconds: Seconds
    command: tuple[str, ...]
    version: str


class Proof(Part, frozen=True, kw_only=True):
    """The earlier run that measured what this one did not: `at` is ISO 8601 in UTC, `jobs` are bench and training."""

    run: str
    at: str
    jobs: tuple[str, ...]

    def text(self) -> str:
        """As a message says it."""
        return said("proved at {at} by run {run}", self.at, self.run)


class NodeInfo(Part, frozen=True, kw_only=True, omit_defaults=True):
    """How a node was addressed, whether it answered, and what of it was proved by an earlier run.

    `rack` is the rack or the switch next to it as people call it, "switch s7"; "" where none is known.
    """

    host: str
    address: str
    reached: bool
    proof: Proof | None = None
    rack: str = ""


class Counts(Part, frozen=True, kw_only=True, omit_defaults=True):
    """Cells (check x node) that had to be judged, those that were, and how many checks were left out.

    Of those that were judged, `reused` by what an earlier run had measured.
    """

    expected: Count
    judged: Count
    not_asked: Count
    reused: Count = 0


class RunReport(Part, frozen=True, kw_only=True):
    """One run, finished or not: the source of every format, and the keys of report.json in their order.

    `stages` holds the seconds that each stage took, `notes` what the user should know and no check says, `changes`
    what is not as it was in the baseline, `not_asked` the checks that were left out, by what left them out, `choice`
    the nodes that --need took.
    """

    schema: Literal[1] = 1
    finished: bool
    run: RunInfo
    verdict: Verdict
    exit_code: int
    nodes: dict[str, NodeInfo]
    ledger: Counts
    findings: tuple[Finding, ...] = ()
    mesh: Mesh | None = None
    bench: Bench | None = None
    training: Training | None = None
    plan: dict[str, Any] | None = None
    stages: dict[str, Seconds] = {}
    profile: str = "standard"
    notes: tuple[str, ...] = ()
    changes: Changes | None = None
    not_asked: dict[str, tuple[str, ...]] = {}
    choice: Choice | None = None
    rehearsal: Rehearsal | None = None

    @property
    def chosen(self) -> tuple[str, ...]:
        """The nodes that the verdict is of: those that --need chose where it found enough; all where it is empty."""
        return self.choice.nodes if self.choice is not None and self.choice.is_complete else ()


def racks(report: RunReport) -> dict[str, str]:
    """Node -> its rack, of the nodes whose rack is known."""
    return {name: info.rack for name, info in report.nodes.items() if info.rack}


def to_document(report: RunReport) -> dict[str, Any]:
    """The report as plain dicts, tuples, strings and finite numbers; ValueError names a number that is not.

    Under ``sentences`` stands each text that was made from a template, with that template and its values.
    """
    sentences: dict[str, Any] = {}

    def plain(value: Any) -> str:
        if not isinstance(value, Said):
            raise TypeError(said("{name} has no place in a report", type(value).__name__))
        text = str.__str__(value)
        sentences[text] = stored(value)
        return text

    document: dict[str, Any] = msgspec.to_builtins(report, enc_hook=plain)
    if sentences:
        document["sentences"] = sentences
    if report.rehearsal is None:
        del document["rehearsal"]  # only a run that was asked for one has it
    if not _is_finite(document):
        raise ValueError(said("the report holds a number that is not finite: {not_finite}", _not_finite(document)))
    return document


def from_document(document: object, *, source: str = "report.json") -> RunReport:
    """The report of a document that to_document made.

    Raises UsageError, one line that names `source`, for anything else: another schema, a key too many or missing,
    a value of the wrong kind, or a verdict that its own findings contradict.
    """
    if isinstance(document, dict) and document.get("schema") != 1:
        raise UsageError(
            said(
                "{source}: not a report of schema 1 but of {repr}", source, printable(repr(document.get("schema"))[:80])
            )
        )
    sentences: Any = {}
    if isinstance(document, dict) and "sentences" in document:
        sentences = document["sentences"]
        document = {key: value for key, value in document.items() if key != "sentences"}
    try:
        report = _with_sentences(msgspec.convert(document, RunReport), sentences)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UsageError(f"{source}: {_whose(document)}: {printable(str(error))}") from None
    known = {key.name for key in dataclasses.fields(Finding)}
    assert isinstance(document, dict)  # RunReport is made of nothing else
    unknown = {key for finding in document.get("findings", ()) for key in finding} - known
    wrong = said("unknown keys in findings: {unknown}", sorted(unknown)) if unknown else ""
    wrong = wrong or ("" if _is_finite(document) else _not_finite(document)) or _contradiction(report)
    if wrong:
        raise UsageError(said("{source}: not a report of preflight: {wrong}", source, printable(wrong)))
    return report


def _with_sentences(report: RunReport, sentences: Any) -> RunReport:
    """The report with the sentences that were stored; one that is stored for another text than its own is left out."""
    made: dict[str, str] = {}
    for text, document in sentences.items() if isinstance(sentences, dict) else ():
        with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError, RecursionError):
            if (sentence := restored(document)) == text:
                made[text] = sentence
    if not made:
        return report
    return msgspec.structs.replace(
        report,
        findings=tuple(
            dataclasses.replace(
                found, message=made.get(found.message, found.message), fix=made.get(found.fix, found.fix)
            )
            for found in report.findings
        ),
        notes=tuple(made.get(note, note) for note in report.notes),
    )


def _whose(document: object) -> str:
    """What a document that cannot be read is: another version may have written what this one does not know."""
    run = document.get("run") if isinstance(document, dict) else None
    version = run.get("version") if isinstance(run, dict) else None
    if isinstance(version, str) and version != __version__:
        return said("written by preflight {version}, and this is {version2}", printable(version[:40]), __version__)
    return "not a report of preflight"


WITHOUT_FLOATS = {str, int, bool}


def _is_finite(value: object) -> bool:
    """Whether there is no NaN and no infinity; quicker than to tell where one stands."""
    if isinstance(value, (str, int)) or value is None:
        return True
    if isinstance(value, float):
        return math.isfinite(value)
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(inner, Iterable):
        return True
    return set(map(type, inner)) <= WITHOUT_FLOATS or all(map(_is_finite, inner))  # long lists of names


def _not_finite(value: object, path: str = "$") -> str:
    """Where the first NaN or infinity stands, or nothing."""
    if isinstance(value, float):
        return "" if math.isfinite(value) else said("{path} is {value}", path, value)
    items: list[tuple[object, object]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, (list, tuple)):
        items = list(enumerate(value))
    return next((spot for key, inner in items if (spot := _not_finite(inner, f"{path}.{key}"))), "")


def _contradiction(report: RunReport) -> str:
    """What in the report cannot be true together, or nothing: a report cut by hand must not read as pass."""
    ledger = report.ledger
    cells = sum(len(finding.nodes) for finding in report.findings)
    nodes_of: dict[str, list[tuple[str, ...]]] = {}
    for finding in report.findings:
        nodes_of.setdefault(finding.check, []).append(finding.nodes)
    if any(len(set().union(*parts)) != sum(map(len, parts)) for parts in nodes_of.values()):
        return "a cell is judged twice"
    if cells != ledger.judged or ledger.judged > ledger.expected:
        return said(
            "{cells} cells have findings, the ledger says {judged} of {expected}", cells, ledger.judged, ledger.expected
        )
    least = worst(concerning(report.findings, frozenset(report.chosen)))
    if report.choice is not None and not report.nodes.keys() >= {*report.choice.nodes}:
        return "it chose nodes that it does not have"
    if ledger.judged < ledger.expected and SEVERITY[least] < SEVERITY[Verdict.ERROR]:
        least = Verdict.ERROR
    if SEVERITY[report.verdict] < SEVERITY[least]:
        return said("verdict {verdict}, but its findings say {least}", report.verdict, least)
    if report.exit_code not in (EXIT_CODES[report.verdict], *INTERRUPTED_CODES):
        return said("exit code {exit_code} does not belong to verdict {verdict}", report.exit_code, report.verdict)
    return ""
