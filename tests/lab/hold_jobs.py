"""What holds a job on lab hosts until somebody ends it? ``python -m tests.lab.hold_jobs HOSTS``, in its controller.

On every host it starts a rank that is as hard to end as one can be: it ignores the signals that ask, listens on a port,
holds a file in its folder for temporary files, and has a child, and a daemon in a session of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from datetime import datetime, timezone

from preflight.reach.hosts import parse_hosts
from preflight.reach.session.connection import Session
from preflight.reach.session.fleet import Fleet
from preflight.reach.transport import Reach
from preflight.said.errors import HostError

PORT = 7077
SECONDS = 150.0
MARK = "held-by-the-lab"
STUBBORN = f"""
import os, signal, socket, tempfile, time  # {MARK}
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", {PORT}))
held = tempfile.NamedTemporaryFile()
if os.fork() and not os.fork():
    os.setsid()
    if os.fork():
        os._exit(0)
listener.listen()
time.sleep({SECONDS})
"""
ARGUMENTS = {
    "processes": [{"name": "rank0", "argv": ["{python}", "-I", "-S", "-c", STUBBORN], "environment": {}}],
    "environment": [],
    "drop": [],
    "seconds": SECONDS,
    "scratch": True,
}


async def hold(session: Session) -> None:
    """The job on one node, until it ends."""
    with contextlib.suppress(HostError):
        call = await session.start("ranks", ARGUMENTS, seconds=SECONDS)
        async for _ in call.events():
            continue
    await asyncio.sleep(0)


def main(hosts: str) -> None:
    """Hold it on every host until all have ended."""
    run_id = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S-") + f"{time.monotonic_ns():x}"
    fleet = Fleet(parse_hosts(hosts), Reach(python=sys.executable), run_id=run_id, deadline=time.monotonic() + SECONDS)
    try:
        fleet.run(fleet.open(hold, seconds=SECONDS), seconds=SECONDS + 5)
    finally:
        fleet.close()


if __name__ == "__main__":
    main(sys.argv[1])
