"""What can become of a job, and with which exit code is it told?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from preflight.diagnose.ends.stages import Reached, Stage
from preflight.said import said


class End(Enum):
    """What became of the job, as far as its logs tell."""

    ENDED_WELL = "ended well"
    FAILED = "failed"
    STOPPED = "was stopped"
    RUNNING = "still running"
    JUST_STOPS = "the log just stops"
    NOTHING = "nothing that a job prints"


class By(Enum):
    """Who stopped a job."""

    NOBODY = ""
    USER = "user"
    SCHEDULER = "scheduler"
    PREEMPTION = "preemption"
    TIME_LIMIT = "time limit"
    SOMEBODY = "somebody outside"


@dataclass(frozen=True)
class Outcome:
    """What became of the job.

    ``in_order`` tells of a job that was stopped that it had saved its state or left as it was asked to;
    ``has_recovered`` that it went on after something had failed. ``ranks`` are the last signs of life of each;
    of a job that stops, ``behind`` are those that had come less far than the others.
    """

    end: End = End.NOTHING
    by: By = By.NOBODY
    in_order: bool = False
    has_recovered: bool = False
    ranks: tuple[Reached, ...] = ()
    behind: tuple[Reached, ...] = ()
    missing: str = ""  # what is needed to tell more

    @property
    def exit_code(self) -> int:
        """0 where the job ended well, 1 where it failed or was ended, 3 where what was given does not tell."""
        if self.end is End.ENDED_WELL or (self.end is End.STOPPED and self.in_order):
            return 0
        return 1 if self.end in {End.FAILED, End.STOPPED} else 3

    @property
    def words(self) -> str:
        """One sentence."""
        if self.end is End.ENDED_WELL:
            return said(
                "the job ended well{after}", " after it had recovered from what is named below" * self.has_recovered
            )
        if self.end is End.STOPPED:
            by = said(" by its {by}", self.by.value) if self.by is By.USER else said(" ({by})", self.by.value)
            how = "; it had saved its state or left in order" if self.in_order else ""
            return said("the job was stopped{by}{how}", by, how)
        if self.end is End.RUNNING:
            after = "it recovered and went on, and " if self.has_recovered else ""
            return said(
                "no failure found: {after}the log ends while the job makes progress, without saying how it ended", after
            )
        if self.end is End.JUST_STOPS:
            return said(
                "no failure found, and no end: the log just stops in {stage}",
                max((one.stage for one in self.ranks), default=Stage.UNKNOWN).words,
            )
        if self.end is End.NOTHING:
            return "no failure found, and nothing that a job prints: this is no log of one, or not the part that tells"
        return "the job failed"
