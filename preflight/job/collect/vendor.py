"""What do the vendors' own tests of GPUs find on every node, where somebody asked for them?"""

from __future__ import annotations

import asyncio
from typing import Any

from preflight.facts.cluster import Cluster
from preflight.facts.decode import Answer
from preflight.facts.node import NodeFacts
from preflight.facts.value import Missing
from preflight.job.options.options import Options
from preflight.reach.session.connection import Session
from preflight.said.errors import FactMissing, HostError

ENDING_SECONDS = 10.0  # for a test that did not end in time
BUSY = Missing("other programs use its GPUs, and a test would be slow or end them (--force runs it all the same)")


async def collect(sessions: dict[str, Session], cluster: Cluster, options: Options) -> dict[str, Answer]:
    """The subject vendor of every node; nothing where no test was asked for."""
    if not options.tests_of_vendors:
        return {}
    tests = [[name, level, seconds] for name, level, seconds in options.tests_of_vendors]
    arguments = {"tests": tests, "environment": [list(layer) for layer in options.layers], "scratch": True}
    seconds = options.seconds_of_vendors + ENDING_SECONDS

    async def ask(node: NodeFacts) -> tuple[str, Answer]:
        if is_in_use(node) and not options.force:
            return node.name, ({}, {"vendor": BUSY})
        try:
            call = await sessions[node.name].start("vendor", arguments, seconds=seconds)
            return node.name, ({"vendor": await call.end(dict[str, Any])}, {})
        except HostError as error:
            return node.name, ({}, {"vendor": Missing(error.reason)})

    return dict(await asyncio.gather(*(ask(node) for node in cluster if node.name in sessions)))


def is_in_use(node: NodeFacts) -> bool:
    """Whether a program computes on a GPU of the node."""
    try:
        return any(gpu.is_busy() or gpu.is_filled() for gpu in node.gpu.readable())
    except FactMissing:
        return False
