"""Which rows of a table of faults does each node show, and whom does each of them blame?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from preflight.facts.cluster import Cluster
from preflight.facts.fabric import Hca
from preflight.facts.node import NodeFacts
from preflight.facts.subjects.gpu import Gpu
from preflight.facts.value import Missing
from preflight.reach.hosts import fold
from preflight.said import joined, knowing, said
from preflight.said.errors import Blame, BlameMany, BlockedBy, FactMissing, NotApplicable

T = TypeVar("T")
NO_GPU = "no GPU on any node"
MOST_BOARDS = 2  # that a sentence names: of more, most of a node is meant
NO_RDMA = "no RDMA device on any node"


@dataclass(frozen=True)
class Fault(Generic[T]):
    """A row: what may be wrong with one thing of a node, how to fix it, and the source that says so.

    ``message`` gives the words for what is wrong, "" where nothing is. It raises FactMissing where that is not known,
    and NotApplicable where the question does not arise. A row that ``is_advisory`` warns in a check that fails. What
    is known of each sentence is the row that it is ``about``, and the ``things`` that show it.
    """

    name: str
    message: Callable[[T], str]
    fix: str
    source: str
    is_advisory: bool = False


def judge(
    cluster: Cluster,
    faults: Iterable[Fault[T]],
    things: Callable[[NodeFacts], Iterable[tuple[str, T]]],
    *,
    noun: str = "",
    kind: Callable[[T], str] = lambda _: "",
    board: Callable[[T], str] = lambda _: "",
) -> None:
    """Raise the `blames` of these rows where there are any."""
    found = blames(cluster, faults, things, noun=noun, kind=kind, board=board)
    if found:
        raise BlameMany(found)


def blames(
    cluster: Cluster,
    faults: Iterable[Fault[T]],
    things: Callable[[NodeFacts], Iterable[tuple[str, T]]],
    *,
    noun: str = "",
    kind: Callable[[T], str] = lambda _: "",
    board: Callable[[T], str] = lambda _: "",
) -> list[Blame]:
    """A Blame for the nodes of every row that some of their `things` (label, thing) show, one a row and wording.

    Where nodes have them on the same `board`, or one node alone does, that stands behind the label: a label may count.

    A fact that none of a `kind` of things reports is left out (and `untold`, where nothing reports it, or few nodes of
    many); where some report it, a node with one that does not cannot be judged. NotApplicable where no row is reported.
    """
    rows = tuple(faults)
    gathered = cluster.gather(lambda node: tuple(things(node)))
    of_node = {name: [(label, thing, kind(thing)) for label, thing in found] for name, found in gathered.items()}
    found: list[Blame] = []
    untold: list[str] = []
    is_asked = False
    for row in rows:
        answers = _answers(cluster, row, of_node, noun, board)
        is_asked |= bool(answers.reported)
        untold += _left_open(cluster, row.name, answers)
        found += [
            Blame(words, nodes=nodes, fix=row.fix, is_advisory=row.is_advisory)
            for words, nodes in answers.shown.items()
        ]
    if not is_asked:
        raise NotApplicable(said("not reported by any node: {name}", ", ".join(row.name for row in rows)))
    cluster.untold.extend(untold)
    return found


@dataclass(frozen=True)
class _Answers:
    """What the things of all nodes say to one row."""

    shown: dict[str, list[str]]  # what is wrong, with the things that show it -> nodes
    reported: dict[str, set[str]]  # kind -> nodes where one of them reports the fact
    silent: dict[str, dict[str, FactMissing]]  # kind -> node -> why one of them does not


def _answers(
    cluster: Cluster,
    row: Fault[T],
    of_node: Mapping[str, Iterable[tuple[str, T, str]]],
    noun: str,
    board: Callable[[T], str],
) -> _Answers:
    """Ask each thing (label, thing, kind) of each node; one whose fact could not be read leaves its node unjudged."""
    answers = _Answers({}, {}, {})
    shown: dict[tuple[str, tuple[str, ...]], dict[str, list[str]]] = {}  # words and labels -> node -> boards
    message, reported = row.message, answers.reported
    for name, things in of_node.items():
        labels: dict[str, dict[str, str]] = {}  # what is wrong -> the things of this node that show it, with boards
        for label, thing, kind in things:
            try:
                words = message(thing)
            except NotApplicable:
                continue
            except FactMissing as missing:
                if missing.kind != "absent":
                    cluster.cannot_judge(name, missing)
                silent = answers.silent.setdefault(kind, {})
                if name not in silent:
                    silent[name] = _of(missing, noun, label)
                continue
            if kind in reported:
                reported[kind].add(name)
            else:
                reported[kind] = {name}
            if words:
                labels.setdefault(words, {})[label] = board(thing)
        for words, boards in labels.items():
            shown.setdefault((words, tuple(boards)), {})[name] = list(boards.values())
    for (words, which), of_nodes in shown.items():
        boards_of = next(iter(of_nodes.values()))
        is_same = len(which) <= MOST_BOARDS and all(one == boards_of for one in of_nodes.values())
        names = [f"{label} ({one})" if one and is_same else label for label, one in zip(which, boards_of, strict=True)]
        place = f"{noun} {', '.join(names)}".strip() if any(which) else ""
        text = said("{place}: {words}", place, words) if place else words
        answers.shown[knowing(text, about=row.name, things=which)] = list(of_nodes)
    return answers


def _left_open(cluster: Cluster, fact: str, answers: _Answers) -> Iterable[str]:
    """The fact, where nodes are not asked for it any further; a node that lacks what its peers report is not judged."""
    if answers.silent and not answers.reported:
        yield fact
    for kind, reporting in answers.reported.items():
        reasons = answers.silent.get(kind, {})
        # A driver reports more on these few: the others have lost nothing.
        if len(reasons.keys() - reporting) > len(reporting):
            yield said("{fact} (but on {reporting})", fact, fold(reporting))
            reasons = {name: reason for name, reason in reasons.items() if name in reporting}
        for name, reason in reasons.items():
            cluster.cannot_judge(name, reason)


def of_any(cluster: Cluster, finds: Iterable[Callable[[Cluster], list[Blame]]]) -> list[Blame]:
    """The Blames of all these questions; NotApplicable, with the reasons of all, where none of them arises."""
    found: list[Blame] = []
    reasons: list[str] = []
    is_asked = False
    for find in finds:
        try:
            found += find(cluster)
            is_asked = True
        except NotApplicable as reason:
            reasons.append(str(reason))
    if not is_asked:
        raise NotApplicable(joined(dict.fromkeys(reasons)))
    return found


def _of(missing: FactMissing, noun: str, label: str) -> FactMissing:
    """The same with the thing that lacks the fact, where the node has several."""
    fact = said("{fact} of {noun} {label}", missing.fact, noun, label) if noun and label else missing.fact
    return missing.kept() if isinstance(missing, BlockedBy) else FactMissing(fact, missing.reason, missing.kind)


def needs_gpus(cluster: Cluster) -> None:
    """Leave the check with one reason common to all GPU checks where every node says that it has none."""
    if not any(cluster.gather(lambda node: node.gpu.readable()).values()) and not cluster.unmeasured:
        raise NotApplicable(NO_GPU)


def needs_rdma(cluster: Cluster) -> None:
    """Leave the check with one reason common to all RDMA checks where no node has a device that the job would use."""
    having = [name for name, devices in cluster.gather(lambda node: node.rdma.devices).items() if devices]
    if cluster.unmeasured:
        return
    if not having:
        raise NotApplicable(NO_RDMA)
    reasons = dict.fromkeys(_why_without_rdma(cluster[name]) for name in having)
    if all(reasons):
        raise NotApplicable(joined(reasons))


def _why_without_rdma(node: NodeFacts) -> str:
    """Why the job uses none of the node's devices; "" where it may, or where the node does not tell."""
    try:
        return node.without_rdma()
    except FactMissing:
        return ""


