"""What do tests/data/said/gathered.txt list: what every node is asked, within which time, and what it gives?"""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import Iterator
from typing import Any

from preflight.facts.value import Missing
from preflight.job.collect import ending, files, record, subjects, trust, vendor
from preflight.job.measure import mesh, rendezvous
from preflight.job.measure.rdma import writes
from preflight.job.options.options import Options
from preflight.reach.hosts import parse_hosts
from preflight.said.errors import HostError
from preflight.testing import healthy, infiniband, roce
from preflight.testing.hardware import gpus
from tests import found
from tests.job.collect import asked as asked_of
from tests.job.collect.nodes import LOST, Call, Node
from tests.job.figures import figures
from tests.job.measure.played import PlayedNode, job_of
from tests.job.measure.rehearsal import followed

LAYERS = [("--env", {"A": "1"})]


def asked(title: str, work: Any, nodes: dict[str, Node]) -> Iterator[str]:
    """What each node was asked, and what came of it."""
    yield f"=== {title}"
    result = asyncio.run(work)
    for name, node in nodes.items():
        yield f"{name}: {' | '.join(node.told)}"
    yield f"gives {figures(result)}"


def of(count: int = 2, *, lost: tuple[str, ...] = (), **scripts: list[Any]) -> dict[str, Node]:
    """Nodes that answer so, and some that are gone."""
    return {f"n{i}": Node(f"n{i}", **({} if f"n{i}" in lost else scripts)) for i in range(1, count + 1)}


def of_ending() -> Iterator[str]:
    """The subjects that are one call: the end, raw material, logins and vendors' tests."""
    for lost in ((), ("n2",)):
        nodes = of(ending=[{"ports": {}}], lost=lost)
        yield from asked(f"ending {lost}", ending.collect(nodes, LAYERS), nodes)  # type: ignore[arg-type]
        good, bad = {"files": [{"path": "a", "text": "b"}]}, {"files": [{"path": "../a", "text": ""}]}
        for told in (good, bad):
            nodes = of(record=[told, good], lost=lost)
            yield from asked(f"record {lost}", record.collect(nodes, key="0"), nodes)  # type: ignore[arg-type]
    hosts = {host.name: host for host in parse_hosts("root@n[1-40]")}
    for count, options in itertools.product(
        (1, 2, 33), (Options(), Options(ssh_trust=True, python="/p", env=("A=1",)))
    ):
        nodes = of(count, trust=[{"logins": []}], lost=("n2",))
        yield from list(asked(f"trust {count}", trust.collect(nodes, hosts, options), nodes))[:5]  # type: ignore[arg-type]
    for words in ({}, {"vendor_tests": "dcgmi:1,rvs"}, {"vendor_tests": "rvs", "force": True}):
        busy = roce().broken("node2", "gpu", devices=gpus(8, processes=1))
        nodes = {name: Node(name, vendor=[{"rvs": []}]) for name in busy.names}
        work = vendor.collect(nodes, busy.cluster, Options(**words, env=("A=1",)))  # type: ignore[arg-type]
        yield from asked(f"vendor {words}", work, nodes)
    nodes = {name: Node(name) for name in healthy(2).names}
    options = Options(vendor_tests="rvs")
    yield from asked("vendor is lost", vendor.collect(nodes, healthy(2).cluster, options), nodes)  # type: ignore[arg-type]


def of_files() -> Iterator[str]:
    """Paths that are shared or the same: who writes, who reads, and what a refusal or a loss changes."""
    whole = [True, {}, True, {"places": []}]
    scripts = {
        "all well": (whole, whole, whole),
        "the first may not write": ([True, {"/a": "read-only"}, True, {}], whole, whole),
        "the first is lost in writing": ([True, LOST], whole, whole),
        "the first is lost in reading": ([True, {}, HostError("n", "slow")], whole, whole),
        "the second never looked": (whole, [HostError("n", "hangs")], [True, True, {}]),
        "nobody may write": tuple([True, {"/a": "no", "/b": "no"}, True, {}] for _ in range(5)),
    }
    usual = {"run_id": "x", "env": ("A=1",), "named": ("/n",)}
    for (title, some), seconds in itertools.product(scripts.items(), (100.0, 10.0)):
        nodes = {f"n{i}": Node(f"n{i}", files=script) for i, script in enumerate(some, 1)}
        options = Options(shared=("/a", "/b"), checkpoint_dir="/b", **usual)  # type: ignore[arg-type]
        yield from asked(f"{title} {seconds}", files.collect(nodes, options, seconds=seconds), nodes)  # type: ignore[arg-type]
    for same in ((), ("/s", "/t", "/u")):
        nodes = of(files=[{"places": []}])
        yield from asked(f"same {same}", files.collect(nodes, Options(same=same, **usual)), nodes)  # type: ignore[arg-type]


