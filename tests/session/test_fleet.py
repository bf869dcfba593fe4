"""Do all nodes of a run live side by side, each failing for itself?"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time

import pytest

from preflight.errors import HostError, PreflightError, Unreachable
from preflight.hosts import Host
from preflight.session import fleet as fleets
from preflight.session.fleet import Fleet
from preflight.transport import Reach
from tests.session.test_connection import fleet


@pytest.fixture
def reached_by(tmp_path, monkeypatch):
    """A fleet of one host whose ssh is this script; `$last` in it is the command for the node."""
    made = []
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def reach(script: str) -> Fleet:
        (tmp_path / "ssh").write_text(f"#!/bin/sh\nfor last; do :; done\n{script}\n")
        (tmp_path / "ssh").chmod(0o755)
        way = Reach(python=sys.executable)
        made.append(Fleet((Host("node1", "node1"),), way, run_id="x", deadline=time.monotonic() + 30))
        made[-1].run(made[-1].open(), seconds=20)
        return made[-1]

    yield reach
    for each in made:
        each.close()


def test_coroutines_past_their_limit_are_an_error_of_ours():
    """Fleet.run never waits without a bound."""
    made = fleet()
    with pytest.raises(Exception, match="not finished within"):
        made.run(asyncio.sleep(30), seconds=0.2)
    made.close()


def test_hosts_answer_while_another_hangs():
    """A host that never answers costs its own time only."""
    both = (Host("local", "127.0.0.1", transport="local"), Host("deaf", "127.0.0.1"))
    made = Fleet(
        both,
        Reach(ssh_options=("-oProxyCommand=sleep 60",), connect_seconds=1),
        run_id="x",
        deadline=time.monotonic() + 4,
    )
    made.run(made.open(), seconds=20)
    made.close()

    assert "local" in made.sessions
    assert "deaf" in made.failures


def test_a_connection_that_is_closed_early_is_tried_again(reached_by, tmp_path, monkeypatch):
    """sshd drops what is too many at once, before it asks who we are; the next attempt may find room."""
    monkeypatch.setattr(fleets, "RETRY_SECONDS", (0.01, 0.02))
    closes = f"touch {tmp_path}/tried; echo kex_exchange_identification: closed >&2; exit 255"
    made = reached_by(f'[ -e {tmp_path}/tried ] || {{ {closes}; }}\nexec sh -c "$last"')
    assert made.failures == {}
    assert list(made.sessions) == ["node1"]


@pytest.mark.parametrize(
    ("words", "attempts"),
    [
        ("Connection closed by 10.0.0.1", 4),
        ("Permission denied (publickey). Connection closed by 10.0.0.1", 1),
        ("No route to host", 1),
    ],
)
def test_only_what_may_pass_is_tried_again_and_not_for_ever(reached_by, tmp_path, monkeypatch, words, attempts):
    """A key that is refused is refused again."""
    monkeypatch.setattr(fleets, "RETRY_SECONDS", (0.001, 0.002))
    made = reached_by(f"echo x >> {tmp_path}/attempts; echo '{words}' >&2; exit 255")
    assert isinstance(made.failures["node1"], Unreachable)
    assert (tmp_path / "attempts").read_text().count("x") == attempts


def test_a_host_that_fails_in_its_first_work_is_a_failure_of_that_host():
    """Its session stays open to be closed with the others."""
    made = fleet()

    async def work(session) -> None:
        raise HostError(session.host.name, "its clock does not answer")

    try:
        assert made.waiting() == ["local"]
        made.run(made.open(work), seconds=20)
        assert str(made.failures["local"]) == "local: its clock does not answer"
        assert "local" in made.sessions
        assert made.waiting() == []
    finally:
        made.close()


def test_a_host_is_waited_for_until_its_calls_have_ended():
    """Whoever waits is told which nodes are not done."""
    made = fleet()
    try:
        made.run(made.open(), seconds=20)
        assert made.waiting() == []
        session = made.sessions["local"]
        # A mesh waits for the addresses of its peers, which are never sent: the call is open as long as it may be.
        alone = {"name": "local", "address": "127.0.0.1", "key": "k" * 32, "bytes": 8}
        limits = {"connect_seconds": 5.0, "total_seconds": 5.0}
        made.run(session.start("mesh", {**alone, **limits}, seconds=5), seconds=5)
        assert made.waiting() == ["local"]
    finally:
        made.close()


def test_an_exception_of_the_work_reaches_whoever_started_it():
    """As it is, and the loop goes on."""
    made = Fleet((), Reach(), run_id="x", deadline=time.monotonic() + 5)

    async def broken() -> None:
        raise LookupError("x")

    async def whole() -> int:
        return 7

    try:
        with pytest.raises(LookupError):
            made.run(broken(), seconds=5)
        assert made.run(whole(), seconds=5) == 7
    finally:
        made.close()


def test_closing_twice_ends_everything_once():
    """What still waits is cancelled; afterwards nothing can be started."""
    made = Fleet((Host("local", "127.0.0.1", transport="local"),), Reach(), run_id="x", deadline=time.monotonic() + 5)
    with pytest.raises(PreflightError):
        made.run(asyncio.Event().wait(), seconds=0.05)
    made.close()
    made.close()
    assert not made._thread.is_alive()
    assert made._loop.is_closed()


def test_there_are_descriptors_for_hundreds_of_connections():
    """The soft limit is raised to the hard one: a connection takes three of them."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[1]), before[1]))
    try:
        Fleet((), Reach(), run_id="x", deadline=time.monotonic()).close()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
