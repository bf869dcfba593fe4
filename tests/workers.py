"""How do tests run beside each other on one machine, and when do they?

A run on `local` holds its node by a socket that belongs to the network, and tests bind ports: each fork that runs
tests has a network namespace of its own, with loopback in it and nothing else. Labs make their own anyway.
A test marked `exclusive` measures what the machine can do and runs while no other does.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests import kinds

MOST_FORKS = 6
ONE_BY_ONE = ("tests/e2e/", "tests/field/", "tests/lab/")  # where each test takes seconds
# What such a file prepares, a cluster of Ray or Slurm, takes longer than its tests: one fork has all of them.
TOGETHER = (
    "tests/e2e/test_four_ways.py",
    "tests/e2e/test_guides.py",
    "tests/e2e/test_ray.py",
    "tests/e2e/test_rehearse_slurm.py",
    "tests/e2e/test_reported.py",
    "tests/e2e/test_slurm.py",
    "tests/e2e/test_slurm_jobs.py",
)
FORKS = pytest.StashKey[int]()  # how many run the tests, where one process does not
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1


def choose(config: pytest.Config) -> None:
    """Take forks for a run of the whole suite or of a kind of it, unless the command line says otherwise."""
    option = config.option
    is_part = config.args_source is pytest.Config.ArgsSource.ARGS or option.keyword or config.getoption("lf", False)
    is_watched = option.usepdb or option.collectonly or option.capture == "no"
    judges_hosts = config.pluginmanager.hasplugin("preflight-checking")
    is_told = getattr(option, "numprocesses", None) is not None  # by pytest-xdist's own option
    if is_told or is_part or is_watched or judges_hosts or not can_have_own_network():
        return
    waiting = 0 if kinds.is_about_units(option.markexpr) else 2  # tests of the lab wait half of their time
    config.stash[FORKS] = min(len(os.sched_getaffinity(0)) + waiting, MOST_FORKS)


def be_patient() -> None:
    """Let hypothesis take its time: how long an example takes says how busy the machine is."""
    with suppress(ModuleNotFoundError):
        from hypothesis import HealthCheck, settings

        settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
        settings.load_profile("patient")


def keep_bytecode(environment: MutableMapping[str, str]) -> None:
    """Let what the tests start keep what it compiles, whatever the shell says: they start Python a thousand times."""
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def can_have_own_network() -> bool:
    """May a process here have a network namespace of its own?"""
    try:
        return subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def enter_own_network() -> None:
    """Put this thread, and what it starts, into a network with nothing but loopback. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))


def in_machine_network(command: Sequence[str]) -> list[str]:
    """The command for a test that has to reach the internet: run in the network that a fork of ours has left."""
    parent = os.getppid()
    try:
        is_away = os.readlink("/proc/self/ns/net") != os.readlink(f"/proc/{parent}/ns/net")
    except OSError:  # another user's, who has not started us as a fork
        is_away = False
    return ["nsenter", f"--target={parent}", "--net", "--", *command] if is_away else list(command)


@contextmanager
def turn(door: Path, room: Path, *, is_exclusive: bool) -> Iterator[None]:
    """Wait until a test may run: beside the others, or while no other does. Any two files serve as the locks."""
    with open(room) as inside:
        with open(door) as outside:
            # Whoever waits for the room holds the door, so that later tests cannot keep an exclusive one waiting.
            fcntl.flock(outside, fcntl.LOCK_EX)
            fcntl.flock(inside, fcntl.LOCK_EX if is_exclusive else fcntl.LOCK_SH)
            fcntl.flock(outside, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(inside, fcntl.LOCK_UN)  # closing is not enough: a forked child may hold the file too


def share(nodeid: str) -> str:
    """What one fork takes at once: a whole file, whose fixtures are made once; most tests of the lab one by one."""
    is_alone = nodeid.startswith(ONE_BY_ONE) and not nodeid.startswith(TOGETHER)
    return nodeid if is_alone else nodeid.split("::", 1)[0]
