"""Which commands would a shell script run, with which words and variables? It is parsed, never run."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from preflight.launch.text.expansion import Assigned, Scope
from preflight.launch.text.grammar import parse
from preflight.launch.text.marks import is_known, plain, without_lines
from preflight.launch.text.syntax import source
from preflight.launch.text.written import Files

NESTING_LIMIT = 5
WALK_LIMIT = 120
STEPS_LIMIT = 20_000
COMMANDS_LIMIT = 2_000
SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
REMOTE = frozenset({"ssh", "pdsh", "clush", "srun", "mpirun", "mpiexec", "parallel-ssh", "kubectl", "pssh"})
REMOTE |= {"jsrun", "blaunch", "pbsdsh", "pbs_tmrsh", "rsh", "qrsh"}
CONTAINERS = frozenset({"docker", "podman", "singularity", "apptainer", "enroot", "udocker", "shifter"})
ARGUMENT = re.compile(r"\$\{?[0-9@*#]\}?|\$\{[0-9]+[#%:=-][^}]*\}")
LOCAL = frozenset({"local", "declare", "typeset"})
EXPORTING = {"export": True, "declare": False, "typeset": False, "local": False, "readonly": False}


def is_container(outer: Iterable[str]) -> bool:
    """Whether the words around a command put it into a container."""
    return any(word.rpartition("/")[2] in CONTAINERS or word.startswith("--container-image") for word in outer)


class Word(NamedTuple):
    """A word of a command and the line it ends up in."""

    text: str
    line: int

    @property
    def plain(self) -> str:
        """Its text without marks of zero width."""
        return plain(self.text)


@dataclass(frozen=True)
class Command:
    """A simple command: its words, the variables when it runs, and what it is wrapped in."""

    words: tuple[Word, ...]
    line: int
    variables: Mapping[str, Assigned]
    prefix: Mapping[str, Assigned]
    outer: tuple[str, ...]
    is_conditional: bool
    # Whether this text is worked out on every node.
    per_node: bool
    # Whether the grammar gave up inside it, so that some of its words may be missing.
    is_torn: bool = False
    loop: str = ""  # "for" or "while", where it is a turn of a loop
    in_background: bool = False
    is_opened: bool = False  # whether a script inside its words was walked


class Inner(NamedTuple):
    """A script inside a script: its text, its first line, and whether it was quoted, so that it knows no variables."""

    text: str
    line: int
    is_quoted: bool
    node: Any  # of the syntax tree


class Start(NamedTuple):
    """A script in a file that another one starts, and what it gets from there."""

    path: str
    arguments: tuple[str, ...]
    variables: Mapping[str, Assigned]
    outer: tuple[str, ...]  # the words before it: srun, ssh and their options
    per_node: bool
    line: int
    loop: str = ""
    in_background: bool = False
    is_conditional: bool = False


Handler = Callable[["Script", Any, int], None]


@dataclass
class Script:
    """The walk through one script: `commands` grows, `scope` is what is set at this point."""

    scope: Scope
    load: Callable[[str], str | None]
    handlers: Mapping[str, Handler]
    commands: list[Command] = field(default_factory=list)
    functions: dict[str, Any] = field(default_factory=dict)
    outer: tuple[str, ...] = ()
    nesting: int = 0
    conditions: int = 0
    steps: list[int] = field(default_factory=lambda: [0])
    is_torn: bool = False
    ended: int = 0  # the line of an `exit` that stands by itself: nothing behind it runs
    unread: list[tuple[str, int]] = field(default_factory=list)  # files that it sources and that are not given
    # A text for another node is looked into where it holds one of these.
    launch_words: tuple[str, ...] = ("",)
    loop: str = ""  # the kind of loop that this is a turn of, and whether nobody waits for its end
    in_background: bool = False
    # Scripts that this one writes into files, by name; those that it hands to sbatch.
    written: dict[str, Inner] = field(default_factory=dict)
    files: Files = field(default_factory=Files)  # what it writes into files, as far as its text tells
    is_function: bool = False
    outside: dict[str, Assigned | None] = field(default_factory=dict)  # what a function's own variables hide
    batches: list[Inner] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    stdin: str = ""  # the file that the command reads: bash -s < node.sh

    def run(self, node: Any, depth: int = 0) -> None:
        """Walk one node and what is below it."""
        self.steps[0] += 1
        if depth > WALK_LIMIT or self.steps[0] > STEPS_LIMIT or len(self.commands) > COMMANDS_LIMIT:
            self.files.forget()
            return
        if self.ended:
            return
        handler = self.handlers.get(node.type)
        if handler is not None:
            handler(self, node, depth)
        else:
            for child in node.named_children:
                self.run(child, depth + 1)

    def assignment(self, node: Any, depth: int, *, exported: bool = False) -> None:
        """``NAME=value``, ``NAME+=value``, ``NAME=(a b)``."""
        del depth
        name_node, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name_node is None:
            return
        name, _, index = source(name_node).partition("[")
        is_array = value is not None and value.type == "array"
        texts: list[str] = [""]
        if value is not None:
            nodes = [child for child in value.named_children if child.type != "comment"] if is_array else []
            texts = (
                [text for child in nodes for text in self.scope.words(child)] if is_array else [self.scope.text(value)]
            )
        before = self.scope.held(name)
        if any(child.type == "+=" for child in node.children) and before:
            texts = [*before.texts, *texts] if is_array else [*before.texts[:-1], "".join(before.texts[-1:]) + texts[0]]
            is_array = is_array or before.is_array
        elif index:
            texts, is_array = [*(before.texts if before else ()), *texts], True
        # what builds on a value from outside has one, and stays as exported as that was
        inherits = before is None and value is not None and re.search(rf"\$\{{?{re.escape(name)}\b", source(value))
        exported = exported or bool(inherits)
        self.scope.assign(name, texts, self.scope.line(node), exported=exported, is_array=is_array)

    def declaration(self, node: Any, depth: int) -> None:
        """``export``, ``declare -x`` and their like."""
        exported = EXPORTING.get(node.children[0].type, False)
        for child in node.named_children:
            if child.type == "word" and source(child).startswith("-"):
                exported = exported or "x" in source(child)
            elif child.type == "variable_assignment":
                self._localise(node, source(child).partition("=")[0].rstrip("+"))
                self.assignment(child, depth, exported=exported)
            elif child.type in ("variable_name", "word") and exported:
                self.scope.export(source(child))
            elif child.type in ("variable_name", "word"):
                self._localise(node, source(child))

    def _localise(self, node: Any, name: str) -> None:
        """Remember what a variable holds outside of this function, which has one of that name for itself."""
        if self.is_function and node.children[0].type in LOCAL:
            self.outside.setdefault(name, self.scope.variables.get(name))

    def leave(self) -> None:
        """The end of a function: its own variables are gone."""
        for name, held in self.outside.items():
            self.scope.variables.pop(name, None)
            if held is not None:
                self.scope.variables[name] = held

    def nested(self, text: str, line: int, outer: tuple[str, ...], scope: Scope) -> None:
        """Walk a script that stands inside this one."""
        if self.nesting < NESTING_LIMIT:
            text, places = without_lines(text)
            inner = replace(scope, first_line=line, places=places)
            if scope is not self.scope:
                inner.variables = dict(scope.variables)
            child = self.child(inner, outer)
            root = parse(text)
            child.is_torn = root.has_error
            child.run(root)

    def child(self, scope: Scope, outer: tuple[str, ...]) -> Script:
        """The walk through a script inside this one, which adds to the same commands."""
        return replace(
            self,
            scope=scope,
            outer=outer,
            nesting=self.nesting + 1,
            is_torn=False,
            ended=0,
            is_function=False,
            outside={},
        )

    def nested_in(self, inner: Inner, outer: tuple[str, ...], scope: Scope) -> None:
        """Walk a script that this one writes down; one without expansions knows only what is exported."""
        if inner.is_quoted:
            is_elsewhere = "ssh" in {word.rpartition("/")[2] for word in outer}
            known = scope.of_a_child()
            if is_elsewhere:
                known = {name: replace(held, is_hidden=True) for name, held in known.items()}
            scope = replace(scope, variables=known)
        text = inner.text if inner.is_quoted else re.sub(r"\\([$`])", r"\1", inner.text)
        self.nested(text, inner.line, outer, replace(scope))

    def branches(self, bodies: list[list[Any]], depth: int, *, may_skip: bool) -> None:
        """Walk alternatives from the same start; a variable that they set differently is unknown afterwards."""
        before = dict(self.scope.variables)
        ends: list[dict[str, Assigned]] = [before] if may_skip else []
        self.conditions += 1
        for body in bodies:
            self.scope.variables = dict(before)
            for node in body:
                self.run(node, depth + 1)
            ends.append(self.scope.variables)
        self.conditions -= 1
        self.scope.variables = self._joined(before, ends)

    def _given(self, values: list[Assigned]) -> Assigned | None:
        """The one value of these that is known, where all others are arguments of the script: it is a default."""
        known = [value for value in values if all(map(is_known, value.texts))]
        others = [self.scope.marks.spelled(value.text) for value in values if value not in known]
        alike = {tuple(map(plain, value.texts)) for value in known}
        if len(alike) != 1 or known[-1].is_array or not all(map(ARGUMENT.fullmatch, others)):
            return None
        if others and not any(map(plain, known[-1].texts)):
            return None  # MASTER="" before the options are read: whoever starts the script gives it
        return replace(known[-1], texts=tuple(self.scope.marks.default(text) for text in known[-1].texts))

    def _joined(self, before: dict[str, Assigned], ends: list[dict[str, Assigned]]) -> dict[str, Assigned]:
        joined: dict[str, Assigned] = {}
        for name in dict.fromkeys(name for end in ends for name in end):
            values = [end[name] for end in ends if name in end]
            texts = {tuple(map(plain, value.texts)) for value in values}
            last = values[-1]
            if len(texts) == 1 and (len(values) == len(ends) or name in before):
                joined[name] = last
            elif len(texts) == 1 and last.texts:
                # set in one branch only: whoever starts the script may have set it before
                marked = tuple(self.scope.marks.default(text) for text in last.texts)
                joined[name] = replace(last, texts=marked)
            elif last.is_array and len(set(map(len, texts))) > 1:
                # elements that a branch adds: those before them are there in any case
                pairs = itertools.takewhile(
                    lambda pair: len(set(map(plain, pair))) == 1, zip(*(value.texts for value in values), strict=False)
                )
                shared = [pair[0] for pair in pairs]
                more = self.scope.marks.unknown(f"${{{name}[@]}}", last.line)
                joined[name] = replace(last, texts=(*shared, more))
            elif given := self._given(values):
                joined[name] = given
            elif not last.is_array and (kept := self.scope.marks.shared([v.text for v in values], name, last.line)):
                joined[name] = replace(last, texts=(kept,))
            else:
                spelled = dict.fromkeys(self.scope.marks.spelled(" ".join(value.texts)) for value in values)
                either = " or ".join(sorted(spelled))
                joined[name] = replace(last, texts=(self.scope.marks.unknown(either[:400], last.line),))
        return joined
