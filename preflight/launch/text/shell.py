"""Which commands would a shell script run, with which words and variables? It is parsed, never run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from preflight.launch.text.expansion import Assigned, Scope
from preflight.launch.text.marks import Marks, plain, without_lines
from preflight.launch.text.syntax import source

NESTING_LIMIT = 5
WALK_LIMIT = 120
STEPS_LIMIT = 20_000
COMMANDS_LIMIT = 2_000
SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
REMOTE = frozenset({"ssh", "pdsh", "clush", "srun", "mpirun", "mpiexec", "parallel-ssh", "kubectl"})
CONTAINERS = frozenset({"docker", "podman", "singularity", "apptainer", "enroot", "udocker", "shifter"})
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
    # A text for another node is looked into where it holds one of these.
    launch_words: tuple[str, ...] = ("",)

    def run(self, node: Any, depth: int = 0) -> None:
        """Walk one node and what is below it."""
        self.steps[0] += 1
        if depth > WALK_LIMIT or self.steps[0] > STEPS_LIMIT or len(self.commands) > COMMANDS_LIMIT:
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
        before = self.scope.variables.get(name)
        if any(child.type == "+=" for child in node.children) and before:
            texts = [*before.texts, *texts] if is_array else [*before.texts[:-1], "".join(before.texts[-1:]) + texts[0]]
            is_array = is_array or before.is_array
        elif index:
            texts, is_array = [*(before.texts if before else ()), *texts], True
        self.scope.assign(name, texts, self.scope.line(node), exported=exported, is_array=is_array)

    def declaration(self, node: Any, depth: int) -> None:
        """``export``, ``declare -x`` and their like."""
        exported = EXPORTING.get(node.children[0].type, False)
        for child in node.named_children:
            if child.type == "word" and source(child).startswith("-"):
                exported = exported or "x" in source(child)
            elif child.type == "variable_assignment":
                self.assignment(child, depth, exported=exported)
            elif child.type in ("variable_name", "word") and exported:
                self.scope.export(source(child))

    def command(self, node: Any, depth: int) -> None:
        """A simple command, and the scripts inside its words."""
        del depth
        prefix: dict[str, Assigned] = {}
        words: list[Word] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                inner = Script(replace(self.scope, variables={}), self.load, self.handlers, steps=self.steps)
                inner.scope.variables.update(self.scope.variables)
                inner.assignment(child, 0)
                name = source(child).partition("=")[0].rstrip("+")
                prefix[name] = replace(inner.scope.variables.get(name, Assigned(("",), 0)), exported=True)
            elif child.type in ("file_redirect", "heredoc_redirect", "herestring_redirect"):
                continue
            else:
                target = child.named_children[0] if child.type == "command_name" and child.named_children else child
                words.extend(Word(text, self.scope.line(child)) for text in self.scope.words(target))
        if words:
            near = (node, node.parent, node.next_sibling, node.prev_sibling)
            torn = any(found is not None and found.type == "ERROR" for found in near) or node.has_error
            self.execute(tuple(words), self.scope.line(node), prefix, is_torn=torn)

    def execute(
        self, words: tuple[Word, ...], line: int, prefix: Mapping[str, Assigned], *, is_torn: bool = False
    ) -> None:
        """What a command does to the walk: a builtin, a function of the script, or a command to be noted."""
        name = words[0].plain
        rest = [word.text for word in words[1:]]
        if name in ("source", ".") and rest:
            found = self.load(plain(rest[0])) if self.nesting < NESTING_LIMIT else None
            if found is not None:
                inner = Scope(Marks(plain(rest[0]), self.scope.marks.unknowns), 1, self.scope.variables)
                Script(
                    inner, self.load, self.handlers, [], self.functions, nesting=self.nesting + 1, steps=self.steps
                ).run(parse(found))
        elif name == "eval":
            self.nested(" ".join(rest), line, self.outer, self.scope)
        elif name in self.functions and self.nesting < NESTING_LIMIT:
            scope = replace(self.scope, arguments=tuple(rest))
            self._child(scope, self.outer).run(self.functions[name])
        elif name == "shift" and self.scope.arguments is not None:
            self.scope.arguments = self.scope.arguments[1:]
        elif name == "set" and rest[:1] == ["--"]:
            self.scope.arguments = tuple(rest[1:])
        else:
            self.commands.append(
                Command(
                    words,
                    line,
                    dict(self.scope.variables),
                    prefix,
                    self.outer,
                    self.conditions > 0,
                    self.scope.per_node,
                    is_torn or self.is_torn,
                )
            )
            self._inside(words, prefix)

    def _inside(self, words: tuple[Word, ...], prefix: Mapping[str, Assigned]) -> None:
        """``bash -c "..."``, ``ssh host "..."``: a script as a word of a command."""
        names = [word.plain.rpartition("/")[2] for word in words]
        for place, name in enumerate(names[:-2]):
            if name in SHELLS and names[place + 1].startswith("-") and "c" in names[place + 1]:
                outer = (*self.outer, *(word.plain for word in words[: place + 1]))
                scope = replace(self.scope, variables={**self.scope.variables, **prefix})
                scope.in_container = self.scope.in_container or is_container(outer)
                scope.per_node = self.scope.per_node or bool(REMOTE & set(names[:place]))
                self.nested(words[place + 2].text, words[place + 2].line, outer, scope)
                return
        text = words[-1].plain
        if names[0] in REMOTE and len(names) > 2 and " " in text and any(word in text for word in self.launch_words):
            scope = replace(self.scope, variables={}, per_node=True)
            self.nested(words[-1].text, words[-1].line, (*self.outer, *(word.plain for word in words[:-1])), scope)

    def nested(self, text: str, line: int, outer: tuple[str, ...], scope: Scope) -> None:
        """Walk a script that stands inside this one."""
        if self.nesting < NESTING_LIMIT:
            inner = replace(scope, first_line=line)
            if scope is not self.scope:
                inner.variables = dict(scope.variables)
            child = self._child(inner, outer)
            root = parse(without_lines(text))
            child.is_torn = root.has_error
            child.run(root)

    def _child(self, scope: Scope, outer: tuple[str, ...]) -> Script:
        return Script(
            scope,
            self.load,
            self.handlers,
            self.commands,
            self.functions,
            outer,
            self.nesting + 1,
            self.conditions,
            self.steps,
            launch_words=self.launch_words,
        )

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
            else:
                either = " or ".join(sorted(self.scope.marks.spelled(" ".join(value.texts)) for value in values))
                joined[name] = replace(last, texts=(self.scope.marks.unknown(either[:400], last.line),))
        return joined


@functools.cache
def _parser() -> Any:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse(text: str) -> Any:
    """The syntax tree of a script; the grammar takes what is broken as far as it goes."""
    return _parser().parse(text.encode("utf-8", "replace")).root_node
