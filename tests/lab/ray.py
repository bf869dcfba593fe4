"""How do the hosts of a lab become the nodes of a real Ray cluster?"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Self

from .host import LabHost
from .lab import Lab
from .residue import Residue
from .spaces import ENVIRONMENT, LabError

PATH = f"{sys.prefix}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PORT = 6379
START = "import sys; from ray.scripts.scripts import main; sys.exit(main())"
COUNT = "import ray; ray.init('auto', log_to_driver=False); print(sum(node['Alive'] for node in ray.nodes()))"
# What is Ray's own on a host: its processes, its workers, which wait for the next task, its files, and the ports of all
# of these, which change; a port of ours goes with its process, which is none of them.
OF_RAY = ("ray::", "/ray/", "/tmp/ray", "/tmp/pymp-", "plasma", "raylet", "listening on tcp")


def why_not() -> str:
    """Why there can be no cluster here; empty where there can."""
    return "" if find_spec("ray") else "Ray is not installed here"


def why_not_submitted() -> str:
    """Why no cluster here can take jobs; empty where one can: that asks for what ray[default] brings."""
    return why_not() or ("" if find_spec("aiohttp_cors") else "ray[default] is not installed here")


def stop(host: LabHost) -> None:
    """End all of Ray on a host."""
    host.run([sys.executable, "-c", START, "stop", "--force"], timeout_s=30)


def left_since(lab: Lab, before: Mapping[str, Residue]) -> list[str]:
    """What is on the hosts, was not before, and is not Ray's own."""
    end = time.monotonic() + 10
    while True:
        found = lab.left_since(before, patience_s=0)
        left = [line for lines in found.values() for line in lines if not any(word in line for word in OF_RAY)]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.2)


class RayLab:
    """A cluster of all hosts of a lab, the first of them its head; a context manager that ends it."""

    def __init__(
        self,
        lab: Lab,
        environment: Mapping[str, Mapping[str, str]] | None = None,
        *,
        takes_jobs: bool = False,
        gpus: int | None = None,
    ) -> None:
        self.lab = lab
        self.takes_jobs = takes_jobs  # `ray job submit` asks the dashboard
        self.gpus = gpus  # of each host: Ray counts what it is told, whether there are any or not
        self.head = lab.hosts[0]
        self.environment = environment or {}  # more variables of `ray start`, by host
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            for host in self.lab.hosts:
                self.start(host.name)
                if host is self.head:
                    self.await_nodes(1)
            self.await_nodes(len(self.lab.hosts))
        except BaseException:
            self.destroy()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.destroy()

    def destroy(self) -> None:
        """End the cluster on every host."""
        for name in list(self.nodes):
            self.end(name)

    def start(self, name: str) -> None:
        """`ray start` on a host, as whoever keeps the cluster does."""
        host = self.lab[name]
        words = ["start", "--block", "--disable-usage-stats", "--num-cpus=2", "--object-store-memory=100000000"]
        words.append(f"--node-ip-address={host.address}")
        words += [] if self.gpus is None else [f"--num-gpus={self.gpus}"]
        if host is self.head:
            words += ["--head", f"--port={PORT}", f"--include-dashboard={str(self.takes_jobs).lower()}"]
        else:
            words.append(f"--address={self.head.address}:{PORT}")
        self.nodes[name] = subprocess.Popen(
            [*host.space.enter(), sys.executable, "-c", START, *words],
            env={**ENVIRONMENT, "PATH": PATH, **self.environment.get(name, {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def end(self, name: str) -> None:
        """End a host's part of the cluster with all its processes, as a lost machine does."""
        process = self.nodes.pop(name)
        process.kill()
        process.wait()
        stop(self.lab[name])

    def await_nodes(self, count: int) -> None:
        """Wait until Ray counts so many nodes."""
        end = time.monotonic() + max(60, 30 * count)
        while (found := self.head.run([sys.executable, "-c", COUNT]).stdout.strip()) != str(count):
            for name, started in list(self.nodes.items()):  # on a busy machine one may end before its head has answered
                if started.poll() is not None:
                    self.start(name)
            if time.monotonic() > end:
                raise LabError(f"Ray counts {found or 'no'} nodes, wanted {count}")
            time.sleep(0.3)

    def command(self, argv: Sequence[str]) -> list[str]:
        """The argv that runs a command on the head."""
        return [*self.head.space.enter(), "env", "-C", "/tmp", f"PATH={PATH}", *argv]

    def run(self, argv: Sequence[str], *, timeout_s: float = 150) -> subprocess.CompletedProcess[str]:
        """Run a command on the head."""
        return self.head.run(["env", "-C", "/tmp", f"PATH={PATH}", *argv], timeout_s=timeout_s)
