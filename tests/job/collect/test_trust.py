"""Who is asked to log in to whom, and when is nobody?"""

from __future__ import annotations

import asyncio

from preflight.job.collect import trust
from preflight.job.options.options import Options
from preflight.reach.hosts import parse_hosts
from preflight.reach.session import replies
from preflight.said.errors import HostError

RESULT = {"logins": []}


class Answering:
    """A session whose node has an answer ready; it notes what it was asked."""

    result = RESULT

    def __init__(self, *, fails: bool = False):
        self.fails = fails
        self.asked = []

    async def start(self, name, arguments, *, seconds):
        """Take the question."""
        if self.fails:
            raise HostError("x", "went away")
        self.asked.append((name, arguments["peers"], arguments["python"]))
        assert arguments["seconds"] < seconds
        return self

    async def end(self, kind):
        """The result is all."""
        return replies.read("x", kind, self.result, "result")


def collect(count, options, *, lost=()):
    hosts = {host.name: host for host in parse_hosts(f"root@node[1-{count}]")}
    sessions = {name: Answering(fails=name in lost) for name in hosts}
    return asyncio.run(trust.collect(sessions, hosts, options)), sessions


def test_nobody_is_asked_unless_the_launch_needs_it():
    """--ssh-trust, or a launcher that logs in by itself."""
    told, sessions = collect(3, Options())
    assert {missing["trust"].kind for _, missing in told.values()} == {"absent"}
    assert not any(session.asked for session in sessions.values())
    for options in (Options(ssh_trust=True), Options(launcher="deepspeed")):
        assert all(session.asked for session in collect(3, options)[1].values())
    assert not collect(1, Options(ssh_trust=True))[1]["node1"].asked


def test_every_node_tries_every_other_by_its_address():
    """As a hostfile would name it, and looking for the job's interpreter."""
    told, sessions = collect(3, Options(ssh_trust=True, python="/opt/job/bin/python"))
    asked = sessions["node2"].asked
    assert asked == [("trust", ["node1", "node3"], "/opt/job/bin/python")]
    assert sessions["node1"].asked[0][1] == ["node1", "node2", "node3"]  # where the launch starts
    assert all(subjects == {"trust": {**RESULT, "launchers": []}} for subjects, _ in told.values())


def test_a_large_cluster_is_tried_from_the_first_node_only():
    """A thousand nodes would be a million logins."""
    told, sessions = collect(40, Options(ssh_trust=True))
    first, *others = sessions.values()
    assert len(first.asked[0][1]) == 40  # itself, too
    assert not any(session.asked for session in others)
    assert [missing.get("trust") is None for _, missing in told.values()] == [True] + [False] * 39


def test_a_node_that_is_lost_is_missing():
    """With the reason."""
    names = list(collect(2, Options())[1])
    told, _ = collect(2, Options(ssh_trust=True), lost=(names[1],))
    assert told[names[1]][1]["trust"].missing == "went away"
