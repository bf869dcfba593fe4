"""What do dumps of py-spy that were saved while a job hung tell of its ranks?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath

from preflight.diagnose.hanging.live import Process
from preflight.diagnose.hanging.stuck import Stuck, compare

ELSEWHERE = "stands-elsewhere"  # the cause: no single line tells of it
START = b"Process "
BEGIN = re.compile(r"Process (?P<pid>\d{1,9}): (?P<command>\S.*)")
THREAD = re.compile(r'Thread (?:0x)?\w+ \((?P<state>active|idle)[^)]*\)(?:: "(?P<name>[^"]*)")?')
FRAME = re.compile(r"    (?P<frame>\S+ \(.+:\d+\))$")
RANK = re.compile(r"(?:--?(?:node_?|local_?)?rank[= ]|\brank[=_-]?)(?P<rank>\d{1,6})\b", re.IGNORECASE)
MAIN = ("MainThread", None)
# Processes of a job that are no ranks: workers of data loaders, and what starts ranks and waits for them.
HELPERS = ("_worker_loop ", "launch_agent ", "resource_tracker", "_compile_worker", "forkserver")
MOST_PROCESSES = 4096
MOST_FRAMES = 64


@dataclass
class Dumps:
    """The processes of all dumps so far, by the file that each stands in."""

    found: dict[str, dict[int, Process]] = field(default_factory=dict)

    def watched(self, name: str, lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """The lines as they are; from each dump among them its process is kept, at the last look at it."""
        begun: re.Match[str] | None = None
        frames: list[str] = []
        state, is_main = "S", False
        for number, line in lines:
            yield number, line
            if begun is None and not line.startswith(START):
                continue
            text = line.decode(errors="replace").rstrip()
            start = BEGIN.fullmatch(text)
            if start is not None:
                self._keep(name, begun, frames, state)
                begun, frames, state, is_main = start, [], "S", False
            elif begun is not None:
                thread, frame = THREAD.match(text), FRAME.match(text)
                if thread is not None:
                    is_main = thread["name"] in MAIN and not frames
                    state = ("R" if thread["state"] == "active" else "S") if is_main else state
                elif frame is not None and is_main and len(frames) < MOST_FRAMES:
                    frames.append(frame["frame"])
        self._keep(name, begun, frames, state)

    def _keep(self, name: str, begun: re.Match[str] | None, frames: list[str], state: str) -> None:
        of_file = self.found.setdefault(PurePath(name).name, {}) if begun is not None and frames else {}
        if begun is None or not frames or len(of_file) >= MOST_PROCESSES:
            return
        if any(word in frame for frame in frames for word in HELPERS):
            return
        ranked = RANK.search(begun["command"]) or RANK.search(PurePath(name).name)
        of_file[int(begun["pid"])] = Process(
            pid=int(begun["pid"]),
            state=state,
            threads=1,
            command=begun["command"],
            rank=int(ranked["rank"]) if ranked else -1,
            local_rank=-1,
            world_size=-1,
            cpu=0.0,
            wchan="",
            kernel_stack=(),
            frames=tuple(frames),
            sockets=(),
            gpu_memory_mib=0,
        )

    def compared(self) -> Stuck | None:
        """Who stands elsewhere than the others; None for less than two ranks."""
        processes = {file: tuple(of_file.values()) for file, of_file in self.found.items()}
        return compare(processes) if sum(map(len, processes.values())) > 1 else None
