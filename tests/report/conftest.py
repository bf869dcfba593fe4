"""A report to start from; tests replace what they are about."""

import msgspec
import pytest

from preflight import __version__
from preflight.facts.results import Bench, Edge, Expected, Mesh, Result, Slow, Stream, TrainedRank, Training
from preflight.facts.results.rehearsal import Rehearsal, RehearsedRank, RehearsedScript
from preflight.judge.ledger.findings import Finding, Verdict, Where, worst
from preflight.report.changes import Changes, Drift, FactChange, FindingChange
from preflight.report.compare import Snapshot
from preflight.report.document import Counts, NodeInfo, Proof, RunInfo, RunReport
from preflight.report.facts import lasting
from preflight.testing import healthy
from tests.report.hostile import HOSTILE

CODES = {Verdict.PASS: 0, Verdict.WARN: 0, Verdict.FAIL: 1, Verdict.ERROR: 3, Verdict.SKIP: 5}


@pytest.fixture
def make_report():
    """Findings -> a consistent report over node1..nodeN."""

    def make(*findings, size=3, **changes):
        names = [f"node{number}" for number in range(1, size + 1)]
        cells = sum(len(finding.nodes) for finding in findings)
        verdict = worst(findings)
        report = RunReport(
            finished=True,
            run=RunInfo(
                id="20300102-030405-abcd",
                started="2030-01-02T03:04:05.678+00:00",
                seconds=41.2,
                command=("preflight", "run", "--hosts", "node[1-3]"),
                version=__version__,
            ),
            verdict=verdict,
            exit_code=CODES[verdict],
            nodes={name: NodeInfo(host=name, address=f"10.0.0.{i}", reached=True) for i, name in enumerate(names, 1)},
            ledger=Counts(expected=cells, judged=cells, not_asked=0),
            findings=tuple(findings),
        )
        return msgspec.structs.replace(report, **changes)

    return make


@pytest.fixture
def full_report(make_report, bench, training):
    """A report with every part filled."""
    return make_report(
        Finding(
            "network.mtu_is_the_same", Verdict.FAIL, ("node3",), "mtu: 9000 on node[1-2], 1500 on node3", "raise it"
        ),
        Finding("network.mtu_is_the_same", Verdict.PASS, ("node1", "node2"), "The MTU is the same"),
        Finding(
            "bench.is_fast",
            Verdict.ERROR,
            ("node1", "node2", "node3"),
            "not started: network.mtu_is_the_same on node3",
            blocked_by="network.mtu_is_the_same",
        ),
        Finding("limits.nofile", Verdict.WARN, ("node2",), "nofile is 1024", "ulimit -n 65536", seconds=0.25),
        Finding("gpu.driver", Verdict.SKIP, ("node1", "node2", "node3"), "no GPU on any node"),
        mesh=Mesh(edges=6, ok=5, failed=(Edge(source="node1", target="node3", port=40001, reason="filtered"),)),
        bench=bench,
        training=training,
        stages={"facts": 1.25, "mesh": 0.5},
        notes=("node1: text before our replies",),
        changes=changed("network.mtu_is_the_same", "mtu"),
    )


def changed(check, text):
    """Changes of every kind, with the same text wherever a node or a user can fill one."""
    change = FindingChange((check,), ("node1",), Verdict.PASS, Verdict.FAIL, text)
    return Changes(
        run=text,
        started=text,
        verdict=Verdict.PASS,
        new=(change,),
        fixed=(msgspec.structs.replace(change, before=Verdict.FAIL, verdict=Verdict.PASS),),
        standing=(msgspec.structs.replace(change, before=Verdict.FAIL),),
        not_judged=(msgspec.structs.replace(change, verdict=None),),
        facts=(FactChange(text, ("node1",), text, text),),
        bandwidth=(Drift(text, 8, text, text, True, 1.0, 0.9, 1.1, 0.5, 0.4, 0.6),),
        nodes_added=(text,),
        nodes_removed=(text,),
    )


@pytest.fixture
def bench():
    """An all-reduce of three ranks in two sizes."""
    small, large = (
        Result(
            op="all_reduce", bytes=size, iterations=20, seconds_first=0.6, seconds_median=0.5, seconds_p5=0.49,
            seconds_p95=0.52, seconds_low=0.498, seconds_high=0.502, cv=0.006, algbw_gbytes_per_s=0.0896,
            busbw_gbytes_per_s=0.1194, busbw_low_gbytes_per_s=0.119, busbw_high_gbytes_per_s=0.12, wrong=0,
        )
        for size in (1 << 20, 1 << 26)
    )  # fmt: skip
    return Bench(
        backend="gloo",
        world_size=3,
        nodes=3,
        results=(small, large),
        expected=Expected(
            busbw_gbytes_per_s=0.1196, bound_gbytes_per_s=None, derivation=("raw TCP stream 0.1196 GB/s",)
        ),
        slow=(Slow(nodes=("node3",), direction="egress", gbytes_per_s=0.02, peers_gbytes_per_s=0.119),),
    )


@pytest.fixture
def training():
    """Three ranks, the last one slow."""
    ranks = tuple(
        TrainedRank(
            rank=rank,
            node=f"node{rank + 1}",
            device="cpu",
            step_seconds_median=0.1 + 0.1 * (rank == 2),
            step_seconds_p95=0.2,
            parameters_digest="abc",
            gradient_error=0.0,
            parameters_error=0.0,
            import_seconds=1.5,
            finite=True,
        )
        for rank in range(3)
    )
    return Training(launcher="direct", world_size=3, losses=(4.17, 3.0, 2.31), ranks=ranks)


