"""Do all nodes of a run live side by side, each failing for itself?"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import sys
import threading
import time

import pytest

from preflight.reach.host import Host
from preflight.reach.session import fleet as fleets
from preflight.reach.session.connection import Session
from preflight.reach.session.fleet import Fleet
from preflight.reach.session.line import Own
from preflight.reach.transport import Reach
from preflight.said import values_in
from preflight.said.errors import Busy, HostError, PreflightError, TimedOut, Unreachable
from tests.reach.session.test_connection import fleet, job


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


@pytest.mark.parametrize(("hosts", "is_raised"), [(500, True), (4, False)])
def test_there_are_descriptors_for_hundreds_of_connections(hosts, is_raised):
    """The soft limit is raised to the hard one where it is too small, and else left: srun hands it on to the nodes."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[1]), before[1]))
    try:
        Fleet(
            [Host(f"n{number}", "") for number in range(hosts)], Reach(), run_id="x", deadline=time.monotonic()
        ).close()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == (before[1] if is_raised else 256)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


EARLIER, LATER = "20260101-120000-aaaaaa", "20260101-120001-bbbbbb"


@pytest.mark.parametrize(
    ("ours", "holder", "yields"),
    [
        (LATER, EARLIER, True),
        (EARLIER, LATER, False),
        ("20260101-120000-bbbbbb", EARLIER, True),
        ("20260101-130000-bbbbbb", EARLIER, False),
        ("test", EARLIER, False),
        (LATER, "unknown", False),
    ],
)
def test_of_two_runs_of_one_moment_the_later_lets_go_of_every_node(ours, holder, yields, caplog):
    """It says which run it gives way to, and no more; one long under way keeps its node, and we the others."""
    made = fleet(ours)

    async def held(session) -> None:
        raise Busy(session.host.name, holder)

    both = (Host("local", "127.0.0.1", transport="local"), Host("again", "127.0.0.1", transport="local"))
    made.hosts = both
    made.busy_seconds = 0

    async def first_is_held(session) -> None:
        if session.host.name == "local":
            await held(session)

    try:
        made.run(made.open(first_is_held), seconds=20)
        assert isinstance(made.failures["local"], Busy)
        assert ("again" in made.failures) == yields
        assert ("again" in made.sessions) != yields
        assert all(holder in str(error) for error in made.failures.values())
        assert not yields or "holds local;" in str(made.failures["again"])  # nobody holds it itself
    finally:
        made.close()
    gc.collect()
    assert caplog.text == ""


def test_a_host_that_is_late_is_named_and_the_others_are_kept():
    """A stage's time is over: what arrived counts."""
    made = fleet()
    made.hosts = (Host("local", "127.0.0.1", transport="local"), Host("late", "127.0.0.1", transport="local"))

    async def work(session) -> None:
        if session.host.name == "late":
            await asyncio.sleep(30)

    try:
        begun = time.monotonic()
        made.run(made.open(work, seconds=3.0), seconds=20)
        assert time.monotonic() - begun < 5
        assert {name: type(error) for name, error in made.failures.items()} == {"late": TimedOut}
        assert "local" in made.sessions
    finally:
        made.close()


def test_an_exception_while_a_node_is_read_is_that_nodes_error():
    """Not the end of everybody's run."""
    made = fleet()

    async def work(_session) -> None:
        raise KeyError("interfaces")

    try:
        made.run(made.open(work), seconds=20)
        assert "KeyError while its answer was read" in str(made.failures["local"])
    finally:
        made.close()


def test_a_call_ends_before_the_time_of_its_stage():
    """So that whoever waits for it learns which node it was."""
    made = fleet()

    async def work() -> None:
        session = made.sessions["local"]
        call = await session.start("ranks", {**job("import time; time.sleep(30)")}, seconds=25.0)
        async for _ in call.events():
            continue

    try:
        made.run(made.open(), seconds=20)
        with pytest.raises(TimedOut, match="local"):
            made.run(work(), seconds=3.0)
    finally:
        made.close()


