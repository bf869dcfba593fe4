"""What would the checks say if any one fact of a node were missing, or another one?

Each node of a made-up cluster has one field of its facts changed, so that a few clusters hold all of them: what could
not be read (it failed, or is not there), and for each kind of value some others; of what was measured each figure is
another one in a cluster of its own. Which checks speak of which field, and
what they say to type, is listed in tests/data/said/planted.txt: whoever changes a check, a limit or a row sees there
what it does to the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from preflight.facts.subjects import SUBJECTS
from preflight.facts.value import Missing
from preflight.judge.ledger.findings import Finding, Verdict
from preflight.testing import FakeRun, healthy, infiniband, roce
from tests import found as said
from tests.checks.full import full
from tests.checks.samples import check, checks, judge, with_netdevs


def unset(run: FakeRun) -> FakeRun:
    """The same nodes with a job that leaves every choice to NCCL."""
    kept = {name: run.subjects[name]["environment"].variables for name in run.names}
    for name, held in kept.items():
        left = {variable: value for variable, value in held.items() if variable.startswith("MASTER")}
        run = run.broken(name, "environment", variables=left)
    return run


LOST = {"failed": Missing("not read", "failed"), "absent": Missing("not there", "absent")}
NODES = 40  # of a cluster; the first is as it should be
SMALL = 4
RUNS: dict[str, Callable[[int], FakeRun]] = {
    "bare": healthy,
    "roce": roce,
    "full": lambda count: unset(full(roce(count))),
    "infiniband": infiniband,
    "netdevs": lambda count: with_netdevs(roce(count)),
}
SUBJECTS_OF = {
    "bare": ("gpu", "network", "peers", "rdma", "software"),
    "roce": tuple(SUBJECTS),
    "full": ("network", "rdma", "machine", "kernel", "peers", "ending"),
    "infiniband": ("gpu", "rdma"),
    "netdevs": ("network", "rdma"),
}
# The checks that are asked on a cluster that differs from the first in what these look at.
OF = {
    "bare": ("",),
    "full": ("",),
    "roce": ("",),
    "infiniband": ("rdma.", "gpu.imex", "gpu.an_nvlink"),
    "netdevs": ("rdma.", "network.", "names."),
}
ONCE = ("half", "longer", "none")  # of the other values those that are tried in two places at once
OF_NODES = ("node", "cluster", "ending")
MEASURED = ("roce bench", "roce training", "infiniband bench")  # kinds of checks, and what a run measured for them
# A run asks for the peers by its own names, and gives no name to a node that has none.
OF_THE_RUN = ("routes.name",)


def others(value: Any) -> Iterator[tuple[str, Any]]:
    """Some other values of the same kind, each with a word for it."""
    if isinstance(value, bool):
        yield str(not value), not value
    elif isinstance(value, int | float):
        for word, other in {"0": 0, "half": value / 2, "one more": value + 1, "twice": value * 2}.items():
            if type(value)(other) != value:
                yield word, type(value)(other)
    elif isinstance(value, str):
        yield from (("''", ""), ("longer", f"{value}1")) if value else (("x1", "x1"),)
    elif isinstance(value, tuple | dict) and value and not is_named(value):
        yield "none", type(value)()


def is_named(value: Any) -> bool:
    """Is it a tuple whose items have names?"""
    return isinstance(value, tuple) and hasattr(value, "_fields")


def plants(value: Any, kind: str) -> Iterator[tuple[str, str, Any]]:
    """Field, word and the value with one field changed, however deep: of a list the last, of a table the first item.

    Of lists that were measured the first too, and both: they are of several collectives and nodes, where facts list
    what is alike.
    """
    if isinstance(value, msgspec.Struct) or is_named(value):
        names = value._fields if is_named(value) else value.__struct_fields__
        hints = get_type_hints(type(value))
        for name in names:
            held = getattr(value, name)
            for path, word, other in [*plants(held, kind), *of_field(held, hints[name], kind)]:
                try:
                    with_other = type(value)._replace if is_named(value) else msgspec.structs.replace
                    made = with_other(value, **{name: other})
                except ValueError:
                    continue  # none that a node may send
                yield f"{name}.{path}".rstrip("."), word, made
    elif isinstance(value, tuple) and value:
        for path, word, other in plants(value[-1], kind):
            yield path, word, (*value[:-1], other)
        if kind == "measured" and len(value) > 1:
            firsts = {(path, word): other for path, word, other in plants(value[0], kind)}
            for (path, word), other in firsts.items():
                yield f"first.{path}".rstrip("."), word, (other, *value[1:])
            for path, word, other in plants(value[-1], kind):
                if (path, word) in firsts and word in ONCE:
                    yield f"both.{path}".rstrip("."), word, (firsts[path, word], *value[1:-1], other)
    elif isinstance(value, dict) and value:
        key = next(iter(value))
        for path, word, other in plants(value[key], kind):
            yield path, word, {**value, key: other}


def of_field(held: Any, hint: Any, kind: str) -> Iterator[tuple[str, str, Any]]:
    """What may stand in a field in place of what it holds."""
    if kind not in LOST:
        yield from (("", word, other) for word, other in others(held))
    elif get_origin(hint) in (Union, UnionType) and Missing in get_args(hint) and held != LOST[kind]:
        yield "", kind, LOST[kind]


def possible(facts: Any, kind: str) -> Iterator[tuple[str, str]]:
    """Field and word of the plants that a node may send."""
    for field, word, made in plants(facts, kind):
        with suppress(msgspec.ValidationError):
            msgspec.convert(msgspec.to_builtins(made), type(made))
            if field not in OF_THE_RUN:
                yield field, word


def planted(healthy: FakeRun, subject: str, kind: str) -> Iterator[tuple[FakeRun, dict[str, str]]]:
    """Clusters with a plant on each node but the first, and what each node's is."""
    every = list(possible(healthy.subjects["node2"][subject], kind))
    for first in range(0, len(every), NODES - 1):
        run, labels = healthy, {}
        for (field, word), node in zip(every[first:], run.names[1:], strict=False):
            own = {(one, how): facts for one, how, facts in plants(run.subjects[node][subject], kind)}
            if (field, word) in own:
                run, labels[node] = run.with_subject(node, subject, own[field, word]), f"{field}={word}"
        yield run, labels


