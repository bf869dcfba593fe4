"""Is the drill told of the rank that dies, and are its losses set beside those from the checkpoint on?"""

from __future__ import annotations

import asyncio

from preflight.job.measure.drill import run_drill
from preflight.launch.job import Job, Placement
from preflight.reach.session import replies


class Call:
    """A call that gives its events and ends."""

    def __init__(self, events):
        self._events = events
        self.result = {"port": 29511}

    async def events(self):
        """All of them at once."""
        for event in self._events:
            yield event

    async def end(self, kind):
        """The result."""
        return replies.read("node1", kind, self.result, "result")

    async def send(self, message):
        """Nothing is listening any more."""


class Session:
    """Keeps the arguments of each job; the first job dies, the second goes on from the checkpoint."""

    def __init__(self):
        self.jobs = []

    async def start(self, name, arguments, **_options):
        """A port, then one job after another."""
        if name == "free_port":
            return Call([])
        self.jobs.append(arguments)
        if len(self.jobs) == 1:
            return Call([{"name": "rank0", "exit": "-9", "log": ""}])
        losses = {"record": "losses", "rank": 0, "losses": [3.0, 2.0], "tokens_per_s": 1.0, "begin": 2}
        return Call([{"record": losses}, {"record": {"record": "done", "rank": 0}}])


def test_a_rank_is_killed_twice_and_comes_back_once():
    """First without restarts, then under torchrun; the wanted losses are those after the checkpoint."""
    session = Session()
    settings = {"steps": 12, "backend": "gloo", "strategy": "fsdp", "join_seconds": 30, "checkpoint_dir": "/shared"}
    job = Job("train", settings, (Placement(0, "node1", 0, 1),), "10.0.0.1", (), 60.0)
    drill, outcomes = asyncio.run(run_drill({"node1": session}, job, wanted_losses=(5.0, 4.0, 3.0, 2.0)))

    assert (drill.rank, drill.node, drill.named) == (0, "node1", ("node1",))
    assert (drill.restarted_losses, drill.wanted_losses, drill.not_restarted) == ((3.0, 2.0), (3.0, 2.0), "")
    assert set(outcomes) == {"drill", "restart"}
    first, second = (arguments["processes"][0] for arguments in session.jobs)
    assert '"dying_rank": 0' in first["environment"]["PREFLIGHT_SETTINGS"]
    assert '"checkpoint_dir": ""' in first["environment"]["PREFLIGHT_SETTINGS"]
    assert first["argv"] == ["{python}", "{script}"]
    assert "--max-restarts=1" in second["argv"]
