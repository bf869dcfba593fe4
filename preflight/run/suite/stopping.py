"""What does a signal do to a run: interrupt it, be remembered, or come too late because the report stands?

Exit code and report must say the same at every moment. So a signal interrupts only what pytest can be interrupted in;
while the run is ended it is noted, and told by the report; and once report.json is replaced by its last version, the
process leaves with the code that stands in it.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from preflight.judge.ledger.findings import EXIT_NOT_MEASURED
from preflight.run.suite.leaving import LEAVE
from preflight.said.errors import Interrupted

INTERRUPT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)


class Stopping:
    """The signals of one run. ``number`` is the one that stopped it, 0 while there is none."""

    def __init__(self) -> None:
        self.number = 0
        self.code: int | None = None  # what the report on the disk says, once it is the last one
        self._is_interruptible = False
        self._is_settled = False
        self._handlers: dict[int, Any] = {}

    def install(self, seconds: float) -> None:
        """Catch the signals, and set the alarm of the deadline where there is one.

        What is ignored stays so, as nohup and the background of a shell want it.
        """
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGALRM:
                self._handlers[number] = signal.signal(number, self._on_signal)
        signal.setitimer(signal.ITIMER_REAL, seconds)

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Within this block, which pytest ends well from, a signal raises Interrupted."""
        self._is_interruptible = True
        try:
            if self.number:
                raise Interrupted(self.number)  # it came before the block
            yield
        finally:
            self._is_interruptible = False

    def settle(self) -> None:
        """From here on the report is written: what came before counts, what comes later does not."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._is_settled = True

    def written(self, code: int) -> None:
        """The report on the disk says this, and will not change."""
        self.code = code

    def restore(self) -> None:
        """Give the signals back to whoever runs pytest within a program of its own."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: object) -> None:
        if self.code is not None:
            LEAVE(self.code)
        if number == signal.SIGALRM and self._is_settled:
            return
        if self.number and self.number != signal.SIGALRM:
            LEAVE(INTERRUPT_CODES.get(signal.Signals(number), EXIT_NOT_MEASURED))  # the second one: at once
        if not self._is_settled:
            self.number = number
        if self._is_interruptible:
            self._is_interruptible = False
            raise Interrupted(number)


def is_whole_program(command: tuple[str, ...]) -> bool:
    """Whether the process is this run and nothing more, so that the signals may stay ours until it has ended."""
    name = Path(sys.argv[0])
    is_ours = "preflight" in (name.name, name.parent.name) if command[0] == "preflight" else True
    return is_ours and tuple(sys.argv[1:]) == tuple(command[1:])
