"""What does it mean that a check's body raised: which verdict, which words, which fix?"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from preflight.judge.check import Check
from preflight.judge.ledger.findings import Finding, Verdict
from preflight.judge.unreached import Loss, by_rack, without_name
from preflight.said import heard, joined, said, values_in
from preflight.said.errors import (
    Blame,
    BlameMany,
    BlockedBy,
    FactMissing,
    HostError,
    NotApplicable,
    NotMeasured,
    PreflightError,
)


class Outcome(NamedTuple):
    """What one evaluation of a check's body means; equal outcomes of several nodes are one finding."""

    verdict: Verdict
    message: str
    fix: str = ""
    blocked_by: str = ""

    def finding(self, check: Check, names: Iterable[str]) -> Finding:
        """The finding of the nodes that share it."""
        return Finding(check.id, self.verdict, tuple(names), self.message, self.fix, blocked_by=self.blocked_by)


def evaluate(check: Check, arguments: Mapping[str, Any]) -> None:
    """Call a check's body; the message of an assertion in it is the sentence that its author made.

    pytest rewrites an assertion with a message to one whose message is plain text, followed by the values.
    """
    with heard() as sentences:
        try:
            check.function(**arguments)
        except AssertionError as error:
            if not isinstance(error, PreflightError):
                text = _authors_words(error)
                error.args = (next((sentence for sentence in reversed(sentences) if sentence == text), text),)
            raise


def outcome_of(error: Exception, check: Check) -> Outcome:
    """What an exception of a check's body means; a missing fact has `outcome_of_missing`."""
    if isinstance(error, (Blame, BlameMany)):
        blames = blames_of(error)
        verdict = check.broken(is_advisory=all(blame.is_advisory for blame in blames))
        return Outcome(verdict, joined(blame.message for blame in blames), blames[0].fix or check.fix)
    if isinstance(error, NotApplicable):
        return Outcome(Verdict.SKIP, str(error))
    if isinstance(error, (NotMeasured, HostError)):
        return Outcome(Verdict.ERROR, said("not measured: {error}", error))
    if isinstance(error, AssertionError):
        return Outcome(check.broken(), error.args[0] if error.args else str(error), check.fix)
    return Outcome(
        Verdict.ERROR,
        said("the check itself broke: {name}: {error} ({place})", type(error).__name__, error, _place(error)),
    )


def outcome_of_missing(missing: FactMissing, check: Check, *, require_all: bool) -> Outcome:
    """What it means that a fact is missing; `require_all` is for those that preflight is not permitted to read."""
    if missing.kind == "denied" and check.needs and not require_all:
        return Outcome(Verdict.SKIP, said("not permitted: {missing}", missing))
    if isinstance(missing, BlockedBy):
        return Outcome(Verdict.ERROR, str(missing), blocked_by=missing.check)
    return Outcome(Verdict.ERROR, said("not measured: {missing}", missing))


def blames_of(error: Blame | BlameMany) -> tuple[Blame, ...]:
    """Each blame that was raised, in order."""
    return error.blames if isinstance(error, BlameMany) else (error,)


def by_reason(reasons: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Reason -> the nodes that have it."""
    found: dict[str, tuple[str, ...]] = {}
    for name, why in reasons.items():
        found[why] = (*found.get(why, ()), name)
    return found


def text_of_pass(check: Check, untold: Iterable[str]) -> str:
    """What a check says of nodes that pass it: what holds, and what of it nobody could tell."""
    left_out = ", ".join(dict.fromkeys(untold))
    return said("{title} Not reported by any node: {left_out}.", check.title, left_out) if left_out else check.title


def alike(outcomes: dict[Outcome, list[str]], racks: Mapping[str, str]) -> dict[Outcome, list[str]]:
    """One finding for all nodes that were lost for one reason: a rack that dies in mid-run is named once."""
    reasons = {
        outcome: outcome._replace(message=without_name(outcome.message, names[0]))
        for outcome, names in outcomes.items()
        if outcome.verdict is Verdict.ERROR and len(names) == 1
    }
    shared = Counter(reasons.values())
    made: dict[Outcome, list[str]] = {}
    for outcome, names in outcomes.items():
        reason = reasons.get(outcome, outcome)
        made.setdefault(reason if shared[reason] > 1 else outcome, []).extend(names)
    return {
        outcome._replace(message=part.message_of_its_end): list(part.nodes)
        for outcome, names in made.items()
        for part in (
            by_rack(names, outcome.message, racks)
            if "mid-run" in values_in(outcome.message, "loss")
            else [Loss(tuple(names), outcome.message)]
        )
    }


def _authors_words(error: AssertionError) -> str:
    """The message of an assert as its author wrote it: pytest adds its own explanation after a newline.

    Without a message it is the assertion and its values. The rest of pytest's explanation prints whole objects, which
    differ from node to node, so that equal outcomes would not be folded.
    """
    text = str(error).split("\nassert", 1)[0].strip()
    if text.startswith("assert "):
        values = text.partition("\n")[0].removeprefix("assert ")
        frames = traceback.extract_tb(error.__traceback__)
        line = (frames[-1].line or "") if frames else ""
        return f"{line}: {values}" if line.startswith("assert ") else said("assert {values}", values)
    return text or "an assertion without a message does not hold"


def _place(error: Exception) -> str:
    # The line that asked for a fact, not the one that says that there is none.
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.name != "__getattr__"]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "no line"