def judge_equals(cluster: Cluster, judge: Callable[[Cluster], None]) -> None:
    """Judge the nodes with the same GPUs among themselves: what another model brings with it is no fault of its own."""
    blames: list[Blame] = []
    reasons: dict[str, None] = {}
    groups = cluster.group_by(lambda node: node.gpu.models())
    for names in map(set, groups.values()):
        try:
            judge(replace(cluster, nodes=tuple(node for node in cluster if node.name in names)))
        except BlameMany as found:
            blames += found.blames
        except NotApplicable as reason:
            reasons[str(reason)] = None
    if blames:
        raise BlameMany(blames)
    if groups and len(reasons) == len(groups):
        raise NotApplicable(joined(reasons))


def values_by_node(cluster: Cluster, key: Callable[[NodeFacts], T]) -> dict[str, T]:
    """`key` of every node that has the thing at all: that others lack it is another check's matter.

    Raises NotApplicable where no node has it.
    """
    reasons: dict[str, FactMissing] = {}

    def held(node: NodeFacts) -> T | None:
        try:
            return key(node)
        except FactMissing as missing:
            if missing.kind != "absent":
                raise
            reasons[node.name] = missing.kept()
            return None

    found = {name: value for name, value in cluster.gather(held).items() if value is not None}
    if not found and reasons:
        raise NotApplicable(said("on no node: {reason}", joined(sorted({str(reason) for reason in reasons.values()}))))
    return found


