"""Does what a finding proposes put the files right, and nothing else wrong?

Every proposal whose words can be put into the files is applied in memory, and the files are read and judged again. It
is shown only where its finding is gone then, no other has come, the job has as many ranks as before and its program is
still there. Findings that go with one and the same change have one cause, and get one fix.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from preflight.judge.ledger.findings import Edit, Finding, Verdict
from preflight.launch.field import firm
from preflight.launch.fixes.corrections import with_edits
from preflight.launch.fixes.pasted import edits_of
from preflight.launch.plan import LaunchFiles

TRIALS = 16  # proposals that are tried of one set of files, the worst findings first
CHARACTERS = 250_000  # that are read again for them, at most; more where one trial has more
# Where the number of nodes, tasks or processes is itself what is wrong, another number is the point of the fix; and
# commands that were torn apart say more of it once they are whole.
COUNTS = re.compile(
    r"nodes|machines|nproc|num_|ntasks|-np |-[nNP] |replicas|parallelism|completions|slots|gpus|world_?size",
    re.IGNORECASE,
)
OF_FORM = frozenset({
    "commands_are_continued", "script_is_bash", "batch_script_is_read", "variables_are_assigned", "letters_are_plain",
    "keys_are_indented", "variables_are_exported", "numbers_are_numbers", "fields_agree", "every_node_is_started",
})  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """What files say, and what is wrong with them."""

    files: LaunchFiles
    findings: tuple[Finding, ...]


Read = Callable[[Mapping[str, str]], Reading | None]  # None: the texts cannot be read any more
Ways = Callable[[Finding], Iterable[str]]


@dataclass(frozen=True)
class Proposal:
    """One way to put a finding right, and which findings are gone with it."""

    fix: str
    edits: tuple[Edit, ...]
    is_sure: bool = False  # nothing else can be meant: a patch may make them
    gone: frozenset[tuple[str, str]] = frozenset()


def tried(before: Reading, read: Read, ways: Ways) -> tuple[Finding, ...]:
    """The findings, each with the fix that was tried on the files, or with none where what it proposes does not hold.

    `ways` gives the fixes of a finding that may be meant, in the order in which they are tried.
    """
    lines = {name: text.split("\n") for name, text in before.files.texts.items()}
    left = min(TRIALS, max(1, CHARACTERS // max(1, sum(map(len, before.files.texts.values())))))
    held: dict[int, Proposal] = {}
    found = list(before.findings)
    for place, finding in enumerate(before.findings):
        if finding.verdict not in (Verdict.FAIL, Verdict.WARN):
            continue
        alike = [one for one in before.findings if (one.check, one.fix) == (finding.check, finding.fix)]
        proposals = _proposals(finding, alike, ways, lines)
        for proposal in proposals:
            left -= 1
            meant = replace(finding, fix=proposal.fix)
            gone = _gone(before, meant, proposal.edits, read) if left >= 0 else None
            if gone is not None:
                held[place] = replace(proposal, gone=gone)
                found[place] = replace(meant, edits=proposal.edits if proposal.is_sure else ())
                break
        else:
            is_refused = finding.edits or finding.fix in {one.fix for one in proposals}
            found[place] = replace(finding, edits=(), fix="" if is_refused else finding.fix)
    _one_fix_a_cause(found, held)
    for place in _contradicting(before, found, held, read, most=max(left, 1)):
        found[place] = replace(found[place], fix="", edits=())
    return tuple(found)


def edited(texts: Mapping[str, str], edits: Iterable[Edit]) -> dict[str, str]:
    """The texts with their edits, the last line first so that numbers stay true."""
    found = dict(texts)
    ordered = sorted(dict.fromkeys(edits), key=lambda edit: (edit.file, edit.first, edit.last), reverse=True)
    for edit in ordered:
        if edit.file in found:
            lines = found[edit.file].split("\n")
            lines[edit.first - 1 : edit.last] = edit.lines
            found[edit.file] = "\n".join(lines)
    return found


def holds(before: Reading, fixed: Iterable[Finding], after: Reading | None) -> bool:
    """Whether these findings are gone, no other has come, and the job is still whole."""
    if after is None:
        return False
    fixed = tuple(fixed)
    was, now = _counted(before), _counted(after)
    there, left = (Counter(map(_key, reading.findings)) for reading in (before, after))
    is_gone = all(left[_key(one)] <= there[_key(one)] - 1 for one in fixed)
    fewer = all(now[one.check, None] < was[one.check, None] for one in fixed)
    return is_gone and fewer and all(now[key] <= was[key] for key in now) and _is_whole(before, after, fixed)


def _proposals(
    finding: Finding, alike: Iterable[Finding], ways: Ways, lines: Mapping[str, list[str]]
) -> list[Proposal]:
    """What may be meant: whole lines first, where nothing else can be, then the words of a fix put in their place.

    That is one place, every place of the finding, or every one of those that are `alike` in the files of other nodes.
    """
    lined = with_edits(finding, lines)
    found = [Proposal(lined.fix, lined.edits, is_sure=True)] if lined.edits else []
    for fix in () if finding.edits else dict.fromkeys(ways(finding)):
        everywhere = replace(finding, where=tuple(where for one in alike for where in one.where))
        targets = ((finding, False), (finding, True), (everywhere, True))
        known = (edits_of(fix, target, lines, every=every) for target, every in targets)
        found.extend(Proposal(fix, edits) for edits in known if edits is not None)
    return list(dict.fromkeys(found))


def _gone(before: Reading, finding: Finding, edits: Sequence[Edit], read: Read) -> frozenset[tuple[str, str]] | None:
    """The findings that are gone once these edits are made; None where they do not hold."""
    after = read(edited(before.files.texts, edits))
    if after is None or not holds(before, [finding], after):
        return None
    left = {(one.check, place) for one in after.findings for place in one.where[:1]}  # with another number in it
    stays = {_key(one) for one in before.findings if one.where and (one.check, one.where[0]) in left}
    return (frozenset(map(_key, before.findings)) - stays - frozenset(map(_key, after.findings))) | {_key(finding)}


def _one_fix_a_cause(found: list[Finding], held: dict[int, Proposal]) -> None:
    """Where one change makes another finding go too, that has the same fix: the first of the two that does."""
    for place, proposal in list(held.items()):
        if held.get(place) is not proposal:
            continue
        for other, finding in enumerate(found):
            theirs = held.get(other)
            is_same = _key(finding) == _key(found[place]) or (theirs is not None and theirs.edits == proposal.edits)
            if is_same or _key(finding) not in proposal.gone:
                continue
            goes_back = theirs is not None and _key(found[place]) in theirs.gone
            if not goes_back or place < other:
                found[other] = replace(finding, fix=proposal.fix, edits=found[place].edits)
                held[other] = replace(proposal, gone=frozenset())


def _contradicting(
    before: Reading, found: Sequence[Finding], held: Mapping[int, Proposal], read: Read, *, most: int
) -> list[int]:
    """The findings whose fixes do not hold together with those of the findings before them, in `most` trials."""
    if len({proposal.edits for proposal in held.values()}) < 2:
        return []
    if _hold_together(before, found, held, list(held), read):
        return []
    kept: list[int] = []
    for place in list(held)[:most]:
        if not kept or _hold_together(before, found, held, [*kept, place], read):
            kept.append(place)
    return [place for place in held if place not in kept]


def _hold_together(
    before: Reading, found: Sequence[Finding], held: Mapping[int, Proposal], places: Sequence[int], read: Read
) -> bool:
    edits = dict.fromkeys(edit for place in places for edit in held[place].edits)
    lines = [(edit.file, line) for edit in edits for line in range(edit.first, edit.last + 1)]
    if len(lines) > len(set(lines)):
        return True  # both change one line: they are made one after the other, and tried then
    return holds(before, (found[place] for place in places), read(edited(before.files.texts, edits)))


def _is_whole(before: Reading, after: Reading, fixed: Sequence[Finding]) -> bool:
    """Whether every start is still one: with its program, and for as many ranks unless their number was wrong."""
    was, now = ([plan for plan in reading.files.plans if plan.command] for reading in (before, after))
    lacks = [plan for plan in now if plan.launcher.runs_program and plan.program is None]
    if len(now) < len(was) or any(plan.where.file in {w.file for one in fixed for w in one.where} for plan in lacks):
        return False
    is_of_counts = any(one.check.removeprefix("launch.") in OF_FORM or COUNTS.search(one.fix) for one in fixed)
    return is_of_counts or Counter(firm(p.world_size) for p in was) == Counter(firm(p.world_size) for p in now)


def _key(finding: Finding) -> tuple[str, str]:
    return finding.check, finding.message


def _counted(reading: Reading) -> Counter[tuple[str, Verdict | None]]:
    """How many findings each rule has, in all and of each verdict that is worse than a warning or says nothing."""
    judged = [one for one in reading.findings if one.verdict in (Verdict.FAIL, Verdict.WARN)]
    counts: Counter[tuple[str, Verdict | None]] = Counter((one.check, None) for one in judged)
    counts.update((one.check, one.verdict) for one in reading.findings if one.verdict in (Verdict.FAIL, Verdict.SKIP))
    return counts
