"""What can a test do with one lab host: run things on it, look at it, plant faults on it?"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import faults, residue, sshd
from .network import port_name, shape
from .spaces import ENVIRONMENT, LabError, Space, change_mounts


class LabHost:
    """A machine of its own as far as ssh, torch and a check can tell."""

    # Each plants a fault and returns a Planted: `node2.mtu(1400)` or `with node2.mtu(1400):`.
    mtu = faults.mtu
    hostname_resolves_to = faults.hostname_resolves_to
    hold_port = faults.hold_port
    drop_incoming_high_ports = faults.drop_incoming_high_ports
    torch_version = faults.torch_version
    python_site = faults.python_site
    rdma_tree = faults.rdma_tree
    environment = faults.environment
    cpu_quota = faults.cpu_quota
    link_down = faults.link_down
    stop_sshd = faults.stop_sshd
    login_stalls = faults.login_stalls
    slow_path = faults.slow_path
    add_interface = faults.add_interface

    def __init__(self, space: Space, switch: Space, *, address: str, tag: str, scratch: str) -> None:
        self.name = space.name
        self.address = address
        self.pid = space.pid
        self.space = space
        self.switch = switch
        self.tag = tag
        self.scratch = scratch
        self.session_environment: Mapping[str, str] = {}

    def run(self, argv: Sequence[str], *, timeout_s: float = 60, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command on the host, not over ssh; 124 is its exit code when it ran out of time."""
        # nsenter forks, so killing it from here would leave the command running.
        bounded = ["timeout", "--kill-after=1", str(timeout_s), *argv]
        return subprocess.run(
            [*self.space.enter(), *bounded],
            input=text,
            capture_output=True,
            text=True,
            timeout=timeout_s + 10,
            env=ENVIRONMENT,
            check=False,
        )

    def check(self, argv: Sequence[str], *, timeout_s: float = 60) -> str:
        """Run a command that must succeed -> its stdout."""
        done = self.run(argv, timeout_s=timeout_s)
        if done.returncode != 0:
            raise LabError(f"{self.name}: {' '.join(argv)[:300]}: exit {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def signal(self, pid: int, number: signal.Signals) -> None:
        """Send a signal to a process of this host, its pid as the machine counts."""
        if pid not in self.space.members():
            raise LabError(f"process {pid} is not one of {self.name}")
        os.kill(pid, number)

    def write_file(self, path: str, text: str) -> faults.Planted:
        """Let this host alone read `text` at `path`."""
        return self.change([["write", path, text]])

    def change(self, operations: Sequence[Sequence[Any]]) -> faults.Planted:
        """Carry out inside.py's operations on the host's mounts."""
        undo = change_mounts(self.space, operations, tag=self.tag, scratch=self.scratch)
        return faults.Planted(
            lambda: change_mounts(self.space, undo, tag=self.tag, scratch=self.scratch) and None,
        )

    def shape(self, *, egress: str | None, ingress: str | None, interface: str = "eth0") -> None:
        """Limit what the host sends and what it is sent ('200mbit'); None lifts the limit."""
        shape(self.space, interface, egress)
        shape(self.switch, port_name(self.name, interface), ingress)

    def interfaces(self) -> dict[str, dict[str, Any]]:
        """What `ip address` says, by name of the interface."""
        return {link["ifname"]: link for link in json.loads(self.check(["ip", "-json", "address"]))}

    def residue(self) -> residue.Residue:
        """Processes, listening sockets and files on the host now."""
        return residue.snapshot(self.space, apart_from=os.path.dirname(self.scratch))

    def sshd_log(self) -> str:
        """What the host's sshd logged so far."""
        return self.space.root(f"{self.scratch}/sshd.log").read_text()

    def restart_sshd(self, environment: Mapping[str, str], *, more: str = "") -> None:
        """Let every session from now on start with these variables, and `more` in sshd's settings; open ones stay."""
        os.kill(residue.listener_pid(self.space), signal.SIGKILL)
        self._await(lambda: not residue.is_listening(self.space, 22), "the old sshd ends")
        self.start_sshd(environment, more=more)

    def start_sshd(self, environment: Mapping[str, str], *, more: str = "") -> None:
        """Start the host's sshd and wait until it listens."""
        config = sshd.server_config(self.address, scratch=self.scratch, environment=environment)
        config = more + config  # of two lines for one setting the first counts
        self.space.root(f"{self.scratch}/sshd_config").write_text(config)
        self.check(sshd.start_command(self.scratch))
        self._await(lambda: residue.is_listening(self.space, 22), "sshd listens")
        self.session_environment = dict(environment)

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 10
        while not condition():
            if time.monotonic() > deadline:
                raise LabError(f"{self.name}: waited 10 s until {what}; its log: {self.sshd_log()[-1000:]}")
            time.sleep(0.005)