@cache
def kept(base: str, count: int) -> FakeRun:
    """A cluster as it should be: of many nodes it takes long to make."""
    return RUNS[base](count)


def cluster_of(base: str, count: int) -> FakeRun:
    """The same without what is noted while it is judged."""
    return replace(kept(base, count))


def told(base: str, subject: str, kind: str, asked: Collection[str] | None = None) -> Iterator[str]:
    """What checks of nodes, or those asked, say of each field that they do not say of the cluster as it should be."""
    healthy = cluster_of(base, NODES)
    names = [name for name in checks() if check(name).kind in OF_NODES and name.startswith(OF[base])]
    names = [name for name in names if asked is None or name in asked]
    usual = {(name, one.verdict, one.message) for name in names for one in judge(name, healthy)}
    for run, labels in planted(healthy, subject, kind):
        for name in names:
            found = [one for one in judge(name, run) if (name, one.verdict, one.message) not in usual]
            yield from of_check(name, found, labels)


def told_of_measured(base: str, kind: str, asked: Collection[str] | None = None) -> Iterator[str]:
    """What checks of what was measured say where one figure of it is another: each in a small cluster of its own."""
    healthy = cluster_of(base, SMALL)
    field = f"measured_{kind}"
    measured = getattr(healthy, field)
    names = [name for name in checks() if check(name).kind == kind and (asked is None or name in asked)]
    usual = {(name, one.verdict, one.message) for name in names for one in judge(name, healthy)}
    of: dict[str, list[str]] = defaultdict(list)
    for path, word, made in plants(measured, "measured"):
        run = replace(healthy, **{field: made})
        for name in names:
            found = [one for one in judge(name, run) if (name, one.verdict, one.message) not in usual]
            for line in of_check(name, found, {node: node for node in run.names}):
                of[line].append(f"{path}={word}")
    for head, fields in of.items():
        yield f"{head} <- {'; '.join(fields)}"


def of_check(name: str, found: list[Finding], labels: dict[str, str]) -> Iterator[str]:
    """Each verdict that is no pass, the fields that it is about, and what it says to type for them."""
    of: dict[str, list[str]] = defaultdict(list)
    for one in found:
        if one.verdict is not Verdict.PASS:
            values = [value for value in said.values(one.message) if "node" not in value]
            about = [labels.get(node, "what is right") for node in one.nodes]
            of[" ".join([f"{one.verdict} {name}", *values])] += about if len(about) < len(labels) else ["all"]
        for command in one.commands:
            of[f"  {said.typed(command)}"].append(labels.get(command.node, "what is right"))
    for head, fields in of.items():
        yield f"{head} <- {'; '.join(dict.fromkeys(fields))}"


def sections() -> dict[str, Callable[..., Iterator[str]]]:
    """Cluster, and subject and kind of change or what was measured -> what is said."""
    of_facts = {
        f"{base} {subject} {kind}": partial(told, base, subject, kind)
        for base in RUNS
        for subject in SUBJECTS_OF[base]
        for kind in (*LOST, "changed")
    }
    return of_facts | {name: partial(told_of_measured, *name.split()) for name in MEASURED}