@pytest.fixture
def make_hostile(make_report, bench, training):
    """The same text in every string that a node, a user or a file can fill."""

    def make(text):
        replace = msgspec.structs.replace
        findings = tuple(
            Finding(
                f"{text}.{verdict}{text}",
                verdict,
                ("node1", text),
                f"{verdict} {text}",
                f"do {text}",
                (Where(f"a{text}", 1),),
            )
            for verdict in Verdict
        )
        streams = (
            Stream(source=text, target="node1", shift=1, gbytes_per_s=1.0),
            Stream(source="node1", target=text, shift=1, gbytes_per_s=0.4),
        )
        return make_report(
            *findings,
            run=RunInfo(id=text, started=text, seconds=1.0, command=(text,), version=text),
            nodes={
                text: NodeInfo(host=text, address=text, reached=True),
                "node1": NodeInfo(host="h", address="a", reached=True),
            },
            mesh=Mesh(
                edges=2,
                ok=0,
                failed=(Edge(source=text, target=text, port=1, reason="reset", detail=text),),
                unmeasured={text: text},
            ),
            bench=replace(
                bench,
                backend=text,
                results=tuple(replace(result, op=text, dtype=text) for result in bench.results),
                expected=Expected(busbw_gbytes_per_s=1.0, bound_gbytes_per_s=None, derivation=(text,)),
                slow=(Slow(nodes=(text,), direction="both", gbytes_per_s=1.0, peers_gbytes_per_s=2.0),),
                streams=streams,
                not_measured=text,
                not_measured_nodes=(text,),
            ),
            training=replace(
                training,
                launcher=text,
                backend=text,
                not_measured=text,
                ranks=tuple(replace(rank, node=text, device=text, parameters_digest=text) for rank in training.ranks),
            ),
            rehearsal=Rehearsal(
                scripts=(RehearsedScript(node=text, file=text, folder=text),),
                ranks=(RehearsedRank(rank=0, world_size=1, node=text, stage=text, interpreter=text),),
                causes=(),
                backend=text,
            ),
            plan={
                "launches": [
                    {
                        "launcher": text,
                        "file": text,
                        "line": 1,
                        "nodes": {"value": text, "file": text, "line": 2, "origin": text},
                        "rank": {"unknown": text, "file": text, "line": 3},
                        "environment": {text: text},
                        "command": f"run {text}",
                    }
                ],
                "ranks": [dict.fromkeys(("rank", "node", "local_rank", "device", "interface", "address"), text)],
            },
            stages={text: 1.0},
            profile=text,
            notes=(text,),
            changes=changed(text, text),
        )

    return make


@pytest.fixture(params=range(len(HOSTILE)), ids=[f"payload{number}" for number in range(len(HOSTILE))])
def hostile_report(request, make_hostile):
    """A report full of one hostile text."""
    return make_hostile(HOSTILE[request.param])


@pytest.fixture
def planted(make_report, bench, training):
    """Three nodes of which the last has another MTU, with what follows from it."""
    names = ("node1", "node2", "node3")
    cause = "network.mtu_is_the_same_on_every_node"
    return make_report(
        Finding(
            cause,
            Verdict.FAIL,
            ("node3",),
            "mtu of the training interface (bytes): 9000 on node[1-2], 1500 on node3",
            "`ip link set dev <interface> mtu <the others' mtu>` on the nodes named",
        ),
        Finding(cause, Verdict.PASS, ("node1", "node2"), "The training interface has the same MTU on every node."),
        *(
            Finding(f"bench.check{number}", Verdict.ERROR, names, f"not started: {cause} on node3", blocked_by=cause)
            for number in range(6)
        ),
        *(Finding(f"names.check{number}", Verdict.PASS, names, "Names are resolved.") for number in range(30)),
        *(Finding(f"gpu.check{number}", Verdict.SKIP, names, "no GPU on any node") for number in range(12)),
        mesh=Mesh(edges=6, ok=6, failed=()),
        bench=bench,
        training=training,
        stages={"facts": 0.4, "mesh": 0.1},
    )


@pytest.fixture
def series(make_report):
    """Runs that measured such bandwidths, in GB/s, one a day."""

    def made(values, *, step=0.1, run=None, proved=(), sizes=()):
        found = []
        for place, value in enumerate(values):
            given = run or healthy(3)
            bench = given.measured_bench
            result = msgspec.structs.replace(
                bench.results[0],
                bytes=sizes[place] if sizes else 1 << 26,
                busbw_gbytes_per_s=value,
                busbw_low_gbytes_per_s=value * 0.98,
                busbw_high_gbytes_per_s=value * 1.02,
            )
            seconds = step[place] if isinstance(step, list) else step
            ranks = tuple(
                msgspec.structs.replace(rank, step_seconds_median=seconds) for rank in given.measured_training.ranks
            )
            proof = Proof(run="r0", at="2030-01-01T00:00:00+00:00", jobs=("bench",)) if place in proved else None
            report = make_report(
                run=RunInfo(
                    id=f"r{place}",
                    started=f"2030-01-{place + 1:02}T04:00:00+00:00",
                    seconds=9.0,
                    command=("x",),
                    version="1",
                ),
                bench=msgspec.structs.replace(bench, results=(result,)),
                training=msgspec.structs.replace(given.measured_training, ranks=ranks),
                nodes={n: NodeInfo(host=n, address=n, reached=True, proof=proof) for n in ("node1", "node2", "node3")},
            )
            found.append(Snapshot(report, {node.name: lasting(node) for node in given.cluster}))
        return found

    return made
