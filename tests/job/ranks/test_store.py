"""Why does a rank not reach torch's store, and what ends it where the store is silent?"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import pytest

from preflight.job.ranks import store

WAITS = """
import ctypes, sys
from preflight.job.ranks.store import Guard
guard = Guard(lambda why: print(why, flush=True))
with guard.within(float(sys.argv[1]), lambda: "it was silent"):
    print("waits", flush=True)
    ctypes.CDLL(None).read(int(sys.argv[2]), ctypes.create_string_buffer(1), 1)
"""


@pytest.fixture
def at(monkeypatch):
    """Set MASTER_ADDR and MASTER_PORT."""

    def set_to(address, port):
        monkeypatch.setenv("MASTER_ADDR", address)
        monkeypatch.setenv("MASTER_PORT", str(port))

    return set_to


def test_rank_0_opens_a_store_that_each_life_of_the_ranks_has_for_itself(at, monkeypatch):
    """Where torchrun has started them again, what was told before is not taken for new."""
    from torch.distributed import TCPStore

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    at("127.0.0.1", port)
    monkeypatch.delenv("TORCHELASTIC_RESTART_COUNT", raising=False)
    opened = store.open_store(20)
    opened.set("came", "1")
    other = TCPStore("127.0.0.1", port, is_master=False)
    assert (other.get("preflight/0/came"), store.NOT_MEASURED) == (b"1", 3)
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    again = store.open_store(20)
    again.set("came", "2")
    assert (opened.get("came"), other.get("preflight/2/came")) == (b"1", b"2")


def test_a_port_at_which_nobody_or_a_stranger_listens_is_told(at):
    """By one connection, whatever torch says of it."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        at("127.0.0.1", stranger.getsockname()[1])
        assert "what listens there is not a store of torch" in store.why_no_answer()
    assert "nothing listens: rank 0 did not start" in store.why_no_answer()


def test_a_name_that_nobody_knows_is_told(at, monkeypatch):
    """With where to write it."""

    def unknown(*_words, **_more):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    at("node1.nowhere", 29500)
    assert "this node cannot resolve node1.nowhere; give an address" in store.why_no_answer()
    assert "MASTER_ADDR=node1.nowhere: this node cannot resolve" in store.why_not_here()


def test_rank_0_knows_that_the_address_is_another_nodes(at):
    """It binds to it, and nothing is sent."""
    at("192.0.2.1", 29500)
    assert store.why_not_here().startswith(
        f"MASTER_ADDR=192.0.2.1 is not an address of {socket.gethostname()}, where rank"
    )


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_call_that_waits_is_ended_by_a_signal_at_once(number):
    """With its code, though the interpreter does not come to it."""
    ours, theirs = socket.socketpair()
    with (
        ours,
        theirs,
        subprocess.Popen(
            [sys.executable, "-c", WAITS, "60", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdout=subprocess.PIPE,
        ) as rank,
    ):
        assert rank.stdout.readline() == b"waits\n"
        rank.send_signal(number)
        assert rank.wait(10) == 128 + number


@pytest.mark.process
def test_a_call_that_takes_too_long_is_ended_with_its_reason():
    """Nothing was measured."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        argv = [sys.executable, "-c", WAITS, "0.5", str(theirs.fileno())]
        done = subprocess.run(argv, pass_fds=[theirs.fileno()], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (3, "waits\nit was silent\n")
