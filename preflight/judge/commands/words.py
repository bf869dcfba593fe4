"""How is a command of a node written, and what is a row that gives one asked with?"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.facts.subjects.peers import Route
from preflight.said import value_in
from preflight.said.errors import FactMissing

T = TypeVar("T")


@dataclass(frozen=True)
class Case:
    """One node that a finding blames, among the others, and a sentence of the finding, of which only values are read.

    ``worked_out`` is what one node's row has found of all nodes, for those of the other nodes: where every one of
    thousands is blamed, each would else look at each.
    """

    node: NodeFacts
    cluster: Cluster
    sentence: str
    worked_out: dict[str, Any] = field(default_factory=dict)

    def once(self, what: str, work: Callable[[], T]) -> T:
        """What `work` finds of all nodes, whichever node it is that asks."""
        if what not in self.worked_out:
            self.worked_out[what] = work()
        found: T = self.worked_out[what]
        return found

    def value(self, name: str) -> Any:
        """What the sentence holds under a name, shown or not. Raises FactMissing where it holds nothing."""
        try:
            return value_in(self.sentence, name)
        except KeyError:
            raise FactMissing(name, "the finding does not have it", "absent") from None

    @property
    def peers(self) -> list[tuple[NodeFacts, Route]]:
        """The other nodes that this one was asked about and that answered, each with this node's route to it."""
        nodes = self.once("nodes by name", lambda: {node.name: node for node in self.cluster})
        routes = (route for route in self.node.peers.routes if route.name != self.node.name)
        return [(nodes[route.name], route) for route in routes if route.name in nodes]


class Remedy(NamedTuple):
    """What to run now and what makes it last; ``is_for_job`` where the job's own shell, and not the node's, runs it."""

    now: str
    lasting: str = ""
    is_for_job: bool = False


Row = Callable[[Case], Remedy]


def sudo(node: NodeFacts) -> str:
    """What a command of root begins with, "" where the job's user is root."""
    return "" if node.identity.user_id == 0 else "sudo "


def as_root(node: NodeFacts, *words: str) -> str:
    """The command, each word quoted, with sudo where the job's user is not root."""
    return f"{sudo(node)}{shlex.join(words)}"


def into_file(node: NodeFacts, path: str, *lines: str) -> str:
    """The command that adds those lines to a file of root's that it does not hold yet."""
    file = shlex.quote(path)
    parts = [
        f"grep -qxF -e {shlex.quote(line)} {file} 2>/dev/null || "
        f"{_written((line,))} | {sudo(node)}tee -a {file} >/dev/null"
        for line in lines
    ]
    return parts[0] if len(parts) == 1 else " && ".join(f"{{ {part}; }}" for part in parts)


def edited(node: NodeFacts, script: str, path: str) -> str:
    """The command that passes a file of root's through sed; not by -i, for in a container some cannot be replaced."""
    held = f"$(sed -E {shlex.quote(script)} {path})"
    return f'held="{held}" && printf \'%s\\n\' "$held" | {sudo(node)}tee {path} >/dev/null'


def as_file(node: NodeFacts, path: str, *lines: str) -> str:
    """The command that makes a file of root's hold these lines and nothing else."""
    return f"{_written(lines)} | {sudo(node)}tee {shlex.quote(path)} >/dev/null"


def _written(lines: tuple[str, ...]) -> str:
    return f"printf '%s\\n' {shlex.join(lines)}"


def into_kernel(node: NodeFacts, value: str, pattern: str) -> str:
    """The command that writes a value into files of /proc or /sys; `pattern` is ours, for the shell to expand."""
    return f"printf '%s\\n' {shlex.quote(value)} | {sudo(node)}tee {pattern} >/dev/null"


def exported(**variables: str) -> Remedy:
    """The line that sets variables where the job starts."""
    words = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    return Remedy(f"export {words}", is_for_job=True)


def unset(*names: str) -> Remedy:
    """The line that takes variables out of the job's environment."""
    if not names:
        raise FactMissing("variables", "there is none to unset", "absent")
    return Remedy(shlex.join(["unset", *names]), is_for_job=True)


def counted(case: Case, key: Callable[[NodeFacts], T], what: str) -> Counter[T]:
    """Value -> how many nodes have it, this one counted; nodes that do not tell are left out."""

    def count() -> Counter[T]:
        return Counter(value for node in case.cluster for value in reported(node, key))

    return case.once(what, count)


def reported(node: NodeFacts, key: Callable[[NodeFacts], T]) -> list[T]:
    """The value alone; nothing where the node does not tell it."""
    try:
        return [key(node)]
    except FactMissing:
        return []


def others_have(case: Case, key: Callable[[NodeFacts], T], value: T, what: str) -> bool:
    """Whether a node beside this one has the value."""
    return counted(case, key, what)[value] > (reported(case.node, key) == [value])


def one_of_the_others(case: Case, key: Callable[[NodeFacts], T], value: T, what: str) -> NodeFacts:
    """The first node beside this one that has the value. Raises FactMissing where none has."""
    having = (node for node in case.cluster if reported(node, key) == [value])
    for node in case.once(f"nodes with {what}", lambda: list(islice(having, 2))):
        if node.name != case.node.name:
            return node
    raise FactMissing(what, "no other node has it")


def of_the_others(case: Case, key: Callable[[NodeFacts], T], what: str) -> T:
    """The value that most nodes have, this one counted. Raises FactMissing where there is no such.

    Of nodes that are divided in halves each would be given the value of the other half, and the two would swap.
    `what` stands for `key`: within one finding there is one for each.
    """
    ranked = case.once(f"most common {what}", lambda: counted(case, key, what).most_common(2))
    if not ranked or (len(ranked) > 1 and ranked[0][1] == ranked[1][1]):
        raise FactMissing(what, "the other nodes do not agree on one")
    if len(case.cluster) == 2:
        raise FactMissing(what, "of two nodes either may be the right one")
    return ranked[0][0]


def wanted_here(case: Case, key: Callable[[NodeFacts], T], what: str) -> T:
    """The others' value where this node has another one."""
    wanted = of_the_others(case, key, what)
    try:
        if key(case.node) == wanted:
            raise FactMissing(what, "it has that of the others")
    except FactMissing as missing:
        if missing.kind != "absent":
            raise
    return wanted
