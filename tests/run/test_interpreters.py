"""Is a Python with torch named where the one that was asked for is not there?"""

from __future__ import annotations

import sys

from preflight.reach.hosts import parse_hosts
from preflight.reach.transport import Reach
from preflight.run import interpreters
from preflight.said import knowing
from tests.job.measure.local import opened

GONE = knowing("cannot start /opt/nope/bin/python3: No such file or directory", loss="no such python")


def test_the_python_of_the_node_that_has_torch_is_named():
    """Found by the node itself, over a connection of its own; who failed otherwise is not asked."""
    (local,) = parse_hosts("local")
    with opened() as (fleet, session):  # waits while another run holds this machine
        fleet.run(session.close(), seconds=20)
        told = fleet.run(
            interpreters.explained([local], {"local": GONE}, Reach(python="/opt/nope/bin/python3"), run_id="asked"),
            seconds=40,
        )
        other = {"local": "login refused (ssh: Permission denied)"}
        same = fleet.run(interpreters.explained([local], other, Reach(python="/x"), run_id="asked"), seconds=5)
        plain = fleet.run(interpreters.explained([local], {"local": GONE}, Reach(), run_id="asked"), seconds=5)
    assert told["local"].startswith(f"{GONE} (there {sys.executable} has torch 2.")
    assert same == other
    assert plain == {"local": GONE}
