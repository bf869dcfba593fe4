"""Is the host named on which NCCL is slow or does otherwise, and a healthy cluster left in peace?

``python -m tests.bench.nccl`` runs `preflight bench` over three hosts of a lab that have stand-ins of GPUs, each time with
a fault on a host drawn with a fixed seed: a link that sends or receives slowly, an RDMA port that does so under
ib_write_bw, a GPU at half its clock, NVLS that NCCL does not have there, a plugin that does not start. A GID row that
NCCL would not choose is planted in the files of a node. A rank is killed or stopped in one of its collectives: its host
is named, what NCCL wrote is kept, and nothing is left.

    python -m tests.bench.nccl --runs 5 healthy "slow rail"
    python -m tests.bench.nccl --runs 5 --after 5 healthy "slow rail"

What is planted in a run follows from its number: runs 6 to 10 may be made later than the first five.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests import cuda
from tests.cuda import perftest
from tests.lab import rdma
from tests.lab.host import LabHost
from tests.lab.lab import Lab
from tests.twins import faults_field, node, planted
from tests.twins.platforms import BY_NAME
from tests.twins.twin import Twin

HOSTS = 3
RATE, BAD_RATE = "400mbit", "60mbit"
WORDS = ("--ranks-per-node=1", "-b", "1M", "-e", "1M", "--iters=6")
OVER_IB = {"gpus": 1, "network": "IB", "ports": ("mlx5_0:1/IB",), "nvls": ""}
OVER_PORTS = {"gpus": 1, "network": "IB", "ports": ("mlx5_0:1/RoCE", "mlx5_1:1/RoCE"), "nvls": ""}
PORTS = tuple(rdma.RdmaDevice(name=name, rate="400 Gb/sec (4X NDR)") for name in ("mlx5_0", "mlx5_1"))
FULL_GBPS, SLOW_GBPS = 392.0, 98.0
OVER_PLUGIN = {"gpus": 1, "network": "Libfabric", "nvls": ""}
ROWS = ("row of storage first", "link-local row first")
ROWS_ON = "container"  # a platform on which NCCL chooses the row itself


@dataclass(frozen=True)
class Kind:
    """What is wrong on the host, how its link is, and which check must name it."""

    check: str = ""
    usual: dict[str, Any] = field(default_factory=lambda: OVER_IB)  # of every host
    bad: tuple[dict[str, Any], ...] = ({},)  # of the host, one of these
    ways: tuple[str, ...] = ()  # in which its link is slow, one of these
    is_of_port: bool = False  # it is an RDMA port that is slow, which ib_write_bw tells; else the way of NCCL's sockets


KINDS = {
    "healthy": Kind(),
    "slow rail": Kind("bench.no_node_is_slower_than_its_peers", ways=("egress", "ingress", "both")),
    "slow port": Kind(
        "bench.no_node_is_slower_than_its_peers", OVER_PORTS, ways=("egress", "ingress", "both"), is_of_port=True
    ),
    "slow GPU": Kind("bench.no_gpu_is_slower_than_its_equals", bad=({"slow": {"0": 0.5}}, {"slow": {"0": 0.8}})),
    "lost NVLS": Kind(
        "bench.nccl_does_the_same_on_every_node", bad=({"nvls": "not "}, {"nvls": "lost"}, {"nvls": None})
    ),
    "lost plugin": Kind(
        "bench.nccl_does_the_same_on_every_node",
        OVER_PLUGIN,
        ({"network": "Socket"}, {"network": "Socket", "lost": ("NET/OFI Could not find any optimal provider",)}),
    ),
}
GID_ROW = "GID row"
# For how long a rank waits until it says that another does not answer: of a machine that others use too, much of it goes
# to a first collective. Who sees that a connection closed need not wait, so there the workload's own holds.
ENDINGS: dict[str, tuple[str, dict[str, float]]] = {
    "killed rank": ("SIGKILL", {}),
    "stopped rank": ("SIGSTOP", {"wait_seconds": 15.0}),
}
TO_RANKS_OF_TWO = ("--ranks-per-node=2", "-b", "1M", "-e", "1M", "--iters=20")
ACT = """
import os, signal, torch.distributed as dist
whole, calls = dist.all_reduce, []
def all_reduce(tensor, *words, **named):
    calls.append(tensor.numel() > 10000)
    if sum(calls) == {call} and os.environ.get("RANK") == "{rank}":
        os.kill(os.getpid(), signal.{signal})
    return whole(tensor, *words, **named)
