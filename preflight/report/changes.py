"""What has changed since an earlier run: findings, facts and bandwidth; as the report holds it, and in lines?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from preflight.judge.ledger.findings import Verdict
from preflight.reach.hosts import fold
from preflight.report.language import ENGLISH, Language
from preflight.report.language.wrap import width_of
from preflight.report.printable import printable
from preflight.said import joined, said

NODES_WIDTH = 60
MESSAGE_WIDTH = 200


class FindingChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Cells (check x node) that went the same way; `verdict` is None where the later run did not judge them."""

    checks: tuple[str, ...]
    nodes: tuple[str, ...]
    before: Verdict | None
    verdict: Verdict | None
    message: str  # the later run's, or the earlier one's where it no longer speaks of it
    blocked_by: str = ""  # the check that stands behind it, where it is only a consequence


class FactChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One fact that has another value on some nodes."""

    fact: str
    nodes: tuple[str, ...]
    before: str
    now: str


class Drift(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bus bandwidth of one collective at one size, then and now, each with the 95 % interval of its median."""

    op: str
    bytes: int
    dtype: str
    mode: str
    in_place: bool
    before_gbytes_per_s: float
    before_low_gbytes_per_s: float
    before_high_gbytes_per_s: float
    now_gbytes_per_s: float
    now_low_gbytes_per_s: float
    now_high_gbytes_per_s: float

    @property
    def trend(self) -> str:
        """Slower or faster only where the two intervals do not meet."""
        if self.now_high_gbytes_per_s < self.before_low_gbytes_per_s:
            return "slower"
        return "faster" if self.now_low_gbytes_per_s > self.before_high_gbytes_per_s else "within the noise"


class Changes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run beside an earlier one. A finding is fixed only where the later run measured that it holds."""

    run: str  # of the earlier run: its id, when it started, its verdict
    started: str
    verdict: Verdict
    new: tuple[FindingChange, ...] = ()
    fixed: tuple[FindingChange, ...] = ()
    standing: tuple[FindingChange, ...] = ()
    not_judged: tuple[FindingChange, ...] = ()
    facts: tuple[FactChange, ...] = ()
    bandwidth: tuple[Drift, ...] = ()
    nodes_added: tuple[str, ...] = ()
    nodes_removed: tuple[str, ...] = ()

    @property
    def findings(self) -> dict[str, tuple[FindingChange, ...]]:
        """The four kinds by the words people read."""
        return {"new": self.new, "fixed": self.fixed, "standing": self.standing, "not judged now": self.not_judged}


def heading(changes: Changes, name_of: Callable[[str], str] = str) -> str:
    """The earlier run, and how much of each kind there is; `name_of` gives the name of a verdict."""
    counts = [
        said(f"{{count}} {word}", sum(len(change.checks) for change in found))
        for word, found in changes.findings.items()
        if found
    ]
    counts += (
        [said("{facts} fact{s} changed", len(changes.facts), "s" * (len(changes.facts) != 1))] if changes.facts else []
    )
    moved = [drift for drift in changes.bandwidth if drift.trend != "within the noise"]
    counts += [said("bandwidth {trend}", moved[0].trend)] if moved else []
    verdict = name_of(str(changes.verdict))
    return said(
        "since run {run} ({verdict}): {counts}",
        printable(changes.run),
        verdict,
        joined(counts, ", ") or "nothing has changed",
    )


def change_lines(changes: Changes, *, most: int, language: Language = ENGLISH) -> Iterator[str]:
    """One line a change, at most so many of each kind; the rest is counted."""

    def lines(word: str, texts: Iterable[str], count: int) -> Iterator[str]:
        label = language.say(word)
        label += " " * max(10 - width_of(label), 1)
        for place, text in enumerate(texts):
            if place == most:
                yield f"{'':10}{language.say(said('and {count} more: see report.json', count - most))}"
                return
            yield f"{label}{text}"

    for word, found in changes.findings.items():
        yield from lines(word, (change_text(change, language) for change in found), len(found))
    yield from lines("fact", (_fact(change, language) for change in changes.facts), len(changes.facts))
    yield from lines("busbw", (language.say(drift_text(drift)) for drift in changes.bandwidth), len(changes.bandwidth))
    for word, names in (("added", changes.nodes_added), ("removed", changes.nodes_removed)):
        if names:
            yield from lines("nodes", [f"{language.say(word)}: {printable(fold(names))}"], 1)


def change_text(change: FindingChange, language: Language = ENGLISH) -> str:
    """``was pass, now fail: check on nodes: message``."""
    before, now = (language.verdict(str(verdict or "not judged")) for verdict in (change.before, change.verdict))
    turn = f"{now}" if before == now else f"{before} -> {now}"
    checks = printable(change.checks[0]) if len(change.checks) == 1 else said("{checks} checks", len(change.checks))
    message = language.say(printable(change.message))
    message = message if len(message) <= MESSAGE_WIDTH else f"{message[:MESSAGE_WIDTH]}..."
    if language == ENGLISH:
        return said("{turn}  {checks} on {nodes}: {message}", turn, checks, _nodes(change.nodes), message)
    # Each part by itself: a sentence that holds them all could be another one.
    return f"{turn}  {language.say(checks)}，{language.say(_nodes(change.nodes))}：{message}"


def drift_text(drift: Drift) -> str:
    """Then and now with their intervals, and whether that is more than noise."""
    share = drift.now_gbytes_per_s / drift.before_gbytes_per_s - 1 if drift.before_gbytes_per_s else 0.0
    then = said(
        "{before_gbytes_per_s:.4g} ({before_low_gbytes_per_s:.4g} to {before_high_gbytes_per_s:.4g})",
        drift.before_gbytes_per_s,
        drift.before_low_gbytes_per_s,
        drift.before_high_gbytes_per_s,
    )
    now = said(
        "{now_gbytes_per_s:.4g} ({now_low_gbytes_per_s:.4g} to {now_high_gbytes_per_s:.4g}) GB/s",
        drift.now_gbytes_per_s,
        drift.now_low_gbytes_per_s,
        drift.now_high_gbytes_per_s,
    )
    return said(
        "{op} of {bytes} bytes: {then} -> {now}, {share:+.1%}, {trend}",
        printable(drift.op),
        drift.bytes,
        then,
        now,
        share,
        drift.trend,
    )


def _fact(change: FactChange, language: Language) -> str:
    title = language.say(printable(change.fact))
    turn = f"{printable(change.before)} -> {printable(change.now)}"
    return f"{language.say(said('{title} on {nodes}', title, _nodes(change.nodes)))}: {turn}"


def _nodes(names: tuple[str, ...]) -> str:
    folded = printable(fold(names))
    return folded if len(folded) <= NODES_WIDTH else f"{folded[: NODES_WIDTH - 20]}... ({len(names)} nodes)"
