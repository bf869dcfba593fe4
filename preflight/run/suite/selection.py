"""Which of the checks that were collected does a run leave out, and in which order do the others run?"""

from __future__ import annotations

from collections.abc import Mapping

from preflight.job.options.options import Options
from preflight.judge.check import Check
from preflight.judge.ledger.gates import GATES, is_gate
from preflight.run.source import Source
from preflight.run.stored import StoredRun
from preflight.run.suite.judge import REACH_CHECK
from preflight.said import said

JOB_ORDER = {"mesh": 1, "bench": 2, "training": 3, "rehearsal": 4, "ending": 5}
QUICK_KINDS = {"node", "cluster", "mesh", "rehearsal", "ending"}
VERB_OF = {
    "bench": "bench",
    "training": "train",
    "rehearse": "rehearse",
}  # the subject that only this verb has -> the verb


def why_left_out(check: Check, checks: Mapping[str, Check], options: Options, source: Source) -> str:
    """Why a run with these options leaves out one of its checks; "" for a check that it runs."""
    subjects = options.subjects
    if options.only is not None and not _is_asked_again(check, checks, options.only):
        return "green in the last run"
    if subjects and check.id.split(".")[0] not in subjects:
        verbs = [verb for subject, verb in VERB_OF.items() if subject in subjects]
        return said("verb {verbs}", verbs[0]) if verbs else said("only {subjects}", ", ".join(subjects))
    if isinstance(source, StoredRun) and not subjects:
        reason = source.why_not_asked(check.id, check.kind)
        if reason:
            return reason
    return "profile quick" if options.profile == "quick" and check.kind not in QUICK_KINDS else ""


def _is_asked_again(check: Check, checks: Mapping[str, Check], red: frozenset[str]) -> bool:
    """Whether --last-failed asks for it: it was not green, or a job that is started again waits for it."""
    jobs = {checks[name].kind for name in red if name in checks} & {*GATES}
    return check.id in red or check.id == REACH_CHECK or any(is_gate(job, check.id) for job in jobs)


def place(check: Check) -> tuple[int, bool]:
    """What checks are sorted by: what they wait for, and the check of who answers before all others."""
    return JOB_ORDER.get(check.kind, 0), check.id != REACH_CHECK