dist.all_reduce = all_reduce
"""


@contextmanager
def planted_on(lab: Lab, kind: Kind, bad: LabHost, chance: random.Random) -> Iterator[str]:
    """GPUs on every host, the fault on one; the way in which its link is slow."""
    way = chance.choice(kind.ways) if kind.ways else ""
    more = chance.choice(kind.bad) if kind.check else {}
    with ExitStack() as stack:
        for host in lab.hosts:
            stack.enter_context(cuda.plant(host, **{**kind.usual, **(more if host is bad else {})}))
        if kind.is_of_port:
            sends, receives = (SLOW_GBPS if way in (end, "both") else FULL_GBPS for end in ("egress", "ingress"))
            for host in lab.hosts:
                stack.enter_context(host.rdma_tree(PORTS))
                stack.enter_context(perftest.plant(host, {"mlx5_1": (sends, receives)} if host is bad else {}))
        elif way:
            stack.callback(bad.shape, egress=RATE, ingress=RATE)
            egress, ingress = (BAD_RATE if way in (end, "both") else RATE for end in ("egress", "ingress"))
            bad.shape(egress=egress, ingress=ingress)
        yield way


def run(lab: Lab, words: tuple[str, ...] = WORDS) -> dict[str, Any]:
    """The report of a benchmark over all hosts, with the names of its logs."""
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, "-m", "preflight", "bench", f"--hosts={lab.names}", f"--python={sys.executable}"]
        done = lab.run([*argv, "--backend=nccl", f"--report-dir={folder}", *words], timeout_s=300)
        report = Path(folder) / "report.json"
        if not report.exists():
            sys.exit(done.stdout + done.stderr)
        found: dict[str, Any] = json.loads(report.read_text())
        logs = {path.name: path.read_text() for path in (Path(folder) / "logs").iterdir()}
    return {**found, "logs": logs}


def told(report: dict[str, Any]) -> list[tuple[str, tuple[str, ...], str]]:
    """Check, nodes and words of all that is not well."""
    return [
        (one["check"], tuple(one["nodes"]), one["message"])
        for one in report["findings"]
        if one["verdict"] in ("fail", "warn")
    ]


def why_not(report: dict[str, Any]) -> str:
    """Why nothing was measured, "" where it was."""
    errors = [one["message"] for one in report["findings"] if one["verdict"] == "error"]
    measured: str = (report["bench"] or {}).get("not_measured", "no bench")
    return " ".join([measured, *sorted(set(errors))[:2]])


def try_in_lab(lab: Lab, name: str, chance: random.Random) -> tuple[bool, str]:
    """Whether the host was named, with the way of a slow link, and nobody else; else what was said."""
    kind, bad = KINDS[name], chance.choice(lab.hosts)
    with planted_on(lab, kind, bad, chance) as way:
        report = run(lab, (*WORDS, *("--localize",) * kind.is_of_port))
    said = told(report)
    slow = [(one["nodes"], one["direction"]) for one in (report["bench"] or {}).get("slow", [])]
    is_right = slow == ([([bad.name], way)] if way else [])
    is_right &= all(nodes == (bad.name,) for _, nodes, _ in said)
    is_right &= any(check == kind.check for check, _, _ in said) if kind.check else not said
    is_right &= bool(report["bench"] and report["bench"]["results"])
    return is_right, f"{bad.name} {way}: {slow} {said} {why_not(report)}"


def try_ending(lab: Lab, name: str, chance: random.Random) -> tuple[bool, str]:
    """Whether the rank was named that ended, every rank's log of NCCL was kept, and no host holds anything more."""
    rank, before = chance.randrange(2 * HOSTS), lab.residue()
    bad = lab.hosts[rank // 2].name
    signal, patience = ENDINGS[name]
    act = ACT.format(rank=rank, call=chance.randint(2, 12), signal=signal)
    with ExitStack() as stack:
        for host in lab.hosts:
            stack.enter_context(cuda.plant(host, act, gpus=2, **patience))
        report = run(lab, TO_RANKS_OF_TWO)
    bench, left = report["bench"] or {}, lab.left_since(before)
    kept = [name for name, text in report["logs"].items() if name.endswith("-nccl.log") and "Init COMPLETE" in text]
    is_right = bench.get("not_measured_nodes") == [bad] and len(kept) == 2 * HOSTS and not left
    is_right &= bench.get("not_measured", "").startswith(f"rank {rank} on {bad} stopped at stage running")
    return is_right, f"rank {rank}: {why_not(report)}; {len(kept)} logs; left {left}"


def rows_of(folder: Path) -> Callable[[random.Random], tuple[bool, str]]:
    """A trial of a GID row on the nodes of a platform."""
    platform = BY_NAME[ROWS_ON]
    twin = Twin(node.make(platform, HOSTS, folder))
    twin.healthy = twin.documents()
    faults = {fault.name: fault for fault in faults_field.FAULTS}

    def try_row(chance: random.Random) -> tuple[bool, str]:
        outcome = planted.try_fault(twin, platform, faults[chance.choice(ROWS)])
        return outcome.is_named and not outcome.others, f"{outcome.fault}: {outcome.said}"

    return try_row


def trial_of(name: str, lab: Lab | None, folder: Path) -> Callable[[random.Random], tuple[bool, str]]:
    """How one run of a kind is made, and whether it was right, with what was said."""
    if lab is None or name == GID_ROW:
        return rows_of(folder)
    return partial(try_ending if name in ENDINGS else try_in_lab, lab, name)


def main() -> int:
    """Every kind in turn; ends with 1 where one run of them was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = [*KINDS, *ENDINGS, GID_ROW]
    parser.add_argument("kinds", nargs="*", choices=[*every, []], default=every, metavar="KIND", help=", ".join(every))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--after", type=int, default=0, help="how many runs of each kind were made before")
    options = parser.parse_args()
    wrong = 0
    print(f"{'planted':>12} {'right':>7} {'seconds: median':>16} {'most':>6}")
    with ExitStack() as stack:
        lab = stack.enter_context(Lab.create(HOSTS, rate=RATE)) if set(options.kinds) - {GID_ROW} else None
        for name in options.kinds:
            right, seconds, others = 0, [], []
            trial = trial_of(name, lab, Path(stack.enter_context(tempfile.TemporaryDirectory())))
            for number in range(options.after, options.after + options.runs):
                began = time.monotonic()
                is_right, words = trial(random.Random(f"{name} {number}"))
                right += is_right
                seconds.append(time.monotonic() - began)
                others += [] if is_right else [f"    {words}"]
            seconds.sort()
            middle = seconds[len(seconds) // 2]
            print(f"{name:>12} {right:4}/{options.runs} {middle:16.1f} {seconds[-1]:6.1f}", flush=True)
            print("\n".join(others), end="\n" * bool(others), flush=True)
            wrong += options.runs - right
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
