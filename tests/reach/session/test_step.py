"""Do the sessions of many nodes come by one command, and only with tasks that prove to be its own?"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
import zlib

import pytest

from preflight.reach.host import Host
from preflight.reach.session import step
from preflight.reach.session.fleet import Fleet
from preflight.reach.session.step import Step
from preflight.reach.transport import Reach, gathering_of
from preflight.reach.transport.reach import TASK_LOADER, TASK_PROGRAM
from preflight.reach.transport.slurm import Slurm

HOSTS = tuple(Host(f"n{number}", f"n{number}", transport="slurm") for number in range(3))
# Slurm as far as a step sees it: a task for each name of --nodelist, told its name, its number and where srun is. A
# step of one task has its standard input. In $DEAD no task starts; the task of $LIAR says that it is $CLAIMS.
SRUN = """#!/bin/sh
echo "$*" >> "$CALLS"
for word; do case $word in --nodelist=*) nodes=${word#--nodelist=};; esac; done
while [ "$1" != -- ]; do shift; done; shift
export SLURM_LAUNCH_NODE_IPADDR=127.0.0.1
case $nodes in *,*) ;; *) SLURMD_NODENAME=$nodes SLURM_PROCID=0 exec "$@";; esac
number=0
for node in $(echo $nodes | tr , ' '); do
  name=$node; [ "$node" = "$LIAR" ] && name=$CLAIMS
  [ "$node" = "$DEAD" ] || SLURMD_NODENAME=$name SLURM_PROCID=$number "$@" &
  number=$((number + 1))
done
wait
"""


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """The words of every srun so far, and an allocation of three nodes that are all this machine."""
    for name, text in {"srun": SRUN, "scontrol": "#!/bin/sh\necho 'SrunPortRange = 0-0'\n"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    calls = tmp_path / "calls"
    calls.touch()
    for name, value in {"CALLS": str(calls), "DEAD": "", "LIAR": "", "SLURM_JOB_ID": "7"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("SLURM_EXPORT_ENV", raising=False)
    return lambda: [line.partition("--nodelist=")[2].split()[0] for line in calls.read_text().splitlines()]


def opened():
    """The nodes that answered a fleet: they are one machine, so all but one of them say that it is busy."""
    made = Fleet(HOSTS, Reach(python=sys.executable), run_id="x", deadline=time.monotonic() + 40)
    made.run(made.open(), seconds=30)
    reached = {*made.sessions, *(name for name, why in made.failures.items() if "busy" in str(why))}
    made.close()
    return reached


def test_one_command_carries_all_sessions(slurm):
    """A task connects from each node, and its session is like any other."""
    assert opened() == {"n0", "n1", "n2"}
    assert slurm() == ["n0,n1,n2"]


def test_a_node_whose_task_does_not_come_gets_a_command_of_its_own(slurm, monkeypatch):
    """Which says why; the others share one again."""
    monkeypatch.setenv("DEAD", "n1")
    assert opened() == {"n0", "n1", "n2"}  # a step of its own reaches it here
    assert sorted(slurm()) == ["n0,n1,n2", "n0,n2", "n1"]


def test_of_two_tasks_that_claim_one_node_neither_is_believed(slurm, monkeypatch):
    """Both nodes are reached by a command of their own, which Slurm starts nowhere else."""
    monkeypatch.setenv("LIAR", "n2")
    monkeypatch.setenv("CLAIMS", "n0")
    assert opened() == {"n0", "n1", "n2"}
    assert sorted(slurm()) == ["n0", "n0,n1,n2", "n1", "n2"]


class Visitors:
    """Who connects to a step of which no task was started."""

    def __init__(self, step, port):
        self.step = step
        self.port = port
        self.writers = []

    async def idle(self):
        """Connect, and say nothing."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        return reader, writer

    async def task(self, told=b"0 n0", *, has_key=True):
        """Connect as a task does, and say who we are -> what the step answers."""
        reader, writer = await self.idle()
        theirs = await reader.readexactly(16)
        proof = self.step._proof(b"task", theirs, bytes(16), told) if has_key else bytes(32)
        writer.write(bytes(16) + proof + bytes([len(told)]) + told)
        return await reader.read(32)


@pytest.fixture
def met(slurm):
    """What comes of a coroutine of visitors, while a step listens to them."""

    async def listen(come):
        gathering = gathering_of(HOSTS, Reach(python=sys.executable))
        assert gathering is not None
        step = Step(HOSTS, gathering)
        server = await asyncio.start_server(step._greet, "127.0.0.1", 0)
        visitors = Visitors(step, server.sockets[0].getsockname()[1])
        try:
            return await asyncio.wait_for(come(visitors), 30)
        finally:
            server.close()
            await step.end()
            for writer in visitors.writers:
                writer.close()
            await asyncio.gather(*(writer.wait_closed() for writer in visitors.writers), return_exceptions=True)

    return lambda come: asyncio.run(listen(come))


