"""Do 64 ranks live for as long as they advance, and is one that stands still named? ``python -m tests.bench.many_ranks``.

Their limits are cut tenfold, and they share the cores of this machine, so it wants a machine that does nothing else. One
run of the benchmark, with 63 rounds of pairs, and one of the training: each with all ranks well, and with one that stops.
What the ranks report goes to the controller's own watch as it comes, as if eight nodes had sent it.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from typing import Any

from preflight.job.ranks.bench.settings import MIB
from preflight.job.start.outcome import Outcome, RankStory, conclude
from preflight.job.start.run import GRACE_SECONDS, LOOK_SECONDS, Watch
from preflight.launch.job import Job, Placement
from tests.job.ranks.conftest import HERE, environment, whole_scenario
from tests.job.ranks.test_limits import TENTH
from tests.scratch import of_a_program

RANKS, RANKS_PER_NODE, STOPPED_RANK = 64, 8, 37
LONGEST_SECONDS = 300.0
# Every rank sends to every other one: rank r to rank r + d in round d.
ROUNDS = [[[rank, (rank + step) % RANKS] for rank in range(RANKS)] for step in range(1, RANKS)]
# A process that stands still in the middle of its work, as one does that waits for a disk or a driver.
STOPPED_SEND = """
import os, signal
import torch.distributed as dist
send, sent = dist.batch_isend_irecv, []
def stopped(operations):
    sent.append(None)
    if len(sent) == 10:
        os.kill(os.getpid(), signal.SIGSTOP)
    return send(operations)
dist.batch_isend_irecv = stopped
"""
STOPPED_STEP = """
import os, signal
from torch.optim.optimizer import register_optimizer_step_pre_hook
steps = []
def stopped(optimizer, args, kwargs):
    steps.append(None)
    if len(steps) == 2:
        os.kill(os.getpid(), signal.SIGSTOP)
register_optimizer_step_pre_hook(stopped)
"""
PROGRAMS: dict[str, tuple[dict[str, Any], str]] = {
    "collectives": (
        {"operations": ["all_reduce", "all_gather"], "sizes": [MIB], "pairs": ROUNDS, "pair_bytes": MIB},
        STOPPED_SEND,
    ),
    "train": ({"steps": 4}, STOPPED_STEP),
}


def job_of(workload: str, settings: dict[str, Any]) -> Job:
    """The job as the controller knows it."""
    placements = tuple(
        Placement(rank, f"node{rank // RANKS_PER_NODE + 1}", rank % RANKS_PER_NODE, RANKS_PER_NODE)
        for rank in range(RANKS)
    )
    return Job(workload, settings, placements, "127.0.0.1", (), LONGEST_SECONDS)


def lines_of(listener: socket.socket, until: float) -> Iterator[tuple[int, dict[str, Any]] | None]:
    """Each record with its rank as it comes, None twice a second; ends with the last rank, or at that time."""
    with selectors.DefaultSelector() as waiting:
        waiting.register(listener, selectors.EVENT_READ)
        ranks: dict[socket.socket, int] = {}
        texts: dict[socket.socket, bytes] = {}
        gone = 0
        try:
            while gone < RANKS and time.monotonic() < until:
                for key, _ in waiting.select(LOOK_SECONDS):
                    if key.fileobj is listener:
                        connection = listener.accept()[0]
                        texts[connection] = b""
                        waiting.register(connection, selectors.EVENT_READ)
                        continue
                    connection = key.fileobj  # type: ignore[assignment]
                    piece = connection.recv(1 << 16)
                    if not piece:
                        waiting.unregister(connection)
                        gone += 1
                        continue
                    *whole, texts[connection] = (texts[connection] + piece).split(b"\n")
                    for record in map(json.loads, whole):
                        if connection not in ranks:
                            ranks[connection] = record["rank"]
                            if len(ranks) == RANKS:
                                for one in ranks:
                                    one.sendall(b"go\n")
                        else:
                            yield ranks[connection], record
                yield None
        finally:
            for connection in texts:
                connection.close()


def played(workload: str, settings: dict[str, Any], plants: dict[str, str]) -> Outcome:
    """What the controller concludes of real ranks."""
    job = job_of(workload, settings)
    watch = Watch(job, {placement.rank: RankStory(placement) for placement in job.placements})
    name, begun, ends = f"preflight-test-{uuid.uuid4().hex}", time.monotonic(), time.monotonic() + LONGEST_SECONDS
    scenario = {"ranks": RANKS, "settings": settings, "plants": plants}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen(RANKS)
        ranks = subprocess.Popen(
            [sys.executable, HERE / "forked_ranks.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # c10d's own words about ranks that are gone
            env=environment(PREFLIGHT_RECORDS=name),
            start_new_session=True,
        )
        try:
            line = json.dumps(whole_scenario(workload, scenario)) + "\n"
            ranks.stdin.write(line.encode())  # type: ignore[union-attr]
            ranks.stdin.close()  # type: ignore[union-attr]
            for told in lines_of(listener, ends):
                if ranks.poll() is not None and told is None:
                    raise SystemExit(f"{workload}: the ranks' process ended with {ranks.returncode} before they did")
                if told is not None:
                    rank, record = told
                    watch.take({"record": {"rank": rank, **record}}, job.placements[rank].node)
                else:
                    watch.look()
                if watch.trouble.is_set():  # as the controller does: the others may report, then all are ended
                    ends = min(ends, time.monotonic() + GRACE_SECONDS)
                    watch.trouble.clear()
                if time.monotonic() > ends:
                    break
        finally:
            os.killpg(ranks.pid, signal.SIGKILL)
            ranks.wait()
    for story in watch.stories.values():
        story.exit = "0" if story.is_done else "1" if story.error else "stopped"
    return conclude(job, watch.stories, watch.failures, time.monotonic() - begun)


def main() -> int:
    """A row for each; 1 where a well one failed, or another rank than the stopped one was named."""
    wrong = 0
    for name, (more, plant) in PROGRAMS.items():
        for kind, plants in (("all well", {}), ("one stopped", {str(STOPPED_RANK): plant})):
            outcome = played(name, {**more, **TENTH}, plants)
            through = sum(story.is_done for story in outcome.stories)
            named = {story.placement.rank for story in outcome.culprits}
            node = f"node{STOPPED_RANK // RANKS_PER_NODE + 1}"
            is_right = named == {STOPPED_RANK} and outcome.guilty == (node,) if plants else through == RANKS
            wrong += not is_right
            told = f", named: {outcome.failure}" if outcome.failure else ""
            print(f"{name:12} {kind:11} {through} of {RANKS} through, {outcome.seconds:.0f} s{told}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    with of_a_program():
        sys.exit(main())