async def deaf(patience):
    """How many seconds a node that never answers is waited for."""
    line = await Own.start(["sleep", "60"])
    begun = time.monotonic()
    with pytest.raises(TimedOut, match="no Python answered in time"):
        await Session(Host("deaf", "deaf"), line, run_id="x", deadline=begun + 60).open(seconds=30, patience=patience)
    return time.monotonic() - begun


def test_a_silent_node_is_waited_for_as_long_as_the_others_show_by_now():
    """What is learned while it is silent shortens its time."""
    asked = []

    def patience():
        asked.append(time.monotonic())
        return 30.0 if len(asked) == 1 else 0.5

    assert 0.5 <= asyncio.run(deaf(patience)) < 15
    assert asyncio.run(deaf(lambda: 0.2)) < 15


def test_as_many_nodes_are_connected_at_a_time_as_files_may_be_open():
    """All of them where that is possible; too few for two is said before anybody is reached, with what helps."""
    assert fleets.most_at_once(2000, files=1 << 20) == 2000
    assert fleets.most_at_once(50, files=1024) == 50
    assert fleets.most_at_once(1000, files=4096) < 1000  # each has three pipes, and what tells of its end
    assert fleets.most_at_once(5000, files=256) == 36
    assert fleets.most_at_once(1, files=64) == 1
    with pytest.raises(PreflightError, match=r"100 open files.*300 are named.*ulimit -n 2200"):
        fleets.most_at_once(300, files=100)


def test_what_a_login_says_on_standard_output_is_told(reached_by):
    """nologin, and a password that has expired."""
    made = reached_by("echo 'This account is currently not available.'; exit 1")
    assert "This account is currently not available." in str(made.failures["node1"])


@pytest.mark.parametrize(
    ("startup", "said", "loss"),
    [
        ('read gone; exec sh -c "$last"', "reads what is meant for Python", "input taken"),
        ("exec sh", "reads what is meant for Python", "input taken"),
        ("exec sh -c 'exec python-that-is-not-there'", "no Python could be started", "no such python"),
        (
            "echo '/root/.bashrc: line 1: exec: zsh: not found' >&2; exit 127",
            "no Python answered: /root/.bashrc there starts zsh, which is not installed there",
            "no python",
        ),
        (
            "echo '/etc/profile.d/shell.sh: line 3: /usr/bin/fish: No such file or directory' >&2; exit 127",
            "no Python answered: /etc/profile.d/shell.sh there starts /usr/bin/fish, which is not installed there",
            "no python",
        ),
        (
            "echo '/root/.bashrc: line 2: /opt/env.sh: No such file or directory' >&2; exec python-that-is-not-there",
            "no Python could be started",
            "no such python",
        ),
        (
            "echo 'use the portal'",
            "the command ended with code 0 and no Python answered: use the portal",
            "no python",
        ),
    ],
)
def test_a_login_that_comes_to_no_python_is_told_by_what_it_does(reached_by, startup, said, loss):
    """A question, another shell, a forced command; none of them is a Python that ended."""
    made = reached_by(startup)
    assert said in str(made.failures["node1"])
    assert [*values_in(made.failures["node1"].reason, "loss")] == [loss]


def test_a_run_waits_for_another_of_its_user_and_says_so():
    """Two quick runs that start together on one node both give a verdict."""
    first, second = fleet("20260101-120000-aaaaaa"), fleet("20260101-120001-bbbbbb")
    try:
        first.run(first.open(), seconds=20)
        threading.Timer(1.0, first.close).start()
        second.run(second.open(), seconds=20)
        assert second.failures == {}
        (remark,) = second.remarks
        assert "for run 20260101-120000-aaaaaa, which held local" in remark
    finally:
        first.close()
        second.close()


def test_a_run_does_not_wait_for_long():
    """One that goes on is told as what holds the node, in time for the others' facts."""
    first, second = fleet("20260101-120000-aaaaaa"), fleet("20260101-130000-bbbbbb")
    try:
        first.run(first.open(), seconds=20)
        second.busy_seconds = 1
        second.run(second.open(), seconds=20)
        assert isinstance(second.failures["local"], Busy)
        assert second.remarks == ()
    finally:
        first.close()
        second.close()
