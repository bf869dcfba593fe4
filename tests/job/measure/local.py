"""How do several nodes answer on one machine? One real session, under several names."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from preflight.reach.hosts import parse_hosts
from preflight.reach.session.connection import Session
from preflight.reach.session.fleet import Fleet
from preflight.reach.transport import Reach

BUSY_SECONDS = 60.0  # how long another run of this machine may hold the node's lock


@contextlib.contextmanager
def opened(seconds: float = 60.0) -> Iterator[tuple[Fleet, Session]]:
    """A fleet of this machine; waits while another run holds it."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        fleet = Fleet(parse_hosts("local"), Reach(), run_id="stages", deadline=time.monotonic() + seconds)
        fleet.run(fleet.open(), seconds=30)
        if fleet.sessions or time.monotonic() > end:
            break
        fleet.close()
        time.sleep(0.5)
    try:
        assert fleet.failures == {}
        yield fleet, fleet.sessions["local"]
    finally:
        fleet.close()
