"""What has moved on every node while the jobs ran?"""

from __future__ import annotations

import asyncio
from typing import Any

from preflight.facts.decode import Answer
from preflight.facts.value import Missing
from preflight.job.collect.subjects import Layers
from preflight.reach.session.connection import Session
from preflight.said.errors import HostError

SECONDS = 15.0


async def collect(sessions: dict[str, Session], layers: Layers) -> dict[str, Answer]:
    """The subject ending of every node: its facts, or why they are missing."""

    async def ask(name: str) -> tuple[str, Answer]:
        try:
            call = await sessions[name].start("ending", arguments, seconds=SECONDS)
            facts = await call.first("facts", dict[str, Any])
            offset, uncertainty = await sessions[name].look_at_clock()
            return name, ({"ending": {**facts, "offset_seconds": offset, "uncertainty_seconds": uncertainty}}, {})
        except HostError as error:
            return name, ({}, {"ending": Missing(error.reason)})

    arguments = {"environment": [list(layer) for layer in layers], "sysfs": "/sys", "proc": "/proc"}
    return dict(await asyncio.gather(*(ask(name) for name in sessions)))
