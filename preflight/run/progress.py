"""What does a waiting person see: the stages with their times, and the nodes that the present one waits for?"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from preflight.reach.hosts import fold
from preflight.report.language import ENGLISH, Language
from preflight.report.printable import printable
from preflight.said import said

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

NODES_WIDTH = 40
REFRESHES_PER_SECOND = 4.0


@dataclass
class Stage:
    """One stage, under way until `seconds` is known; `waiting` is asked at every look."""

    words: str
    waiting: Callable[[], Iterable[str]]
    begun: float
    seconds: float | None = None
    detail: str = ""


@dataclass
class Progress:
    """The stages so far. Drawn on `terminal`, which a check's captured output does not reach; nowhere without one."""

    nodes: int
    terminal: int | None = None
    language: Language = ENGLISH
    stages: list[Stage] = field(default_factory=list)
    _live: Live | None = None

    def stage(self, words: str, waiting: Callable[[], Iterable[str]] = tuple) -> None:
        """The next stage has begun, and the one before it is over."""
        self._finish()
        self.stages.append(Stage(self.language.say(words), waiting, time.monotonic()))
        if self.terminal is not None and self._live is None:
            self._live = _live(self.terminal, self.table)
            self._live.start(refresh=True)

    def say(self, text: str) -> None:
        """What the present stage is at."""
        if self.stages:
            self.stages[-1].detail = self.language.say(text)

    def end(self) -> None:
        """Nothing is under way any more: clear the screen for the summary."""
        self._finish()
        if self._live is not None:
            with contextlib.suppress(OSError):
                self._live.stop()
            self._live = None

    def lines(self) -> list[tuple[str, str, str]]:
        """Sign, words and seconds of each stage; the present one with what it is at."""
        return [
            (" " if stage.seconds is None else "✓", self._line(stage), f"{_spent(stage):.1f} s")
            for stage in self.stages
        ]

    def table(self) -> Table:
        """The lines as rich draws them: one a stage, cut at the edge of a narrow terminal, never wrapped."""
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=1)
        grid.add_column(justify="right", min_width=7, no_wrap=True)
        grid.add_column()  # the one that gives way where the terminal is narrow
        for sign, words, seconds in self.lines():
            mark: Any = Text(sign, style="green")
            if sign == " ":
                mark = self._spinner(Spinner)
            grid.add_row(mark, Text(seconds, style="dim"), Text(words, no_wrap=True, overflow="ellipsis"))
        return grid

    def _spinner(self, kind: Any) -> Any:
        spinner = kind("dots")
        spinner.start_time = 0.0  # its frame depends on the clock alone, as it is made again for every refresh
        return spinner

    def _line(self, stage: Stage) -> str:
        if stage.seconds is not None:
            return stage.words
        names = list(stage.waiting())
        parts = [stage.words]
        if names:
            folded = printable(fold(names))
            folded = folded if len(folded) <= NODES_WIDTH else f"{folded[:NODES_WIDTH]}..."
            parts.append(
                self.language.say(said("waiting for {names} of {nodes}: {folded}", len(names), self.nodes, folded))
            )
        return ", ".join([*parts, *filter(None, [printable(stage.detail)])])

    def _finish(self) -> None:
        if self.stages and self.stages[-1].seconds is None:
            self.stages[-1].seconds = time.monotonic() - self.stages[-1].begun


def on_terminal(nodes: int, language: Language = ENGLISH) -> Progress:
    """Progress, drawn where a person is watching: standard error is a terminal, and this is not CI."""
    is_watched = sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI")
    # A descriptor of its own: while a check runs, pytest holds the standard ones.
    return Progress(nodes, os.dup(sys.stderr.fileno()) if is_watched else None, language)


def _spent(stage: Stage) -> float:
    return time.monotonic() - stage.begun if stage.seconds is None else stage.seconds


def _live(terminal: int, table: Callable[[], Table]) -> Live:
    from rich.console import Console, ConsoleDimensions  # 60 ms to import: for those who look on
    from rich.live import Live

    console = Console(file=os.fdopen(terminal, "w", encoding="utf-8", errors="replace", closefd=False))

    def fitting() -> Table:
        # rich would ask the standard streams for the width, which pytest holds while a check runs.
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(terminal)
            if size.columns and size.lines:
                console.size = ConsoleDimensions(size.columns, size.lines)
        return table()

    return Live(
        get_renderable=fitting,
        console=console,
        refresh_per_second=REFRESHES_PER_SECOND,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