def of_rounds() -> Iterator[str]:
    """The first round of facts, and the one about peers."""
    answers = {
        "two subjects": [{"subject": "kernel", "facts": {}}, {"subject": "gpu", "missing": "no"}, {"collected": True}],
        "one of another kind": [{"subject": "gpu", "missing": "no", "kind": "absent"}, {"collected": True}],
        "a subject twice": [{"subject": "kernel", "facts": {}}, {"subject": "kernel", "missing": "x"}],
        "an unknown subject": [{"subject": "x", "facts": {}}],
        "neither": [{"subject": "kernel"}],
        "lost at once": [HostError("n", "gone")],
        "lost later": [{"subject": "kernel", "facts": {}}, HostError("n", "gone")],
    }
    for title, script in answers.items():
        for until in (20.0, 200.0):
            node = Node("n1", facts=script)
            calls: dict[str, Any] = {}

            async def ask(node: Node = node, calls: dict[str, Any] = calls, until: float = until) -> Any:
                return await subjects.facts_of(node, 3, LAYERS, calls, until=time.monotonic() + until)  # type: ignore[arg-type]

            try:
                yield from asked(f"{title} {until}", ask(), {"n1": node})
            except HostError as error:
                yield f"raises {' '.join(found.values(error.reason))}"
            yield f"goes on with {sorted(calls)}"
    yield from of_answers()
    for run, script in itertools.product(
        (healthy(3), healthy(3).with_variables(MASTER_PORT="29500", MASTER_ADDR="node1"), healthy(1)),
        ([{"subject": "peers", "facts": {}}], [HostError("n", "gone")]),
    ):
        cluster = run.cluster
        for member in cluster.nodes[:2]:
            node = Node(member.name)
            work = subjects.peers_of(Call(node, script), member, cluster, [one.name for one in cluster])  # type: ignore[arg-type]
            yield from asked(f"peers of {member.name} of {len(cluster)}", work, {member.name: node})


def of_answers() -> Iterator[str]:
    """What nodes gave in two rounds, put together in the order of HOSTS."""
    answered = subjects.Answered(2)
    for index, name in enumerate(("n2", "n1")):
        node = Node(name, facts=[{"subject": "kernel", "missing": "no"}, {"collected": True}])
        calls: dict[str, Any] = {}
        answered.take(asyncio.run(subjects.facts_of(node, index, LAYERS, calls, until=time.monotonic() + 9)))  # type: ignore[arg-type]
    documents, cluster = answered.whole(["n1", "n2", "n3"], "gloo")
    yield f"{[node.name for node in cluster]} {sorted(cluster.nodes[0].missing)}"
    answers = {"n2": ({}, {"files": Missing("gone")}), "n1": ({}, {"trust": Missing("no", "absent")})}
    _, whole = subjects.with_answers(documents, cluster, answers)  # type: ignore[arg-type]
    yield from (f"{node.name}: {figures(node.missing)}" for node in whole)