@pytest.mark.parametrize(
    ("told", "has_key"),
    [
        (b"0 n0", False),
        *((told, True) for told in (b"", b"0", b"0 n9", b"x n0", b"0 \xff", b"0  n0", b"0 n0\n", b"9" * 255)),
    ],
)
def test_a_stranger_is_told_nothing_and_becomes_no_node(met, told, has_key):
    """It does not hold the key, which stands in the environment of our tasks alone, or says what no task would say."""

    async def stranger(visitors):
        return await visitors.task(told, has_key=has_key), visitors.step.lines

    assert met(stranger) == (b"", {})


def test_a_task_gets_in_between_strangers_who_only_wait(met):
    """Those who say nothing are let go when there are too many, so that they take no file from us."""

    async def crowd(visitors):
        waiting = [await visitors.idle() for _ in range(200)]
        answer = await visitors.task()
        left = len(visitors.step._strangers)
        return len(answer), set(visitors.step.lines), left <= 64 + len(HOSTS) < len(waiting)

    assert met(crowd) == (32, {"n0"}, True)


def test_a_second_task_of_one_name_ends_the_session_of_the_first_even_late(met):
    """One that held the place of another is found out when the other comes."""

    async def impostor(visitors):
        await visitors.task()
        line = visitors.step.lines["n0"]
        await visitors.task(b"1 n0")
        return await asyncio.wait_for(line.ended(), 5), line.flood, visitors.step.lines

    assert met(impostor) == (0, "two tasks came in its name, and nobody knows which of them is its own", {})


def test_the_ports_are_those_that_the_site_left_open(slurm):
    """Where a firewall lets nodes connect to some ports of a login node only, Slurm is told which."""
    gathering = gathering_of(HOSTS, Reach())
    assert gathering is not None
    assert gathering.ports("SlurmdPort = 6818\nSrunPortRange           = 60001-60004\n") == range(60001, 60005)
    assert gathering.ports("SrunPortRange = 0-0\n") == range(1)


@pytest.mark.parametrize(
    ("hosts", "reach", "exported"),
    [
        (HOSTS, Reach(wrap=("docker", "exec", "-i", "trainer")), "ALL"),
        (HOSTS, Reach(), "NONE"),
        ((HOSTS[0], Host("n9", "n9", transport="slurm", python="/opt/py")), Reach(), "ALL"),
    ],
)
def test_hosts_that_differ_have_steps_of_their_own(hosts, reach, exported):
    """So has a container, which may not know Slurm's variables, and a job that exports nothing."""
    assert Slurm({"SLURM_EXPORT_ENV": exported}).gathering(hosts, reach) is None


@pytest.mark.parametrize("hosts", [(), HOSTS[:1], (HOSTS[0], Host("n9", "n9")), (Host("n8", "n8"), Host("n9", "n9"))])
def test_one_host_and_hosts_of_ssh_share_no_command(hosts):
    """There is nothing to share, or nobody who would start it on all of them."""
    assert gathering_of(hosts, Reach()) is None


SIZES = {"key": b"k" * step.KEY_BYTES, "mac": step.MAC_BYTES, "nonce": step.NONCE_BYTES}


@contextlib.contextmanager
def started_task(port):
    """A task whose controller is at this port."""
    words = {"controller": ("WHERE",), "number": "NUMBER", "address": "NAME", "seconds": 5.0, "unread": 1}
    program = zlib.compress(step.TASK.format(port=port, **words, **SIZES).encode()).hex()
    environment = {"WHERE": "127.0.0.1", "NUMBER": "0", "NAME": "n0", TASK_PROGRAM: program}
    argv = [sys.executable, "-I", "-S", "-c", TASK_LOADER]
    with subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True) as task:
        yield task


def greet(wire):
    """What the controller says until both have proved who they are."""
    ours = b"o" * step.NONCE_BYTES
    wire.sendall(ours)
    mine = wire.recv(step.NONCE_BYTES + step.MAC_BYTES + 5, socket.MSG_WAITALL)[: step.NONCE_BYTES]
    proof = hashlib.blake2b(b"controller" + mine + ours, key=SIZES["key"], digest_size=step.MAC_BYTES)
    wire.sendall(proof.digest())


def test_a_task_to_which_no_program_comes_ends_itself():
    """It has proved who it is, and the link is cut: its end of the connection would stay for as long as TCP lets it."""
    with (
        socket.create_server(("127.0.0.1", 0)) as door,
        started_task(door.getsockname()[1]) as task,
        door.accept()[0] as wire,
    ):
        greet(wire)
        assert task.wait(timeout=20) == -signal.SIGALRM


def test_a_task_that_is_no_longer_wanted_says_so_in_one_line():
    """The run went on without it, or is over: no traceback in what its rank prints."""
    with socket.create_server(("127.0.0.1", 0)) as door, started_task(door.getsockname()[1]) as task:
        with door.accept()[0] as wire:
            greet(wire)
        assert task.communicate(timeout=20)[1] == "the controller of preflight ended this task before it began\n"


def test_a_task_that_comes_when_the_controller_has_left_says_so_in_one_line():
    """Its port is closed."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    with started_task(port) as task:
        said = task.communicate(timeout=20)[1]
    assert said.startswith(f"no connection to the controller of preflight at 127.0.0.1 port {port}: ")
    assert said.count("\n") == 1
