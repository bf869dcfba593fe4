"""Which known cause do the last words of a failed rank show, and what fixes it? The table is that of `diagnose`."""

from __future__ import annotations

from typing import NamedTuple


class Symptom(NamedTuple):
    """What the words of a rank mean, and what to do; both empty where unknown."""

    cause: str
    fix: str


# How a rank ended -> the cause of the table.
ENDED_BY = {
    "-9": "killed-by-signal-9",
    "-15": "ended-from-outside",
    "-11": "segmentation-fault",
    "-7": "bus-error",
    "-6": "aborted",
    "-4": "illegal-instruction",
}
UNKNOWN = Symptom("", "")
SILENT = Symptom(
    "it hangs, is stopped, or was never started while the others waited for it",
    "run `ps -eo pid,stat,wchan:20,cmd` on the node (T is stopped, D hangs in the kernel), and `py-spy dump -p PID`",
)


def symptom(*, text: str, exited: str) -> Symptom:
    """The symptom in a rank's last words, or in the way it ended; SILENT where there is neither."""
    from preflight.diagnose import cause_named, cause_of  # imported here: a job that ends well has no symptoms

    cause = cause_of(text)
    if cause is None and exited in ENDED_BY:
        cause = cause_named(ENDED_BY[exited])
    if cause is not None:
        return Symptom(cause.meaning, cause.fix)
    if text or exited not in {"", "stopped", "time limit"}:
        return UNKNOWN
    return SILENT