def of_meshes() -> Iterator[str]:
    """The connections between nodes, and to the port of rank 0."""
    places = {f"n{i}": f"10.0.0.{i}" for i in (1, 2, 3)}

    def script(number: int, **other: Any) -> list[Any]:
        heard = [name for name in places if name != f"n{number}"]
        edges = [
            {
                "to": name,
                "port": 5000,
                "outcome": other.get("outcome", "ok"),
                "detail": "d",
                "source_address": "1.2.3.4",
            }
            for name in heard
        ]
        return [[places[f"n{number}"], 5000], 2, {"edges": edges, "heard": heard, "strangers": 0}]

    way = {"to": "n1", "interface": "eth0", "gateway": "", "hardware": "", "state": "known"}
    plans: dict[str, list[list[Any]]] = {
        "all well": [script(i) for i in (1, 2, 3)],
        "refused": [script(1), script(2, outcome="refused"), script(3)],
        "elsewhere": [script(1), [["10.0.0.9", 5000]], script(3)],
        "no port": [script(1), [HostError("n", "slow")], script(3)],
        "lost": [script(1), [*script(2)[:1], HostError("n", "gone")], script(3)],
        "other edges": [script(1), [*script(2)[:2], {**script(2)[2], "edges": script(3)[2]["edges"]}], script(3)],
        "other ways": [script(1), [*script(2)[:2], {**script(2)[2], "ways": [{**way, "to": "n9"}]}], script(3)],
        "a way": [script(1), [*script(2)[:2], {**script(2)[2], "ways": [way]}], script(3)],
        "others were heard": [script(1), [*script(2)[:2], {**script(2)[2], "heard": ["n9"]}], script(3)],
        "a port that is none": [script(1), [["10.0.0.2", 0]], script(3)],
        "not a mesh": [script(1), [*script(2)[:2], {"edges": 7}], script(3)],
        "an error of ours": [script(1), [], script(3)],
    }
    for title, scripts in plans.items():
        nodes = {name: Node(name, mesh=script) for name, script in zip(places, scripts, strict=True)}
        told = list(asked(title, mesh.run(nodes, places, full=True, seconds=9.0), nodes))  # type: ignore[arg-type]
        yield from (re.sub(r" seconds=(\S+)", took, line) for line in told)
    first = [["10.0.0.1", 29500], {"edges": [], "heard": ["n2", "n3"], "strangers": 0}]
    for title, scripts in {
        "port": [first, script(2), script(3)],
        "taken": [[HostError("n", "in use")], script(2), script(3)],
    }.items():
        for number, one in enumerate(scripts[1:], 2):
            one[-1] = {**one[-1], "edges": [{**one[-1]["edges"][0], "port": 29500}], "heard": []}
            one[0] = [places[f"n{number}"], 5000]
        nodes = {name: Node(name, mesh=script) for name, script in zip(places, scripts, strict=True)}
        work = rendezvous.run(nodes, places, port=29500, seconds=9.0)  # type: ignore[arg-type]
        yield from asked(f"{title} of rank 0", work, nodes)
    yield figures(rendezvous.joined([]))


def took(found_there: re.Match[str]) -> str:
    """Whether a mesh took moments, as it does where nobody is there."""
    return f" {'moments' if 0 <= float(found_there[1]) < 60 else 'long'}"


def of_ports() -> Iterator[str]:
    """RDMA ports that are tried against each other: which ones, and what is said of them."""
    for name, run in {"IB": infiniband(3), "RoCE": roce(2), "none": healthy(2)}.items():
        ports = writes.ports_of(run.cluster)
        yield f"=== {name}"
        yield from (f"{figures(port)}" for port in ports[:2])
        yield f"{len(ports)} {figures(writes.spaces(ports))[:300]}"
        for rates in (LOST, (48.0, 48.0), (48.0, 5.0), (900.0, 48.0), (None, 48.0), (None, None)):

            def said(number: int, rates: Any = rates) -> dict[str, Any]:
                if rates is LOST:
                    raise LOST
                rate = rates[number == 1]
                return {"error": f"status {number}"} if rate is None else {"gbytes_per_s": rate}

            nodes = {node.name: PlayedNode({}, write=said) for node in run.cluster}
            heard: list[str] = []
            job = job_of(*nodes, backend="nccl")
            told = asyncio.run(writes.search(nodes, run.cluster, job, threshold=0.8, say=heard.append))  # type: ignore[arg-type]
            yield f"{rates}: {figures(told.slow)} {len(told.parts)} {figures(told.disputed)} | {told.not_measured}"
            yield f"  {[' '.join(found.values(line)) for line in heard]}"


def sections() -> found.Sections:
    """Everything."""
    own = {"ending": of_ending, "files": of_files, "rounds": of_rounds, "meshes": of_meshes, "ports": of_ports}
    rehearsed = {"rehearsed": followed.of_rehearsals, "prepared": followed.of_preparations, "pods": followed.of_pods}
    whole = {"fleets": asked_of.of_fleets, "writes": asked_of.of_writes, "messages": asked_of.of_messages}
    return {**own, **rehearsed, "refused": followed.of_refusals, **whole}
