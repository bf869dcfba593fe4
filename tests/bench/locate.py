"""Is one bad host of eight named, with its direction, and a healthy one never? ``python -m tests.bench.locate``.

    python -m tests.bench.locate --runs 5 egress path

Links have 200 Mbit, the bad one 40. One set of sessions serves all trials; the shaping changes between them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from preflight.job.collect import subjects
from preflight.job.measure import streams
from preflight.judge.settings import Settings
from preflight.reach.hosts import parse_hosts
from preflight.reach.session.fleet import Fleet
from preflight.reach.transport import Reach
from tests.lab.faults import Planted
from tests.lab.lab import Lab

HOSTS = 8
RATE, BAD_RATE = "200mbit", "40mbit"
KINDS = ("healthy", "egress", "ingress", "both", "path")


def serve(names: str, python: str) -> None:
    """In the controller: a search for every line on stdin, its verdict as a line on stdout."""
    fleet = Fleet(
        parse_hosts(names), Reach(python=python), run_id=f"locate-{os.getpid()}", deadline=time.monotonic() + 900
    )
    try:
        _, cluster = fleet.run(subjects.collect(fleet, [], "gloo"), seconds=60)
        addresses = {node.name: node.address_for_peers() for node in cluster}
        print("ready", flush=True)
        for _ in sys.stdin:
            began = time.monotonic()
            work = streams.search(fleet.sessions, addresses, threshold=Settings().bench.slow_below)
            _, slow = fleet.run(work, seconds=60)
            told = [[list(place.nodes), place.direction] for place in slow]
            print(json.dumps({"slow": told, "seconds": time.monotonic() - began}), flush=True)
    finally:
        fleet.close()


def plant(lab: Lab, kind: str, chance: random.Random) -> tuple[Planted, list]:
    """A fault of this kind somewhere, and what must be told of it."""
    bad, peer = chance.sample(lab.hosts, 2)
    if kind == "healthy":
        return Planted(lambda: None), []
    if kind == "path":
        return bad.slow_path(peer, rate=BAD_RATE, usual_rate=RATE), [[[bad.name, peer.name], "path"]]
    egress = BAD_RATE if kind in ("egress", "both") else RATE
    ingress = BAD_RATE if kind in ("ingress", "both") else RATE
    bad.shape(egress=egress, ingress=ingress)
    return Planted(lambda: bad.shape(egress=RATE, ingress=RATE)), [[[bad.name], kind]]


@contextmanager
def searching(lab: Lab) -> Iterator[subprocess.Popen]:
    """A process in the controller that searches on request."""
    argv = [sys.executable, "-m", "tests.bench.locate", "--serve", lab.names]
    process = lab.start(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if process.stdout.readline() != "ready\n":
        sys.exit("the sessions did not come up")
    yield process
    process.stdin.close()
    process.wait(timeout=20)


def main() -> int:
    """Every kind of fault in turn, on hosts drawn with a fixed seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=KINDS)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--serve", metavar="HOSTS")
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, sys.executable)
        return 0
    wrong = 0
    print(f"{'planted':>8} {'right':>7} {'seconds: median':>16} {'most':>6}")
    with Lab.create(HOSTS, rate=RATE) as lab, searching(lab) as process:
        for kind in options.kinds:
            chance, right, seconds, others = random.Random(kind), 0, [], []
            for _ in range(options.runs):
                planted, wanted = plant(lab, kind, chance)
                with planted:
                    process.stdin.write("go\n")
                    process.stdin.flush()
                    found = json.loads(process.stdout.readline())
                right += found["slow"] == wanted
                seconds.append(found["seconds"])
                if found["slow"] != wanted:
                    others.append(f"         wanted {wanted}, found {found['slow']}")
            seconds.sort()
            print(
                f"{kind:>8} {right:4}/{options.runs} {seconds[len(seconds) // 2]:14.1f} {seconds[-1]:8.1f}", flush=True
            )
            print("\n".join(others), end="\n" * bool(others), flush=True)
            wrong += options.runs - right
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
