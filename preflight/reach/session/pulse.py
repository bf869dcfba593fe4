"""Did this machine itself stand still: stopped, asleep, or without a processor for us?

A node ends all it does when it has heard nothing for a while. After such a pause that is no fault of the node's.
"""

from __future__ import annotations

import asyncio
import time

from preflight.said import said
from preflight.said.errors import HostError, StoodStill

PULSE_SECONDS = 0.5
# Reports of a pause arrive for this long after it: ssh itself waits 15 s before it gives a connection up.
ECHO_SECONDS = 20.0


def _now() -> float:
    """A clock that keeps running while the machine is asleep, where the system has one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Pulse:
    """Beats on the sessions' loop; what comes much later than it should says for how long we stood still."""

    def __init__(self, most_seconds: float) -> None:
        self.most_seconds = most_seconds  # of silence that nodes tolerate
        self._before: float | None = None
        self._ended = float("-inf")
        self._seconds = 0.0

    async def beat(self) -> None:
        """Beat until cancelled."""
        self._before = _now()
        while True:
            await asyncio.sleep(PULSE_SECONDS)
            self._look()

    def blamed_on_us(self, error: HostError) -> HostError:
        """The error of a session; StoodStill where a pause of ours caused it."""
        self._look()  # what a node said meanwhile may be read before the next beat
        if _now() - self._ended > ECHO_SECONDS or type(error) is not HostError:
            return error
        return StoodStill(
            error.host,
            said(
                "the machine that preflight runs on stood still for {seconds:.0f} s (stopped, asleep or "
                "short of CPU), and the node had given up on the run: run again ({reason})",
                self._seconds,
                error.reason,
            ),
        )

    def _look(self) -> None:
        if self._before is not None:
            before, self._before = self._before, _now()
            if self._before - before - PULSE_SECONDS > self.most_seconds:
                self._ended, self._seconds = self._before, self._before - before
