"""What does a tree of nodes spare the machine that logs in to 64 of them, and what does a login cost it?

Run it as ``python -m tests.bench.tree [--hosts=N] [--gateways=N]``, as root with cgroup v1, on a quiet machine.

``true`` on every node of a lab, in turns: through ClusterShell's tree (clush logs in to the gateways, and these to the
others), through plain clush, and with an ssh for each node; then our own sessions that ask for facts, of which each has an
ssh of its own. What has an ssh of its own is also tried with a key exchange that takes less of the processors. Printed are
medians: seconds, and seconds of the processors that the controller took, and those of all nodes together.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from preflight.reach import hosts
from preflight.reach.transport import Reach
from tests.bench import facts
from tests.lab.lab import Lab

HOSTS = 64
GATEWAYS = 4
REPETITIONS = 3
CLUSH = str(Path(sys.executable).with_name("clush"))
X25519 = "-oKexAlgorithms=^curve25519-sha256"


def clush(names: str, *options: str) -> None:
    """Clush without a configuration of ours: all at once, and one ssh a node unless `options` name a topology."""
    subprocess.run([sys.executable, CLUSH, *options, "-f", "1000", "-w", names, "true"], check=True)


def tree(names: str, *options: str) -> None:
    """Clush with the topology that the environment names."""
    clush(names, f"--topology={os.environ['TOPOLOGY']}", *options)


def ssh_each(names: str, *options: str) -> None:
    """What our sessions do, with nothing at the other end."""
    asyncio.run(facts.ssh_true([host.name for host in hosts.parse_hosts(names)], *options))


def sessions(names: str, *options: str) -> None:
    """Every node's facts, decoded."""
    facts.collect(hosts.parse_hosts(names), Reach(ssh_options=options))


WAYS = {
    "clush, tree": tree,
    "clush, tree, X25519": lambda names: tree(names, "-o", X25519),
    "clush, plain": clush,
    "an ssh each": ssh_each,
    "an ssh each, X25519": lambda names: ssh_each(names, X25519),
    "our sessions": sessions,
    "our sessions, X25519": lambda names: sessions(names, X25519),
}


def inside(way: str, names: str) -> None:
    """In the controller: one turn, its seconds and the controller's own seconds of the processors."""
    before, started = processor_seconds(), time.monotonic()
    WAYS[way](names)
    print(json.dumps([time.monotonic() - started, processor_seconds() - before]))


def processor_seconds() -> float:
    """Of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@contextlib.contextmanager
def accounts() -> Iterator[Path]:
    """A group of the cgroup v1 cpuacct controller, for what runs on the nodes; gone when they are."""
    group = Path(tempfile.mkdtemp(prefix="preflight-tree-", dir="/sys/fs/cgroup/cpuacct"))
    try:
        yield group
    finally:
        group.rmdir()


def on_the_nodes(group: Path) -> float:
    """Seconds of the processors that everything on the nodes took so far."""
    return int((group / "cpuacct.usage").read_text()) / 1e9


def one_turn(lab: Lab, group: Path, way: str, environment: dict[str, str]) -> tuple[float, float, float]:
    """Seconds, and of the processors the controller's and the nodes'."""
    time.sleep(facts.REST_SECONDS)
    before = on_the_nodes(group)
    words = [sys.executable, "-m", "tests.bench.tree", f"--inside={way}", f"--hosts={len(lab.hosts)}"]
    done = lab.run(words, env=environment)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    time.sleep(facts.REST_SECONDS)  # a gateway ends after the one that asked it
    seconds, controller = json.loads(done.stdout.splitlines()[-1])
    return seconds, controller, on_the_nodes(group) - before


def topology(lab: Lab, gateways: int) -> Path:
    """The file that has clush log in to the first nodes only, and these to the others."""
    path = lab.shared / "topology.conf"
    path.write_text(
        f"[routes]\ncontroller: node[1-{gateways}]\nnode[1-{gateways}]: node[{gateways + 1}-{len(lab.hosts)}]\n"
    )
    return path


def measure(count: int, gateways: int) -> dict[str, list[tuple[float, float, float]]]:
    """Every way's turns in one lab."""
    with accounts() as group, Lab.create(count, rate=None) as lab:
        for pid in [pid for host in lab.hosts for pid in host.space.members()]:
            (group / "cgroup.procs").write_text(str(pid))
        environment = {
            "TOPOLOGY": str(topology(lab, gateways)),
            "CLUSTERSHELL_GW_PYTHON_EXECUTABLE": sys.executable,
            "CLUSTERSHELL_GW_LOG_DIR": str(lab.shared),
        }
        turns: dict[str, list[tuple[float, float, float]]] = {way: [] for way in WAYS}
        for way in [*WAYS] * REPETITIONS:
            turns[way].append(one_turn(lab, group, way, environment))
        return turns


def main() -> None:
    """Build the lab, and measure from outside, where all of it is seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=HOSTS)
    parser.add_argument("--gateways", type=int, default=GATEWAYS)
    parser.add_argument("--inside", choices=WAYS, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside:
        inside(chosen.inside, f"node[1-{chosen.hosts}]")
        return
    turns = measure(chosen.hosts, chosen.gateways)
    print(f"{chosen.hosts} hosts, {chosen.gateways} gateways, {REPETITIONS} repetitions, medians")
    print(f"{'':20} seconds  processors: controller  nodes")
    for way, found in turns.items():
        seconds, controller, nodes = (statistics.median(column) for column in zip(*found, strict=True))
        print(f"{way:20} {seconds:7.2f} {controller:23.2f} {nodes:6.2f}")


if __name__ == "__main__":
    main()
