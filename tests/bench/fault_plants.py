"""How are the faults planted that only ``python -m tests.bench.faults`` tries?

Each is a context: the fault is there inside of it, and gone after it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.lab import residue
from tests.lab.host import LabHost
from tests.lab.lab import SUBNET, Lab
from tests.lab.spaces import change_mounts

RULES = """table inet planted {{
  chain input {{
    type filter hook input priority 0;
    tcp dport 22 {what}
  }}
}}"""
# An sshd that says who it is, and nothing more.
STALLING = """
import socket
listener = socket.create_server(("", 22), backlog=50)
print(flush=True)
held = []
while True:
    held.append(listener.accept()[0])
    held[-1].sendall(b"SSH-2.0-OpenSSH_9.2p1\\r\\n")
"""
# Children that have ended and for whom nobody waits.
ZOMBIES = """
import os, signal
for _ in range(1000):
    if not os.fork():
        os._exit(0)
print(flush=True)
signal.pause()
"""
# The two ports that an outgoing connection may have are held.
HOLDING = """
import signal, socket
held = [socket.create_server(("", port)) for port in (61000, 61001)]
print(flush=True)
signal.pause()
"""
PORTS = "/proc/sys/net/ipv4/ip_local_port_range"
NOBODY = f"{SUBNET}.250"  # in the lab's network, where no name server is


def nothing(_host: LabHost) -> contextlib.AbstractContextManager[object]:
    """No fault on the host: it lies in the options, or around the run."""
    return contextlib.nullcontext()


@contextlib.contextmanager
def firewall(host: LabHost, what: str) -> Iterator[None]:
    """Rules for new connections to sshd."""
    nft = [*host.space.enter("net"), "nft"]
    subprocess.run([*nft, "-f", "-"], input=RULES.format(what=what), text=True, check=True, timeout=20)
    try:
        yield
    finally:
        subprocess.run([*nft, "delete", "table", "inet", "planted"], check=True, timeout=20)


def startup(text: str) -> Callable[[LabHost], contextlib.AbstractContextManager[object]]:
    """What bash runs for every login over ssh, before the command."""
    return lambda host: host.write_file(str(Path("~root/.bashrc").expanduser()), text)


@contextlib.contextmanager
def program(host: LabHost, text: str) -> Iterator[None]:
    """A program of somebody else's on the host, once it has said that it is there."""
    argv = [*host.space.enter(), sys.executable, "-I", "-S", "-c", text]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, process_group=0) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            for pid in host.space.members():  # nsenter forks
                with contextlib.suppress(OSError):
                    if text.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                        os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def stalled_key_exchange(host: LabHost) -> Iterator[None]:
    """The banner comes, and then nothing."""
    os.kill(residue.listener_pid(host.space), signal.SIGKILL)
    with program(host, STALLING):
        yield
    host.start_sshd(host.session_environment)


@contextlib.contextmanager
def without_ports(host: LabHost) -> Iterator[None]:
    """No port is left for a connection from the host, nor for a listener whose port the kernel chooses."""
    before = host.check(["cat", PORTS])
    host.check(["sh", "-c", f"echo 61000 61001 > {PORTS}"])
    try:
        with program(host, HOLDING):
            yield
    finally:
        host.check(["sh", "-c", f"echo {before.strip()} > {PORTS}"])


@contextlib.contextmanager
def without_sysfs(host: LabHost) -> Iterator[None]:
    """Nothing stands in /sys, and a process sees its own user's processes alone."""
    host.check(["mount", "-n", "-t", "tmpfs", "none", "/sys"])
    host.check(["mount", "-n", "-o", "remount,hidepid=2", "/proc"])
    try:
        yield
    finally:
        host.check(["mount", "-n", "-o", "remount,hidepid=0", "/proc"])
        host.check(["umount", "-n", "/sys"])


@contextlib.contextmanager
def without_name(lab: Lab, name: str) -> Iterator[None]:
    """The machine that preflight runs on knows a host's name no more, and its name server does not answer."""
    lines = lab.controller.root("/etc/hosts").read_text().splitlines(keepends=True)
    known = "".join(line for line in lines if name not in line.split())
    changes = [["write", "/etc/hosts", known], ["write", "/etc/resolv.conf", f"nameserver {NOBODY}\n"]]
    host = lab[name]
    undo = change_mounts(lab.controller, changes, tag=host.tag, scratch=host.scratch)
    try:
        yield
    finally:
        change_mounts(lab.controller, undo, tag=host.tag, scratch=host.scratch)
