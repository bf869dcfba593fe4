"""Which commands would a shell script run, with which words and variables? It is parsed, never run."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from preflight.errors import UsageError
from preflight.launch.expansion import Assigned, Scope, source
from preflight.launch.marks import Marks, is_firm, plain, without_lines

SOURCE_LIMIT = 1 << 20
NESTING_LIMIT = 5
WALK_LIMIT = 120
STEPS_LIMIT = 20_000
COMMANDS_LIMIT = 2_000
LOOP_LIMIT = 64
SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
REMOTE = frozenset({"ssh", "pdsh", "clush", "srun", "mpirun", "mpiexec", "parallel-ssh", "kubectl"})
LAUNCH_WORDS = re.compile(r"torchrun|torch\.distributed|accelerate|deepspeed|llamafactory|python")
EXPORTING = {"export": True, "declare": False, "typeset": False, "local": False, "readonly": False}


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


@dataclass
class Script:
    """The walk through one script: `commands` grows, `scope` is what is set at this point."""

    scope: Scope
    load: Callable[[str], str | None]
    commands: list[Command] = field(default_factory=list)
    functions: dict[str, Any] = field(default_factory=dict)
    outer: tuple[str, ...] = ()
    nesting: int = 0
    conditions: int = 0
    steps: list[int] = field(default_factory=lambda: [0])

    def run(self, node: Any, depth: int = 0) -> None:
        """Walk one node and what is below it."""
        self.steps[0] += 1
        if depth > WALK_LIMIT or self.steps[0] > STEPS_LIMIT or len(self.commands) > COMMANDS_LIMIT:
            return
        handler = HANDLERS.get(node.type)
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
            nodes = value.named_children if is_array else []
            texts = [text for child in nodes for text in self.scope.words(child)] if is_array else [self.scope.text(value)]
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
                inner = Script(replace(self.scope, variables={}), self.load, steps=self.steps)
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
            self.execute(tuple(words), self.scope.line(node), prefix)

    def execute(self, words: tuple[Word, ...], line: int, prefix: Mapping[str, Assigned]) -> None:
        """What a command does to the walk: a builtin, a function of the script, or a command to be noted."""
        name = words[0].plain
        rest = [word.text for word in words[1:]]
        if name in ("source", ".") and rest:
            found = self.load(plain(rest[0])) if self.nesting < NESTING_LIMIT else None
            if found is not None:
                inner = Scope(Marks(plain(rest[0]), self.scope.marks.unknowns), 1, self.scope.variables)
                Script(inner, self.load, [], self.functions, nesting=self.nesting + 1, steps=self.steps).run(parse(found))
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
                )
            )
            self._inside(words, line, prefix)

    def _inside(self, words: tuple[Word, ...], line: int, prefix: Mapping[str, Assigned]) -> None:
        """``bash -c "..."``, ``ssh host "..."``: a script as a word of a command."""
        names = [word.plain.rpartition("/")[2] for word in words]
        for place, name in enumerate(names[:-2]):
            if name in SHELLS and names[place + 1].startswith("-") and "c" in names[place + 1]:
                outer = (*self.outer, *names[: place + 1])
                scope = replace(self.scope, variables={**self.scope.variables, **prefix})
                scope.per_node = self.scope.per_node or bool(REMOTE & set(names[:place]))
                self.nested(words[place + 2].text, words[place + 2].line, outer, scope)
                return
        if names[0] in REMOTE and len(names) > 2 and " " in words[-1].plain and LAUNCH_WORDS.search(words[-1].plain):
            scope = replace(self.scope, variables={}, per_node=True)
            self.nested(words[-1].text, words[-1].line, (*self.outer, *names[:-1]), scope)

    def nested(self, text: str, line: int, outer: tuple[str, ...], scope: Scope) -> None:
        """Walk a script that stands inside this one."""
        if self.nesting < NESTING_LIMIT:
            inner = replace(scope, first_line=line)
            if scope is not self.scope:
                inner.variables = dict(scope.variables)
            self._child(inner, outer).run(parse(without_lines(text)))

    def _child(self, scope: Scope, outer: tuple[str, ...]) -> Script:
        return Script(
            scope, self.load, self.commands, self.functions, outer, self.nesting + 1, self.conditions, self.steps
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
                told = " or ".join(sorted(self.scope.marks.spelled(" ".join(value.texts)) for value in values))
                joined[name] = replace(last, texts=(self.scope.marks.unknown(told[:400], last.line),))
        return joined


def condition(script: Script, node: Any) -> bool | None:
    """Whether a test holds, where the script alone tells; None where it does not."""
    if node.type != "test_command" or not node.named_children:
        return None
    inner = node.named_children[0]
    if inner.type == "unary_expression" and inner.named_child_count == 2:
        operator, text = source(inner.children[0]), script.scope.text(inner.named_children[-1])
        if operator in ("-z", "-n") and is_firm(text):
            return (plain(text) == "") == (operator == "-z")
    if inner.type == "binary_expression" and inner.child_count == 3:
        operator = source(inner.children[1])
        left, right = script.scope.text(inner.children[0]), script.scope.text(inner.children[2])
        if is_firm(left) and is_firm(right):
            return _compared(plain(left), operator, plain(right))
    return None


def _compared(left: str, operator: str, right: str) -> bool | None:
    if operator in ("=", "=="):
        return left == right
    if operator == "!=":
        return left != right
    if not all(text.isascii() and text.isdigit() and len(text) < 16 for text in (left, right)):
        return None
    a, b = int(left), int(right)
    return {"-eq": a == b, "-ne": a != b, "-gt": a > b, "-ge": a >= b, "-lt": a < b, "-le": a <= b}.get(operator)


def _if(script: Script, node: Any, depth: int) -> None:
    """An if with its elifs and else; a test that the script decides leaves one branch."""
    bodies: list[list[Any]] = [[]]
    verdicts: list[bool | None] = []
    part = "condition"
    has_else = False
    for child in node.children:
        if child.type == "then":
            part = "body"
        elif child.type in ("elif_clause", "else_clause"):
            has_else = has_else or child.type == "else_clause"
            bodies.append(list(child.named_children[1 if child.type == "elif_clause" else 0 :]))
            first = child.named_children[:1]
            verdicts.append(condition(script, first[0]) if child.type == "elif_clause" and first else None)
        elif part == "condition" and child.is_named:
            verdicts.append(condition(script, child))
        elif part == "body" and child.is_named:
            bodies[0].append(child)
    if verdicts and verdicts[0] is True:
        script.branches([bodies[0]], depth, may_skip=False)
    elif verdicts and verdicts[0] is False:
        script.branches(bodies[1:], depth, may_skip=not has_else)
    else:
        script.branches(bodies, depth, may_skip=not has_else)


def _case(script: Script, node: Any, depth: int) -> None:
    bodies = [[part for part in item.named_children[1:]] for item in node.named_children if item.type == "case_item"]
    script.branches(bodies, depth, may_skip=True)


def _list(script: Script, node: Any, depth: int) -> None:
    """``a && b``: after a test b may not run."""
    named = node.named_children
    if len(named) != 2 or named[0].type != "test_command":
        for child in named:
            script.run(child, depth + 1)
        return
    holds = condition(script, named[0])
    wanted = any(child.type == "&&" for child in node.children)
    if holds is None:
        script.branches([[named[1]]], depth, may_skip=True)
    elif holds == wanted:
        script.run(named[1], depth + 1)


def _for(script: Script, node: Any, depth: int) -> None:
    """A loop over words that are all known runs for each, any other once with an unknown variable."""
    variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
    if body is None:
        return
    values = [text for child in node.children_by_field_name("value") for text in script.scope.words(child)]
    if variable is None:  # for ((i = 0; ...))
        names = re.findall(r"\(\(\s*(\w+)\s*=", source(node)[:200])
        values = []
    else:
        names = [source(variable)]
    if not values or len(values) > LOOP_LIMIT or not all(map(is_firm, values)):
        values = [script.scope.marks.unknown(f"${names[0]} of a loop" if names else "loop", script.scope.line(node))]
    for value in values:
        for name in names:
            script.scope.assign(name, [value], script.scope.line(node), exported=False)
        script.run(body, depth + 1)


def _subshell(script: Script, node: Any, depth: int) -> None:
    before = dict(script.scope.variables)
    for child in node.named_children:
        script.run(child, depth + 1)
    script.scope.variables = before


def _function(script: Script, node: Any, depth: int) -> None:
    del depth
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if name is not None and body is not None:
        script.functions[source(name)] = body


def _redirected(script: Script, node: Any, depth: int) -> None:
    """A here-document that a shell reads is a script."""
    body = node.child_by_field_name("body")
    if body is None:
        return
    script.run(body, depth + 1)
    names = {word.rpartition("/")[2] for word in source(body).split()}
    for child in node.named_children:
        if child.type == "heredoc_redirect" and names & (SHELLS | {"ssh"}):
            for part in child.named_children:
                if part.type == "heredoc_body":
                    outer = (*script.outer, *sorted(names))
                    script.nested(source(part), script.scope.line(part), outer, replace(script.scope))


def _unset(script: Script, node: Any, depth: int) -> None:
    del depth
    for child in node.named_children:
        script.scope.variables.pop(source(child), None)


HANDLERS: dict[str, Callable[[Script, Any, int], None]] = {
    "variable_assignment": Script.assignment,
    "declaration_command": Script.declaration,
    "command": Script.command,
    "if_statement": _if,
    "case_statement": _case,
    "list": _list,
    "for_statement": _for,
    "c_style_for_statement": _for,
    "subshell": _subshell,
    "function_definition": _function,
    "redirected_statement": _redirected,
    "unset_command": _unset,
    "comment": lambda script, node, depth: None,
}


@functools.cache
def _parser() -> Any:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse(text: str) -> Any:
    """The syntax tree of a script; the grammar takes what is broken as far as it goes."""
    return _parser().parse(text.encode("utf-8", "replace")).root_node


def read_script(
    text: str,
    file: str,
    *,
    per_node: bool = True,
    load: Callable[[str], str | None] = lambda _: None,
    variables: Mapping[str, Assigned] | None = None,
    first_line: int = 1,
    marks: Marks | None = None,
) -> tuple[list[Command], Marks, dict[str, Assigned]]:
    """The commands that a script would run, the marks in their words, and the variables at its end."""
    if len(text) > SOURCE_LIMIT:
        raise UsageError(f"{file}: {len(text)} characters; wanted at most {SOURCE_LIMIT} in a launch file")
    marks = marks or Marks(file)
    scope = Scope(marks, first_line, dict(variables or {}), None, per_node)
    script = Script(scope, load)
    script.run(parse(text))
    return script.commands, marks, script.scope.variables
