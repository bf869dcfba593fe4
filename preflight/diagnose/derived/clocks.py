"""By how much do the clocks of a job's logs differ, as the steps that all of its ranks make at once show it?"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping

from preflight.diagnose.pace import NUMBER, Mark
from preflight.diagnose.prefix import line_of

FEWEST = 3  # steps that two logs must share
STEADY = 60.0  # seconds by which the differences may differ: else the steps are not made together


def offsets(recent: Mapping[str, Iterable[Mark]]) -> dict[str, float]:
    """The seconds by which the clock of each file is ahead of the first one's, where they share steps."""
    steps = {file: times for file, marks in recent.items() if (times := _times(file, marks))}
    found: dict[str, float] = {}
    for file, times in steps.items():
        if not found:
            found[file] = 0.0
            reference = times
            continue
        common = [times[step] - reference[step] for step in times.keys() & reference.keys()]
        if len(common) >= FEWEST and max(common) - min(common) <= STEADY:
            found[file] = statistics.median(common)
    return found


def _times(file: str, marks: Iterable[Mark]) -> dict[int, float]:
    """When a file tells of each step first."""
    times: dict[int, float] = {}
    for _, raw in marks:
        line = line_of(raw[:1024].decode("utf-8", "backslashreplace"), file=file)
        step = NUMBER.search(line.text)
        if step and line.seconds >= 0:
            times.setdefault(int(step[1]), line.seconds)
    return times
