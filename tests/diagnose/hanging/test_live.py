"""Are nodes asked for the ranks of a hanging job, each for itself?"""

from __future__ import annotations

import sys

from preflight.diagnose.hanging.live import look
from preflight.reach.hosts import parse_hosts
from preflight.reach.transport import Reach


def test_a_node_without_the_job_gives_none():
    """And one that cannot be reached gives the reason, not an exception."""
    found = look(
        parse_hosts("local"), Reach(python=sys.executable), run_id="t", match="no such job of anybody", pids=[]
    )
    assert found.ranks == {"local": ()} or "busy" in found.failures["local"]
    found = look(parse_hosts("local"), Reach(python="/no/python"), run_id="t", match="x", pids=[])
    assert found.ranks == {}
    assert list(found.failures) == ["local"]
