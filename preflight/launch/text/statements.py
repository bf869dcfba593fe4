"""What do if, for, case and the other statements of a shell script do to the walk through it?"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

from preflight.launch.text.execute import calculate, command, document, is_background, target
from preflight.launch.text.expansion import Assigned, Scope
from preflight.launch.text.grammar import Reading, filled, parse, read
from preflight.launch.text.marks import Marks, is_firm, plain
from preflight.launch.text.shell import REMOTE, SHELLS, Command, Handler, Inner, Script, Start
from preflight.launch.text.syntax import source
from preflight.launch.text.written import Files, Written, named
from preflight.said import said
from preflight.said.errors import UsageError

SOURCE_LIMIT = 1 << 20
LOOP_LIMIT = 64


CONSTANT = {"true": True, ":": True, "false": False}


def condition(script: Script, node: Any) -> bool | None:
    """Whether a test holds, where the script alone tells; None where it does not."""
    if node.type == "command" and source(node) in CONSTANT:
        return CONSTANT[source(node)]
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
    """A case; a word that the script decides leaves the first branch that fits."""
    value = node.child_by_field_name("value")
    text = script.scope.text(value) if value is not None else ""
    items = [item for item in node.named_children if item.type == "case_item"]
    bodies = []
    for item in items:
        patterns = item.children_by_field_name("value")
        spelled = [source(pattern).strip("\"'") for pattern in patterns]
        if value is not None and is_firm(text) and not any("$" in pattern for pattern in spelled):
            if not any(fnmatch.fnmatchcase(plain(text), pattern) for pattern in spelled):
                continue
            script.branches([list(item.named_children[len(patterns) :])], depth, may_skip=False)
            return
        bodies.append(list(item.named_children[len(patterns) :]))
    script.branches(bodies, depth, may_skip=True)


def _list(script: Script, node: Any, depth: int) -> None:
    """``a && b``: after a test b may not run."""
    named = node.named_children
    if len(named) != 2 or (named[0].type != "test_command" and source(named[0]) not in CONSTANT):
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
        values = _turns(script, node)
    else:
        names = [source(variable)]
    are_known = bool(values) and len(values) <= LOOP_LIMIT and all(map(is_firm, values))
    if not are_known:
        values = [script.scope.marks.unknown(f"${names[0]} of a loop" if names else "loop", script.scope.line(node))]
    before, script.loop = script.loop, "for"
    with _turning(script.scope), script.files.in_unknown_turns(holds=not are_known):
        for value in values:
            for name in names:
                script.scope.assign(name, [value], script.scope.line(node), exported=False)
            script.run(body, depth + 1)
    script.loop = before


@contextmanager
def _turning(scope: Scope) -> Iterator[None]:
    """Where a script logs in to one node after the other, each turn of a loop works out its own."""
    before, scope.per_node = scope.per_node, scope.per_node or scope.per_turn
    yield
    scope.per_node = before


STEP_OF_ONE = re.compile(r"(\w+)\s*\+\+|\+\+\s*(\w+)|(\w+)\s*\+=\s*1")


def _turns(script: Script, node: Any) -> list[str]:
    """The values of ``for ((i = 0; i < N; i++))`` where both bounds are known; none elsewhere."""
    first, holds, step = (node.child_by_field_name(part) for part in ("initializer", "condition", "update"))
    if first is None or holds is None or step is None or not STEP_OF_ONE.fullmatch(source(step).strip()):
        return []
    value, last = first.child_by_field_name("value"), holds.child_by_field_name("right")
    operator = holds.child_by_field_name("operator")
    if value is None or last is None or operator is None or source(operator) not in ("<", "<="):
        return []
    start, end = script.scope.number(value), script.scope.number(last)
    if start is None or end is None:
        return []
    end += source(operator) == "<="
    return [str(number) for number in range(start, min(end, start + LOOP_LIMIT + 1))]


READS_LINE = re.compile(r"(?:IFS=\S*\s+)?read\s+(?:-\w+\s+)*(\w+)")


READS = re.compile(r"\b(read|mapfile|readarray)\b")
ENDLESS = ("true", ":", "[ 1 ]", "[[ 1 ]]", "((1))", "(( 1 ))")


def _while(script: Script, node: Any, depth: int) -> None:
    """A loop over the lines of a file that is given runs for each; any other once, with what it reads unknown."""
    test, *body = node.named_children
    before, kind = script.loop, "while" if READS.search(source(test)) else "for"
    # `while true` runs one command again and again, for one host
    script.loop = before if source(test).rstrip("; \n") in ENDLESS else kind
    path, script.stdin = script.stdin, ""
    read = READS_LINE.fullmatch(source(test).rstrip(";\n "))
    lines = _lines(script, path) if read else []
    with _turning(script.scope), script.files.in_unknown_turns(holds=not lines):
        for line in lines:
            script.scope.assign(read[1] if read else "", [line], script.scope.line(node), exported=False)
            for child in body:
                script.run(child, depth + 1)
        for child in node.named_children if not lines else ():
            for name in re.findall(rf"^{READS_LINE.pattern}", source(child)[:200]):
                script.scope.assign(
                    name, [script.scope.marks.unknown(f"${name} of a loop", script.scope.line(node))], 0, exported=False
                )
            script.run(child, depth + 1)
    script.loop, script.stdin = before, path


def _lines(script: Script, path: str) -> list[str]:
    """The lines that a loop reads from a file: none where it is not given, or some of them may be skipped."""
    known = script.scope.load if path and is_firm(path) else None
    text = known(plain(path)) if known is not None else None
    lines = [line.strip() for line in (text or "").rstrip("\n").split("\n")]
    is_plain = text is not None and all(line and not line.startswith("#") for line in lines)
    return lines if is_plain and len(lines) <= LOOP_LIMIT else []


def _subshell(script: Script, node: Any, depth: int) -> None:
    before = dict(script.scope.variables)
    for child in node.named_children:
        script.run(child, depth + 1)
    script.scope.variables = before


def _compound(script: Script, node: Any, depth: int) -> None:
    """``{ ...; }``, or ``((rank++))``, which counts."""
    if source(node).startswith("(("):
        calculate(script, source(node)[2:].removesuffix("))"), script.scope.line(node))
        return
    for child in node.named_children:
        script.run(child, depth + 1)


def _function(script: Script, node: Any, depth: int) -> None:
    del depth
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if name is not None and body is not None:
        script.functions[source(name)] = body


def _redirected(script: Script, node: Any, depth: int) -> None:
    """A here-document that a shell or sbatch reads is a script, and so may be one that goes into a file."""
    del depth
    body = node.child_by_field_name("body")
    added = target(script, node, (">>",))
    into, is_here = added or target(script, node), not REMOTE & set(script.outer)
    surely = not script.conditions
    if body is None:
        if into and is_here:
            script.files.take(into, Written(), appends=bool(added), surely=surely)
        return
    outside, script.stdin = script.stdin, _read_from(script, node)
    with script.files.caught() if into else nullcontext() as caught:
        script.run(body)
    script.stdin = outside
    inner, names = document(script, node), {word.rpartition("/")[2] for word in source(body).split()}
    words = source(body).split()
    if inner is None:
        if caught is not None and is_here:
            script.files.take(into, caught, appends=bool(added), surely=surely)
        return
    if words[:1] == ["read"] and words[-1].isidentifier():  # read -r -d '' COMMAND <<EOF
        texts = [inner.text] if inner.is_quoted else script.scope.words(inner.node, quoted=True)
        script.scope.assign(words[-1], texts, inner.line, exported=False)
        return
    if "tee" in names:
        into = next((word for word in words[1:] if not word.startswith("-")), "")
        added = into if "-a" in words else ""
    runs_it = names & (SHELLS | {"ssh", "sbatch", "salloc"})
    if into and ("tee" in names or not runs_it):  # else the file takes what the script says
        if is_here:
            script.files.take(into, _written_down(script, inner, words), appends=bool(added), surely=surely)
        if not added:
            script.written[named(into)] = inner
    elif runs_it:
        if "sbatch" in names:
            script.batches.append(inner)
        before, script.in_background = script.in_background, script.in_background or is_background(body)
        handed = _handed(script, body)
        scope = script.scope if handed is None else replace(script.scope, arguments=handed)
        script.nested_in(inner, (*script.outer, *sorted(names)), scope)
        script.in_background = before


def _written_down(script: Script, inner: Inner, words: Sequence[str]) -> Written:
    """The lines of a here-document that `cat` or `tee` puts into a file."""
    texts = [inner.text] if inner.is_quoted else script.scope.words(inner.node, quoted=True)
    is_known = words[:1] in (["cat"], ["tee"], ["sudo"]) and all(map(is_firm, texts))
    return Written([(plain("".join(texts)), inner.line)], is_known)


def _pipeline(script: Script, node: Any, depth: int) -> None:
    """Commands of which each reads what the one before prints; `tee` writes it down."""
    *others, last = node.named_children
    words = source(last).split()
    is_tee = bool(others) and words[:1] == ["tee"] and last.type == "command"
    with script.files.caught() as caught:
        for child in others:
            script.run(child, depth + 1)
        caught.is_known = caught.is_known and len(others) == 1
    script.run(last, depth + 1)
    if not is_tee:
        return
    for word in words[1:]:
        if not word.startswith("-") and "$" not in word and not REMOTE & set(script.outer):
            script.files.take(word.strip("\"'"), caught, appends="-a" in words, surely=not script.conditions)


def _handed(script: Script, body: Any) -> tuple[str, ...] | None:
    """The arguments of a script that a shell reads from its input: ``bash -s -- 1``."""
    parts = [child.named_children[0] if child.type == "command_name" else child for child in body.named_children]
    words = [plain(text) for part in parts for text in script.scope.words(part)] if body.type == "command" else []
    if "-s" not in words:
        return None
    behind = words[words.index("-s") + 1 :]
    return tuple(behind[1:] if behind[:1] == ["--"] else behind)


def _read_from(script: Script, node: Any) -> str:
    """The file behind <, as the standard input of a command; "" where there is none."""
    for child in node.named_children:
        if child.type == "file_redirect" and any(part.type == "<" for part in child.children):
            return script.scope.text(child.named_children[-1])
    return ""


def _unset(script: Script, node: Any, depth: int) -> None:
    del depth
    for child in node.named_children:
        script.scope.variables.pop(source(child), None)


def _nothing(script: Script, node: Any, depth: int) -> None:
    del script, node, depth


HANDLERS: dict[str, Handler] = {
    "variable_assignment": Script.assignment,
    "declaration_command": Script.declaration,
    "command": command,
    "if_statement": _if,
    "case_statement": _case,
    "list": _list,
    "for_statement": _for,
    "c_style_for_statement": _for,
    "while_statement": _while,
    "subshell": _subshell,
    "compound_statement": _compound,
    "function_definition": _function,
    "redirected_statement": _redirected,
    "pipeline": _pipeline,
    "unset_command": _unset,
    "comment": _nothing,
}


class Read(NamedTuple):
    """What a script would run, the marks in its words, its variables at the end, and what it hands to sbatch."""

    commands: list[Command]
    marks: Marks
    variables: dict[str, Assigned]
    batches: list[Inner]
    starts: list[Start]
    ended: int
    unread: tuple[tuple[str, int], ...]
    files: Files


def read_script(
    text: str,
    file: str,
    *,
    per_node: bool = True,
    per_turn: bool = False,
    load: Callable[[str], str | None] = lambda _: None,
    variables: Mapping[str, Assigned] | None = None,
    first_line: int = 1,
    marks: Marks | None = None,
    launch_words: tuple[str, ...] = ("",),
    reading: Reading | None = None,
    start: Start | None = None,
) -> Read:
    """The commands that a script would run, the marks in their words, and the variables at its end.

    What a command hands to another node as one text (``ssh n1 "..."``) is read where it holds one of `launch_words`.
    `start` is how another script starts this one. `per_node`: it runs on every node; `per_turn`: it runs once, and its
    loops log in to the nodes.
    """
    if len(text) > SOURCE_LIMIT:
        raise UsageError(
            said(
                "{file}: {text} characters; wanted at most {SOURCE_LIMIT} in a launch file",
                file,
                len(text),
                SOURCE_LIMIT,
            )
        )
    marks = marks or Marks(file)
    files = Files()

    def kept(path: str) -> str | None:
        """A file that the script has written by then, or else one that is given."""
        text = files.text_of(path)
        return load(path) if text is None else text

    scope = Scope(marks, first_line, dict(variables or {}), None, per_node, per_turn, load=kept)
    script = Script(scope, load, HANDLERS, launch_words=launch_words, files=files)
    if start is not None:
        scope.variables.update(start.variables)
        scope.arguments, scope.per_node = start.arguments, start.per_node
        script.outer, script.loop, script.in_background = start.outer, start.loop, start.in_background
    script.run(parse(filled(text, reading or read(text))))
    found = (script.commands, marks, script.scope.variables, script.batches, script.starts)
    return Read(*found, script.ended, tuple(dict.fromkeys(script.unread)), files)
