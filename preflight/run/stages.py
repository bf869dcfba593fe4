"""How long may each stage of a run take, and how long did it?"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from preflight.said import said
from preflight.said.errors import NotMeasured, PreflightError

T = TypeVar("T")
CLOSING_SECONDS = 8.0  # reserved for ending the nodes and writing the report; a fifth of a short deadline
FURTHER_SHARE = 0.5  # of the time that is left: a node that answers nothing costs the others no more


@dataclass
class Stages:
    """The time of one run, and the stages that it was spent on: `seconds_of` holds those that are over."""

    limit_seconds: float
    begun: float = field(default_factory=time.monotonic)
    seconds_of: dict[str, float] = field(default_factory=dict)
    _broken: dict[str, str] = field(default_factory=dict)

    @property
    def deadline(self) -> float:
        """When the run must be over, on the monotonic clock."""
        return self.begun + self.limit_seconds

    @property
    def seconds(self) -> float:
        """How long the run has taken so far."""
        return time.monotonic() - self.begun

    def left(self, wanted: float) -> float:
        """What a stage may take of the seconds that it wants. NotMeasured where the deadline leaves none."""
        left = self.deadline - time.monotonic() - min(CLOSING_SECONDS, self.limit_seconds / 5)
        if left < 1.0:
            raise NotMeasured(said("the deadline of {limit_seconds:g} s was reached", self.limit_seconds))
        return min(wanted, left)

    def share(self, wanted: float) -> float:
        """The same for further facts, which leave measurements their part of it."""
        return min(wanted, max(1.0, FURTHER_SHARE * self.left(self.limit_seconds)))

    def timed(self, stage: str, work: Callable[[], T]) -> T:
        """Run a stage once: a stage that failed is not started again, and gives every later check the same reason."""
        if stage in self._broken:
            raise NotMeasured(self._broken[stage])
        begun = time.monotonic()
        try:
            return work()
        except PreflightError as error:
            self._broken[stage] = str(error)
            raise NotMeasured(str(error)) from None
        except Exception as error:
            self._broken[stage] = of_ours(error)
            raise NotMeasured(self._broken[stage]) from error
        finally:
            self.seconds_of[stage] = round(time.monotonic() - begun, 3)


def of_ours(error: Exception) -> str:
    """A fault of preflight itself, with the place for whoever mends it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    return said(
        "a fault of preflight itself: {kind} at {place}: {error}", type(error).__name__, place, str(error)[:200]
    )
