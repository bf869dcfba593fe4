"""Which nodes can log in to which, where the launch needs it?"""

from __future__ import annotations

import asyncio
from typing import Any

from preflight.errors import HostError
from preflight.facts.decode import Answer
from preflight.facts.value import Missing
from preflight.hosts import Host
from preflight.options.options import Options
from preflight.said import said
from preflight.session.connection import Session

SECONDS = 40.0
EVERY_PAIR_UP_TO = 32  # nodes; beyond it the first one alone logs in to all, as a launcher would
NOT_ASKED = Missing("not asked for (--ssh-trust)", "absent")


async def collect(sessions: dict[str, Session], hosts: dict[str, Host], options: Options) -> dict[str, Answer]:
    """The subject trust of every node."""
    names = list(sessions)
    if not options.needs_trust or len(names) < 2:
        return {name: ({}, {"trust": NOT_ASKED}) for name in names}
    python = options.python or "python3"

    async def ask(name: str) -> tuple[str, Answer]:
        if len(names) > EVERY_PAIR_UP_TO and name != names[0]:
            return name, (
                {},
                {"trust": Missing(said("with this many nodes only {names} logs in to all", names[0]), "absent")},
            )
        peers = [hosts[peer].address for peer in names if peer != name]
        try:
            call = await sessions[name].start(
                "trust", {"peers": peers, "python": python, "seconds": SECONDS - 5.0}, seconds=SECONDS
            )
            return name, ({"trust": await call.end(dict[str, Any])}, {})
        except HostError as error:
            return name, ({}, {"trust": Missing(error.reason)})

    return dict(await asyncio.gather(*(ask(name) for name in names)))