def same_by_name(
    cluster: Cluster, of_node: Callable[[NodeFacts], Mapping[str, str | Missing]], what: str, *, fix: str = ""
) -> None:
    """A port, or another thing with a name, has the same value on every node that has one of that name.

    Where most nodes report the value, one that lacks it cannot be judged; where few do, the others are left open.
    """
    found = values_by_node(cluster, of_node)
    blames = []
    for name in dict.fromkeys(name for values in found.values() for name in values):
        groups: dict[str, list[str]] = {}
        lacking: dict[str, Missing] = {}
        for node, values in found.items():
            value = values.get(name)
            if isinstance(value, Missing):
                lacking[node] = value
            elif value is not None:
                groups.setdefault(value, []).append(node)
        reporting = [node for nodes in groups.values() for node in nodes]
        absent = [node for node, missing in lacking.items() if missing.kind == "absent"]
        are_few = len(absent) > len(reporting) > 0
        if are_few:  # they have a program, or a driver, that tells more: the others have lost nothing
            cluster.untold.append(said("{what} of {name} (but on {reporting})", what, name, fold(reporting)))
        for node, missing in lacking.items():
            if missing.kind != "absent" or (groups and not are_few):
                cluster.cannot_judge(
                    node, FactMissing(said("{what} of {name}", what, name), missing.missing, missing.kind)
                )
        if lacking and not groups:
            cluster.untold.append(said("{what} of {name}", what, name))
        blames += cluster.differing(groups, said("{what} of {name}", what, name), fix=fix)
    if blames:
        raise BlameMany(blames)


def of_own_names(names: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """The nodes with things of which no other node has one of the same name, as pods with virtual functions have.

    () where that is one node only: there is nobody to compare it with.
    """
    found = tuple(
        node
        for node, own in names.items()
        if own and not any({*own} & {*others} for other, others in names.items() if other != node)
    )
    return found if len(found) > 1 else ()


def same_of_ports(cluster: Cluster, of_node: Callable[[NodeFacts], Mapping[str, str | Missing]], what: str) -> None:
    """A value of ports is the same on all nodes: by their names, or over all of them where no name is shared."""
    same_by_name(cluster, of_node, what)
    found = values_by_node(cluster, of_node)
    groups: dict[str, list[str]] = {}
    for node in of_own_names(found):
        reporting = {value for value in found[node].values() if not isinstance(value, Missing)}
        if reporting:
            groups.setdefault(" and ".join(sorted(reporting)), []).append(node)
    blames = cluster.differing(groups, said("{what} of the RDMA ports", what))
    if blames:
        raise BlameMany(blames)


def gpus(node: NodeFacts) -> Iterable[tuple[str, Gpu]]:
    """The GPUs of a node by their index."""
    return [(str(gpu.index), gpu) for gpu in node.gpu.readable()]


def model(gpu: Gpu) -> str:
    """What GPUs that report the same facts have in common."""
    return f"{gpu.summary()} {gpu.kind[1]}"


def link(port: Hca) -> str:
    """What RDMA ports that report the same facts have in common."""
    return f"{port.kind} {port.port.link_layer}"


def ports(node: NodeFacts) -> Iterable[tuple[str, Hca]]:
    """The RDMA ports of a node that the job may use."""
    return [(hca.name, hca) for hca in node.hcas()] if node.rdma.devices else []


def active_ports(node: NodeFacts) -> list[tuple[str, Hca]]:
    """The RDMA ports of a node that the job may use and that are up."""
    return [(name, hca) for name, hca in ports(node) if hca.is_active]


def itself(node: NodeFacts) -> Iterable[tuple[str, NodeFacts]]:
    """The node itself as the only thing, for a table about nodes."""
    return [("", node)]
