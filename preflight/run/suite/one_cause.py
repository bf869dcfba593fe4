"""Which findings on launch files and on their rehearsal speak of one cause? They become one.

What ran for real says on which node it happened; what was read says where the file is wrong, and how it is put right.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from preflight.facts.results.rehearsal import Cause
from preflight.judge.ledger.findings import SEVERITY, Finding, Verdict
from preflight.judge.views.rehearsal import CHECKS
from preflight.said import leaves, said

if TYPE_CHECKING:
    from preflight.launch.cast import Cast
    from preflight.launch.plan import LaunchFiles

BAD = (Verdict.FAIL, Verdict.WARN)
RULES = "launch."
NAME = re.compile(r"--[A-Za-z][\w-]*|[A-Za-z_][\w.-]*")


class OneCause:
    """What was read of the scripts that were rehearsed, and what the rehearsal found."""

    def __init__(self, files: LaunchFiles, cast: Cast, causes: Sequence[Cause]) -> None:
        self.own = {os.path.abspath(script.name) for script in cast.scripts.values()}
        self.others = {os.path.abspath(plan.where.file) for plan in files.plans} - self.own
        # The line that starts the job is where most faults of a job show: it alone makes no two of them the same.
        self.starting = {(os.path.abspath(plan.where.file), plan.where.line) for plan in (*files.plans, *cast.plans)}
        self.causes = causes

    def folded(self, judged: Sequence[Finding], recorded: Iterable[Finding]) -> tuple[list[Finding], list[Finding]]:
        """The findings of a check of the rehearsal, with what was read of the same causes; and what that was."""
        read = [f for f in recorded if f.check.startswith(RULES) and f.verdict in BAD and not f.waived]
        taken: list[Finding] = []
        whole = list(judged)
        for place, finding in enumerate(whole):
            if finding.verdict not in BAD:
                continue
            same = [other for other in read if other not in taken and self._is_one(finding, other)]
            for other in same:
                whole[place] = _both(whole[place], other, whole)
            taken += same
        covered = {node for finding in whole if finding.verdict in BAD for node in finding.nodes}
        left = [f if f.verdict in BAD else replace(f, nodes=_without(f.nodes, covered)) for f in whole]
        return [finding for finding in left if finding.nodes], taken

    def _is_one(self, finding: Finding, read: Finding) -> bool:
        """Whether both name a line that does not start the job, or what the cause is about stands in the sentence."""
        if read.nodes and not {*read.nodes} & {*finding.nodes}:
            return False
        files = {os.path.abspath(place.file) for place in read.where}
        if files and files <= self.others:
            return False
        causes = [cause for cause in self.causes if CHECKS[cause.about] == finding.check and not cause.is_unmeasured]
        names = {_normal(name) for cause in causes if {*cause.nodes} & {*finding.nodes} for name in cause.names}
        lines = {(os.path.abspath(place.file), place.line) for place in finding.where}
        return bool(lines & _lines(read) - self.starting) or bool(names & names_in(read.message))


def names_in(text: str) -> set[str]:
    """The variables, options, keys and programs that a sentence speaks of, each in one spelling.

    Its values, and what is no word of any language: the sentence may say the rest as it likes.
    """
    identifiers = (word for word in NAME.findall(text) if word.startswith("--") or "_" in word)
    return {_normal(word) for word in (*identifiers, *(name for held in leaves(text) for name in NAME.findall(held)))}


def _normal(word: str) -> str:
    """MASTER_ADDR, --master_addr and --master-addr are one; a plain word stays as it is."""
    if word.startswith("--") or "_" in word:
        return word.lstrip("-").replace("-", "_").upper()
    return word


def _lines(read: Finding) -> set[tuple[str, int]]:
    """The lines that a finding names, and those that its edits change."""
    edited = {(edit.file, line) for edit in read.edits for line in range(edit.first, max(edit.first, edit.last) + 1)}
    named = {(place.file, place.line) for place in read.where}
    return {(os.path.abspath(file), line) for file, line in named | edited}


def _both(finding: Finding, read: Finding, judged: Sequence[Finding]) -> Finding:
    """The finding of the rehearsal with what was read: the fix that was tried on the files is the better one."""
    spoken = {node for other in judged if other.verdict in (*BAD, Verdict.ERROR) for node in other.nodes}
    verdict = max(finding.verdict, read.verdict, key=SEVERITY.__getitem__)
    return replace(
        finding,
        verdict=verdict,
        nodes=(*finding.nodes, *_without(read.nodes, {*spoken, *finding.nodes})),
        message=said("{seen}; by the files: {read}", finding.message, read.message),
        fix=read.fix if read.fix and (read.edits or not finding.fix) else finding.fix,
        where=tuple(dict.fromkeys((*finding.where, *read.where))),
        edits=(*finding.edits, *read.edits),
        commands=(*finding.commands, *read.commands),
    )


def _without(nodes: Iterable[str], others: Collection[str]) -> tuple[str, ...]:
    return tuple(node for node in nodes if node not in others)
