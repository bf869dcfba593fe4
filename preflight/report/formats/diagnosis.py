"""How does a diagnosis read: the cause, its evidence, what to do, and what followed from it?"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from preflight.diagnose.cause import CONFIDENCE
from preflight.diagnose.derived.hangs import hang_text
from preflight.diagnose.derived.wording import ranks_text
from preflight.diagnose.ends.end import Outcome
from preflight.diagnose.ends.stages import Reached, Stage
from preflight.diagnose.found import Diagnosis, Evidence, Finding, Job
from preflight.reach.hosts import fold
from preflight.report.columns import counted
from preflight.report.language import ENGLISH, Language
from preflight.report.language.wrap import wrapped
from preflight.report.printable import printable
from preflight.said import joined, said
from preflight.said.redact import without_secrets

WIDTH = 118
LONGEST = 240
MOST_FOLDED = 8


def diagnosis_text(diagnosis: Diagnosis, language: Language = ENGLISH) -> str:
    """The diagnosis as a page of text, the first cause on top; the lines of logs as they are."""
    say = language.say
    parts = [say(_headline(diagnosis))]
    if diagnosis.gaps:
        parts.append("\n".join([say("not read:"), *(f"  - {_cut(gap.words)}" for gap in diagnosis.gaps[:MOST_FOLDED])]))
        if len(diagnosis.gaps) > MOST_FOLDED:
            parts[-1] += f"\n  {say(said('and {MOST_FOLDED} more', len(diagnosis.gaps) - MOST_FOLDED))}"
    for number, finding in enumerate(diagnosis.causes):
        parts.append("\n".join(_cause_lines(finding, language, title="cause" if number == 0 else "also")))
    if diagnosis.consequences:
        parts.append("\n".join(_folded(diagnosis, language)))
    slowing = diagnosis.slowing
    others = [note for note in diagnosis.notes if note not in slowing]
    for title, notes in (("what may make it slow:", slowing), ("also seen, and often harmless:", others)):
        if notes:
            parts.append("\n".join([say(title), *(_one_line(note, language) for note in notes[:MOST_FOLDED])]))
    job = list(_job_lines(diagnosis.job))
    if job:
        parts.append("\n".join([say("the job:"), *(f"  {say(line)}" for line in job)]))
    reached = (
        list(_reached_lines(diagnosis.outcome, language)) if diagnosis.collect or diagnosis.outcome.missing else []
    )
    if reached:
        parts.append("\n".join([say("how far each rank came:"), *reached]))
    if diagnosis.collect:
        parts.append("\n".join([say("to find out more:"), *(f"  - {say(line)}" for line in diagnosis.collect)]))
    return "\n\n".join(parts) + "\n"


def _headline(diagnosis: Diagnosis) -> str:
    files, lines = len(diagnosis.files), diagnosis.lines
    read = said("{files} file{s}, {lines:,} line{s2}", files, "s" * (files != 1), lines, "s" * (lines != 1))
    if diagnosis.causes:
        first = diagnosis.causes[0]
        where = f" ({printable(first.where)})" if first.where else ""
        return f"{printable(without_secrets(first.cause.meaning))}{where}   [{read}]"
    if diagnosis.consequences:
        return said("cause: unknown. The lines show only what followed from it.   [{read}]", read)
    if diagnosis.gaps:
        return said("no failure found in what could be read   [{read}]", read)
    return said("{outcome}   [{read}]", diagnosis.outcome.words, read)


def _cause_lines(finding: Finding, language: Language, *, title: str) -> Iterator[str]:
    cause = finding.cause
    lines = f"{finding.count} line{'s' * (finding.count != 1)}"
    yield language.say(
        said("{title}: {name}, confidence {CONFIDENCE}, {lines}", title, cause.name, CONFIDENCE[cause.kind], lines)
    )
    yield from _wrapped("means", without_secrets(cause.meaning), language)
    if finding.detail:
        yield from _wrapped("here", without_secrets(finding.detail), language)
    for evidence in finding.evidence:
        yield f"  {_place(evidence)}: {_cut(evidence.text)}"
    stage = finding.evidence[0].stage if finding.evidence else Stage.UNKNOWN
    if stage is not Stage.UNKNOWN:
        yield language.say(said("  stage  in {stage}", stage.words))
    yield from _wrapped("fix", cause.fix, language)
    if cause.check:
        yield said("  check  {check} (`preflight explain {check}`)", cause.check)
    if cause.source:
        yield said("  source {source}", printable(cause.source))


def _wrapped(title: str, text: str, language: Language) -> list[str]:
    if language is not ENGLISH:
        first, *rest = wrapped(printable(language.say(text)), WIDTH, first=0, rest=9)
        return [f"  {language.say(title)} {first}", *rest]
    lines = textwrap.wrap(printable(text), WIDTH - 9, break_long_words=False, break_on_hyphens=False) or [""]
    return [f"  {title:6} {lines[0]}", *(f"         {line}" for line in lines[1:])]


def _folded(diagnosis: Diagnosis, language: Language) -> Iterator[str]:
    yield language.say("followed from it:" if diagnosis.causes else "what is known:")
    for finding in diagnosis.consequences[:MOST_FOLDED]:
        yield _one_line(finding, language)
        if not diagnosis.causes:  # nothing better is known
            yield f"      {language.say(finding.cause.meaning)}"
        if finding.detail:
            yield f"      {printable(without_secrets(language.say(finding.detail)))}"
    if len(diagnosis.consequences) > MOST_FOLDED:
        yield f"  {language.say(said('and {MOST_FOLDED} more', len(diagnosis.consequences) - MOST_FOLDED))}"


def _one_line(finding: Finding, language: Language) -> str:
    where = said(" on {where}", printable(finding.where)) if finding.where else ""
    lines = f"{finding.count} line{'s' * (finding.count != 1)}"
    first = finding.evidence[0]
    summary = language.say(
        said("{name}{where}, {lines}, first {place}", finding.cause.name, where, lines, _place(first))
    )
    return f"  - {summary}: {_cut(first.text, 120)}"


def _place(evidence: Evidence) -> str:
    return f"{printable(evidence.file)}:{evidence.line}" if evidence.line else printable(evidence.file)


def _cut(text: str, most: int = LONGEST) -> str:
    shown = printable(without_secrets(text))
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."


def _job_lines(job: Job) -> Iterator[str]:
    nodes = list(dict.fromkeys(job.node_of.values()))
    if job.world_size:
        on = said(" on {counted}: {cut}", counted(len(nodes), "node"), _cut(_fold(nodes))) if nodes else ""
        yield f"{counted(job.world_size, 'rank')}{on}"
    if job.runs > 1:
        yield said("{runs} runs stand in one log, one after the other: this is of the last", job.runs)
    if job.has_ended:
        yield "the training reported that it ended well"
    if job.silent:
        yield said(
            "no line is of rank {silent}{silent2}",
            ", ".join(map(str, job.silent[:16])),
            " and more" * (len(job.silent) > 16),
        )
    if job.interfaces:
        shown = [f"{node or 'a node'} {', '.join(names)}" for node, names in list(job.interfaces.items())[:8]]
        yield said("interfaces: {cut}{interfaces}", _cut("; ".join(shown)), " ..." * (len(job.interfaces) > 8))
    if job.networks or job.transports:
        yield said("network: {cut}", _cut(", ".join([*job.networks, *job.transports])))
    for name, values in job.versions.items():
        yield f"{name} {_cut(', '.join(values))}"
    if job.exits:
        yield said(
            "exit codes: {cut}",
            _cut(
                joined([said("rank {rank}: {code}", rank, code) for rank, code in sorted(job.exits.items())[:16]], ", ")
            ),
        )
    if job.fallen:
        yield said("ended first, as the launcher saw it: {ranks}", ranks_text(job.fallen))
    if job.hang is not None:
        yield said("hung in {cut}", _cut(hang_text(job.hang), 400))


def _reached_lines(outcome: Outcome, language: Language) -> Iterator[str]:
    """The last sign of life of each rank, those that are behind the others first."""
    behind = set(map(id, outcome.behind))
    for one in sorted(outcome.ranks, key=lambda one: id(one) not in behind)[:MOST_FOLDED]:
        who = said("rank {rank}", one.rank) if one.rank >= 0 else printable(one.node or one.file)
        step = said(" at step {step}", one.step) if one.step >= 0 else ""
        late = " (behind the others)" * (id(one) in behind)
        told = language.say(said("{who}{late}: in {stage}{step}", who, late, one.stage.words, step))
        yield f"  - {told}, {printable(one.file)}:{one.number}: {_cut(one.text, 120)}"
    if len(outcome.ranks) > MOST_FOLDED:
        yield f"  {language.say(said('and {MOST_FOLDED} more', len(outcome.ranks) - MOST_FOLDED))}"
    if outcome.missing:
        yield f"  {language.say(said('to tell more, this is needed: {missing}', outcome.missing))}"


def _fold(names: list[str]) -> str:
    return fold(names) if all(name.replace("-", "").replace(".", "").isalnum() for name in names) else ", ".join(names)


def diagnosis_document(diagnosis: Diagnosis) -> dict[str, Any]:
    """The diagnosis for programs, as JSON has it."""
    job = diagnosis.job
    return {
        "known": diagnosis.is_known,
        "failed": diagnosis.has_failed,
        "outcome": {
            "end": diagnosis.outcome.end.value,
            "stopped_by": diagnosis.outcome.by.value,
            "in_order": diagnosis.outcome.in_order,
            "recovered": diagnosis.outcome.has_recovered,
            "missing": diagnosis.outcome.missing,
            "ranks": [_reached(one, one in diagnosis.outcome.behind) for one in diagnosis.outcome.ranks],
        },
        "files": [printable(name) for name in diagnosis.files],
        "lines": diagnosis.lines,
        "not_read": [
            {
                "file": printable(gap.file),
                "reason": printable(without_secrets(gap.reason)),
                "all_of_it": not gap.is_read,
            }
            for gap in diagnosis.gaps
        ],
        "causes": [_finding_document(finding) for finding in diagnosis.causes],
        "consequences": [_finding_document(finding) for finding in diagnosis.consequences],
        "slowing": [finding.cause.name for finding in diagnosis.slowing],
        "notes": [_finding_document(finding) for finding in diagnosis.notes],
        "collect": list(diagnosis.collect),
        "job": {
            "world_size": job.world_size or None,
            "nodes": {str(rank): printable(node) for rank, node in job.node_of.items()},
            "silent_ranks": list(job.silent),
            "ended_well": job.has_ended,
            "runs_in_one_log": job.runs,
            "interfaces": {
                printable(node): [printable(name) for name in names] for node, names in job.interfaces.items()
            },
            "networks": [printable(name) for name in job.networks],
            "transports": [printable(name) for name in job.transports],
            "versions": {name: [printable(value) for value in values] for name, values in job.versions.items()},
            "exit_codes": {str(rank): code for rank, code in job.exits.items()},
            "ended_first": list(job.fallen),
            "hang": None
            if job.hang is None
            else {
                "sequence": job.hang.sequence,
                "operation": printable(job.hang.operation),
                "elements": job.hang.elements,
                "waiting": list(job.hang.waiting),
                "missing": list(job.hang.missing),
                "mismatch": printable(job.hang.mismatch),
            },
        },
    }


def _reached(one: Reached, is_behind: bool) -> dict[str, Any]:
    return {
        "rank": one.rank if one.rank >= 0 else None,
        "node": printable(one.node),
        "stage": one.stage.name.lower(),
        "step": one.step if one.step >= 0 else None,
        "behind": is_behind,
        "file": printable(one.file),
        "line": one.number,
        "text": printable(without_secrets(one.text)),
    }


def _finding_document(finding: Finding) -> dict[str, Any]:
    cause = finding.cause
    return {
        "name": cause.name,
        "meaning": printable(without_secrets(cause.meaning)),
        "confidence": CONFIDENCE[cause.kind],
        "detail": printable(without_secrets(finding.detail)),
        "fix": printable(cause.fix),
        "check": cause.check,
        "source": printable(cause.source),
        "lines": finding.count,
        "ranks": list(finding.ranks),
        "nodes": [printable(node) for node in finding.nodes],
        "evidence": [
            {
                "file": printable(one.file),
                "line": one.line,
                "text": printable(without_secrets(one.text)),
                "rank": one.rank if one.rank >= 0 else None,
                "node": printable(one.node),
                "stage": one.stage.name.lower(),
            }
            for one in finding.evidence
        ],
    }
