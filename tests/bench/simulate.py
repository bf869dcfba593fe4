"""Are slow nodes found among 2 to 4096, and nobody else accused? ``python -m tests.bench.simulate``.

    python -m tests.bench.simulate --share 0.1 16 4096

Simulated links: 5 % noise, 1 % of the streams disturbed, one to N/16 nodes at 0.1 to 0.7 of the rate in a direction of
their own. Of two nodes, and where one to three paths are slow, no node may be named at all. One liar among three and
more says of its streams whatever it likes, with a slow node beside it among five and more: no honest node may be named.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence

from preflight.facts.results import Slow, Stream
from preflight.job.measure import slow
from preflight.judge.blame import attested

USUAL = 0.12  # GB/s
RUNS = {2: 1000, 3: 1000, 4: 1000, 8: 1000, 16: 1000, 64: 500, 256: 200, 1024: 60, 4096: 20}
FALSE_MOST = 0.003  # nodes a run


class Network:
    """Links whose slow ends and paths are shares of 0.12 GB/s, with noise and passing disturbances."""

    def __init__(self, *, egress=None, ingress=None, path=None, noise=0.0, disturbed=0.0, seed=0, lies=None):
        self.egress, self.ingress, self.path = egress or {}, ingress or {}, path or {}
        self.lies = lies or {}  # node -> what it says of a stream, given its peer, whether it sends, and the truth
        self.noise, self.disturbed = noise, disturbed
        self.chance = random.Random(seed)
        self.rounds = 0

    def stream(self, source, target, shift=1):
        """What one stream carries."""
        share = min(self.egress.get(source, 1.0), self.ingress.get(target, 1.0), self.path.get((source, target), 1.0))
        if self.chance.random() < self.disturbed:
            share *= self.chance.uniform(0.3, 0.9)
        rate = USUAL * share * (1 + self.chance.uniform(-self.noise, self.noise))
        sent = self.lies[source](target, True, rate) if source in self.lies else rate
        received = self.lies[target](source, False, rate) if target in self.lies else rate
        return attested(source, target, shift, sent=sent, received=received)

    def measure(self, pairs):
        """One round; a node sends and receives once at most."""
        self.rounds += 1
        assert len({source for source, _ in pairs}) == len({target for _, target in pairs}) == len(pairs)
        assert all(source != target for source, target in pairs)
        return [self.stream(source, target) for source, target in pairs]


def names(count):
    """Node names."""
    return tuple(f"n{index:04d}" for index in range(count))


def searched(nodes, network, *, is_full=False) -> tuple[Sequence[Stream], Sequence[Slow]]:
    """What a search over such a network finds."""
    rounds = slow.search(nodes, is_full=is_full)
    try:
        pairs = next(rounds)
        while True:
            pairs = rounds.send(network.measure(pairs))
    except StopIteration as end:
        return end.value


def planted(nodes, count, chance):
    """So many slow nodes, each in its own direction: (who and which way, egress, ingress)."""
    bad = sorted(chance.sample(nodes, count))
    ways = [chance.choice(["egress", "ingress", "both"]) for _ in bad]
    egress = {node: chance.uniform(0.1, 0.7) for node, way in zip(bad, ways, strict=True) if way != "ingress"}
    ingress = {node: chance.uniform(0.1, 0.7) for node, way in zip(bad, ways, strict=True) if way != "egress"}
    return [((node,), way) for node, way in zip(bad, ways, strict=True)], egress, ingress


SAYINGS = (0.0, 1e-9, 0.3, 0.55, 0.79, 0.9, 1.0, 1.3, 1.9, 3.0, 1e4)  # over the truth


def planted_beside_a_liar(nodes, network, chance):
    """A liar with a saying of its own for each peer and side, and among five nodes or more a node that is slow."""
    liar, *others = chance.sample(nodes, len(nodes))
    sayings = {(peer, sends): chance.choice(SAYINGS) for peer in nodes for sends in (True, False)}
    lies = {liar: lambda peer, sends, rate: rate * sayings[peer, sends]}
    if len(nodes) < 5 or chance.random() < 0.5:
        return [], lies
    slow_one = others[0]
    network.egress, network.ingress = {slow_one: chance.uniform(0.1, 0.55)}, {slow_one: 0.3}
    return [((slow_one,), "both")], lies


def simulate(kind: str, count: int, runs: int) -> tuple[int, int, int, int]:
    """Over all runs: bad nodes, those found with their direction, nodes named falsely, and the most rounds of a run."""
    nodes, bad, right, false, rounds = names(count), 0, 0, 0, 0
    for seed in range(runs):
        chance = random.Random(seed)
        network, wanted = Network(noise=0.05, disturbed=0.01, seed=seed), []
        if kind == "nodes" and count > 2:
            wanted, network.egress, network.ingress = planted(nodes, chance.randint(1, max(1, count // 16)), chance)
        if kind == "a liar" and count > 2:
            wanted, network.lies = planted_beside_a_liar(nodes, network, chance)
        if kind == "paths":
            most = max(1, min(3, count - 2))  # all paths of a node are that node
            network.path = {tuple(chance.sample(nodes, 2)): 0.2 for _ in range(chance.randint(1, most))}
        told = [(place.nodes, place.direction) for place in searched(nodes, network)[1]]
        bad += len(wanted)
        right += len(set(told) & set(wanted))
        bad_nodes = {*(node for node, _ in wanted), *((liar,) for liar in network.lies)}
        false += sum(direction != "path" and place not in bad_nodes for place, direction in told)
        if network.lies:  # with a liar no path of honest nodes either
            honest = set(nodes) - {name for place in bad_nodes for name in place}
            false += sum(direction == "path" and bool(honest & set(place)) for place, direction in told)
        rounds = max(rounds, network.rounds)
    return bad, right, false, rounds


def main() -> int:
    """A row for each number of nodes and each kind of fault; 1 where a figure misses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("counts", nargs="*", type=int, default=list(RUNS), metavar="NODES")
    parser.add_argument("--share", type=float, default=1.0, help="of the runs (1)")
    options = parser.parse_args()
    missed, sums = 0, [0] * 4
    print(f"{'nodes':>5} {'planted':>8} {'runs':>5} {'bad nodes':>9} {'recall':>7} {'false a run':>11} {'rounds':>6}")
    for count in options.counts:
        for kind in ("healthy", "nodes", "paths", "a liar"):
            runs = max(1, round(RUNS.get(count, 60) * options.share))
            bad, right, false, rounds = simulate(kind, count, runs)
            recall = f"{right / bad:.4f}" if bad else "-"
            missed += right < bad or false / runs > FALSE_MOST
            sums = [before + now for before, now in zip(sums, (runs, bad, right, false), strict=True)]
            print(f"{count:5} {kind:>8} {runs:5} {bad:9} {recall:>7} {false / runs:11.4f} {rounds:6}", flush=True)
    print("{:,} runs, {} bad nodes, {} found with their direction, {} false".format(*sums))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
