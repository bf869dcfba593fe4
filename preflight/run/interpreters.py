"""Which Python of a node has torch, where the one named for the job is absent?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from preflight.job.collect.subjects import facts_of
from preflight.reach.host import Host
from preflight.reach.session.connection import Session, own_line
from preflight.reach.transport import Reach
from preflight.said import knowing, said, values_in
from preflight.said.errors import HostError

ASK_SECONDS = 15.0
MOST_SECONDS = 2 * ASK_SECONDS
MOST_ASKED = 16  # nodes: more of them are alike


async def explained(hosts: Iterable[Host], failures: Mapping[str, str], reach: Reach, *, run_id: str) -> dict[str, str]:
    """The failures, those of nodes whose named Python cannot be started with one of that node that has torch.

    The node's own python3 is asked for it, over a connection that ends with the answer.
    """
    named = [host for host in hosts if host.python or reach.python]
    lacking = [host for host in named if _has_no_such_python(failures.get(host.name, ""))][:MOST_ASKED]
    answers = await asyncio.gather(*(_with_torch(host, reach, run_id) for host in lacking))
    reported = dict(failures)
    for host, found in zip(lacking, answers, strict=True):
        if found:
            words = said("{reason} (there {found} has torch {found2})", reported[host.name], found[0], found[1])
            given_by = "hostfile" if host.python else "option"
            reported[host.name] = knowing(words, python=found[0], python_of=given_by)
    return reported


def _has_no_such_python(reason: str) -> bool:
    """Whether a session found that the program which was named is not there."""
    return "no such python" in values_in(reason, "loss")


async def _with_torch(host: Host, reach: Reach, run_id: str) -> tuple[str, str] | None:
    """An interpreter of the node and the version of its torch; None where nobody can say."""
    plain = replace(host, python=None)
    until = time.monotonic() + ASK_SECONDS
    try:
        line = await own_line(plain, replace(reach, python=None))
        session = Session(plain, line, run_id=f"{run_id}-python", deadline=until)
        await session.open(seconds=ASK_SECONDS)
        try:
            reported = (await facts_of(session, 0, [], {}, until=until)).subjects.get("software", {})
        finally:
            await session.close()
    except HostError:
        return None
    elsewhere = reported.get("torch_elsewhere", {})
    if isinstance(reported.get("torch"), str):
        return str(reported["executable"]), str(reported["torch"])
    return next(((str(path), str(version)) for path, version in elsewhere.items()), None)
