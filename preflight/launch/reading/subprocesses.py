"""What does a Python program that starts a job run by subprocess and os.system, as a script of the same lines?"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from preflight.launch.launchers import launch_words

CALLS = re.compile(r"(subprocess\.)?(run|Popen|call|check_call|check_output|getoutput)|os\.(system|popen|execvp|execv)")
IN_BACKGROUND = re.compile(r"(subprocess\.)?Popen")
ENDS = ("wait", "communicate")
STARTS = re.compile(r"subprocess|os\.(system|popen|exec)")
HOST = re.compile(r"(socket\.(gethostname|getfqdn)|platform\.node)\(\)")
BY_HAND = re.compile(r"(?m)\bRANK=.{0,2000}?\bpython")
# A part of a text that is no letter of the program: a variable of its environment, or what a command prints.
OPEN, CLOSE = "\ue000", "\ue001"
PART = re.compile(f"{OPEN}([^{CLOSE}]*){CLOSE}")
TURNS_LIMIT = 64
STEPS_LIMIT = 4096  # of statements, and of the letters and parts of what they hold, which are counted
A_STEP = 256  # by so many
SIZE_LIMIT = 16384  # letters and parts of one value: what is larger is not worked out

Value = str | int | list["Value"] | dict[str, "Value"] | None  # None: only running it would tell


def as_script(text: str) -> str:
    """The commands that the program starts, in the lines of their calls; "" where it starts no job that can be read."""
    if not STARTS.search(text):
        return ""
    walk = Walk({}, {})
    try:
        walk.body(_statements(text))
    except RecursionError:  # of an expression too deep to be read
        return ""
    script = ["" for _ in text.split("\n")]
    for line, command in walk.commands:
        before = script[line - 1]
        script[line - 1] = f"{before}{'' if not before or before.endswith('&') else ';'} {command}".strip()
    whole = "\n".join(script)
    return whole if BY_HAND.search(whole) or any(word in whole for word in launch_words()) else ""


def _statements(text: str) -> list[ast.stmt]:
    """Those of a program; none of a text that is none."""
    try:
        return ast.parse(text).body
    except (SyntaxError, ValueError):
        return []


@dataclass
class Walk:
    """The names of a program as far as it was walked, its commands with their lines, and how many steps are left."""

    names: dict[str, Value]
    functions: dict[str, ast.FunctionDef]
    commands: list[tuple[int, str]] = field(default_factory=list)
    left: list[int] = field(default_factory=lambda: [STEPS_LIMIT])
    depth: int = 0

    def body(self, statements: Sequence[ast.stmt]) -> None:
        """Statement by statement, loops turn by turn, functions where they are called."""
        for statement in statements:
            if self.left[0] <= 0:
                return
            self.left[0] -= 1
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef):
            self.functions[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            self._assign(node)
        elif isinstance(node, ast.For):
            self._loop(node)
        elif isinstance(node, ast.If):
            self.body(node.body if _is_main(node.test) or not node.orelse else [*node.body, *node.orelse])
        elif isinstance(node, ast.With | ast.Try):
            self.body(node.body)
        elif isinstance(node, ast.Expr | ast.Return) and node.value is not None:
            self._calls(node.value)

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if node.value is None:
            return
        self._calls(node.value)
        value = self.value(node.value)
        for target in targets:
            if isinstance(target, ast.Name):
                before = self.names.get(target.id) if isinstance(node, ast.AugAssign) else None
                if isinstance(node, ast.AugAssign):
                    value = self._bounded(_added(before, value)) if isinstance(node.op, ast.Add) else None
                self.names[target.id] = value
            elif isinstance(target, ast.Subscript):
                self._set(target, value, node.lineno)

    def _set(self, target: ast.Subscript, value: Value, line: int) -> None:
        """A variable of this program's environment, or of one that it hands on."""
        key = self.value(target.slice)
        held = self.names.get(target.value.id) if isinstance(target.value, ast.Name) else None
        if ast.unparse(target.value) == "os.environ" and isinstance(key, str):
            self.commands.append((line, "=".join(("export " + key, _word(value)))))
        elif isinstance(held, dict) and isinstance(key, str):
            held[key] = value

    def _loop(self, node: ast.For) -> None:
        turns = self.value(node.iter)
        names = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
        for turn in turns[:TURNS_LIMIT] if isinstance(turns, list) else [None]:
            parts = turn if isinstance(node.target, ast.Tuple) and isinstance(turn, list) else [turn]
            for place, name in enumerate(names):
                if isinstance(name, ast.Name):
                    self.names[name.id] = parts[place] if len(parts) == len(names) else None
            self.body(node.body)

    def _calls(self, node: ast.expr) -> None:
        """Every command that an expression starts, and every function of the program that it calls."""
        calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
        ended = [one.func.value for one in calls if isinstance(one.func, ast.Attribute) and one.func.attr in ENDS]
        for call in calls:
            name = ast.unparse(call.func)
            if CALLS.fullmatch(name) and call.args:
                self._start(call, name, goes_on=IN_BACKGROUND.fullmatch(name) is not None and call not in ended)
            elif name in self.functions and self.depth < 8:
                self._function(call, self.functions[name])
            elif isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
                self._grown(call.func.value.id, call.func.attr, call.args)

    def _grown(self, name: str, method: str, given: Sequence[ast.expr]) -> None:
        """`cmd.append("--nnodes=2")`, `cmd.extend([...])`, `env.update({...})`."""
        held, more = self.names.get(name), self.value(given[0]) if given else None
        if isinstance(held, list) and method in ("append", "extend"):
            parts = [more] if method == "append" else more if isinstance(more, list) else [None]
            self.names[name] = self._bounded([*held, *parts])
        elif isinstance(held, dict) and method == "update" and isinstance(more, dict):
            held.update(more)

    def _function(self, call: ast.Call, function: ast.FunctionDef) -> None:
        names = [argument.arg for argument in function.args.args]
        given = {name: self.value(value) for name, value in zip(names, call.args, strict=False)}
        given |= {word.arg: self.value(word.value) for word in call.keywords if word.arg}
        inner = Walk({**self.names, **dict.fromkeys(names), **given}, self.functions, self.commands, self.left)
        inner.depth = self.depth + 1
        inner.body(function.body)

    def _start(self, call: ast.Call, name: str, *, goes_on: bool) -> None:
        given = self.value(call.args[1] if name.startswith("os.exec") and len(call.args) > 1 else call.args[0])
        command = " ".join(map(_word, given)) if isinstance(given, list) else _shown(given)
        variables = next((self.value(word.value) for word in call.keywords if word.arg == "env"), None)
        if command and "\n" not in command:
            sets = variables.items() if isinstance(variables, dict) else ()
            before = " ".join(f"{key}={_word(held)}" for key, held in sets)
            self.left[0] -= (len(before) + len(command)) // A_STEP
            self.commands.append((call.lineno, f"{before} {command}{' &' if goes_on else ''}".strip()))

    def value(self, node: ast.expr) -> Value:
        """What an expression holds, None where only running it would tell; an unknown part of a text is a command's."""
        return self._bounded(self._worth(node))

    def _bounded(self, value: Value) -> Value:
        """The same value; None of one that has grown too large to go on with."""
        size = _size(value)
        self.left[0] -= size // A_STEP
        return value if size <= SIZE_LIMIT else None

    def _worth(self, node: ast.expr) -> Value:
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str | int) else None
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if isinstance(node, ast.JoinedStr):
            return _joined(map(self._part, node.values))
        if isinstance(node, ast.List | ast.Tuple):
            return list(self._elements(node.elts))
        if isinstance(node, ast.Dict):
            keys = [
                (self.value(key) if key is not None else None, held)
                for key, held in zip(node.keys, node.values, strict=True)
            ]
            return {key: self.value(held) for key, held in keys if isinstance(key, str)}
        if isinstance(node, ast.BinOp):
            return _worked_out(node.op, self.value(node.left), self.value(node.right))
        if isinstance(node, ast.Subscript):
            return self._item(node)
        return self._called(node) if isinstance(node, ast.Call) else None

    def _part(self, node: ast.expr) -> str:
        value = self.value(node.value) if isinstance(node, ast.FormattedValue) else self.value(node)
        return str(value) if isinstance(value, str | int) else _unknown(node)

    def _elements(self, nodes: Sequence[ast.expr]) -> Iterator[Value]:
        for node in nodes:
            held = self.value(node.value if isinstance(node, ast.Starred) else node)
            if isinstance(node, ast.Starred):
                yield from held if isinstance(held, list) else [None]
            else:
                yield held if held is not None else _unknown(node)

    def _item(self, node: ast.Subscript) -> Value:
        held, key = self.value(node.value), self.value(node.slice)
        if ast.unparse(node.value) == "os.environ" and isinstance(key, str) and key.isidentifier():
            return f"{OPEN}{key}{CLOSE}"
        if isinstance(held, list) and isinstance(key, int) and -len(held) <= key < len(held):
            return held[key]
        return held.get(key) if isinstance(held, dict) and isinstance(key, str) else None

    def _called(self, node: ast.Call) -> Value:
        name = ast.unparse(node.func)
        given = [self.value(one) for one in node.args]
        first = given[0] if given else None
        if name == "str" or (name == "int" and not isinstance(first, list | dict)):
            return str(first) if name == "str" and isinstance(first, str | int) else first
        if name == "len" and isinstance(first, list):
            return len(first)
        if name == "enumerate" and isinstance(first, list):
            return [[place, one] for place, one in enumerate(first)]
        if name == "range" and given and all(isinstance(one, int) and abs(one) <= TURNS_LIMIT for one in given):
            if 0 in given[2:]:  # a step of none
                return None
            return list(range(*(one for one in given[:3] if isinstance(one, int))))
        if name in ("os.environ.copy", "dict", "copy.copy"):
            return dict(first) if isinstance(first, dict) else {}
        if name in ("os.getenv", "os.environ.get") and isinstance(first, str) and first.isidentifier():
            return f"{OPEN}{first}{CLOSE}"
        if name.endswith(".copy") and isinstance(node.func, ast.Attribute):
            held = self.value(node.func.value)
            return dict(held) if isinstance(held, dict) else held
        if name.endswith(".join") and isinstance(node.func, ast.Attribute) and isinstance(first, list):
            between = self.value(node.func.value)
            return _joined(map(_text, first), between) if isinstance(between, str) else None
        if name == "shlex.split" and isinstance(first, str):
            return list(first.split())
        if name.endswith(".split") and not given and isinstance(node.func, ast.Attribute):
            held = self.value(node.func.value)
            return list(held.split()) if isinstance(held, str) else None
        return _unknown(node) if HOST.fullmatch(ast.unparse(node)) else None


def _size(value: Value) -> int:
    """Letters, and parts of what has parts, counted up to the limit: a value may hold itself."""
    size, left = 0, [value]
    while left and size <= SIZE_LIMIT:
        one = left.pop()
        size += 1
        if isinstance(one, str):
            size += len(one)
        elif isinstance(one, int):
            size += 0 if one.bit_length() < 64 else SIZE_LIMIT
        elif one is not None:
            left.extend(one.values() if isinstance(one, dict) else one)
    return size


def _joined(parts: Iterable[str], between: str = "") -> Value:
    """Texts put together, as far as they are not too long."""
    found: list[str] = []
    size = 0
    for part in parts:
        size += len(part) + len(between)
        if size > SIZE_LIMIT:
            return None
        found.append(part)
    return between.join(found)


def _is_main(test: ast.expr) -> bool:
    return "__name__" in ast.unparse(test)


def _unknown(node: ast.expr) -> str:
    """A part that only running the program would tell."""
    return f"{OPEN}({'hostname' if HOST.search(ast.unparse(node)) else 'python'}){CLOSE}"


def _text(value: Value) -> str:
    return str(value) if isinstance(value, str | int) else f"{OPEN}(python){CLOSE}"


def _shown(value: Value) -> str:
    """A text that a shell reads."""
    return PART.sub(r"$\1", value) if isinstance(value, str) else ""


def _word(value: Value) -> str:
    """A word of an argument list, in which no shell fills anything in."""
    pieces = PART.split(_text(value))
    shown = [f'"${piece}"' if place % 2 else shlex.quote(piece) if piece else "" for place, piece in enumerate(pieces)]
    return "".join(shown) or "''"


def _added(before: Value, more: Value) -> Value:
    if isinstance(before, list):
        return [*before, *(more if isinstance(more, list) else [None])]
    if isinstance(before, str):
        return before + _text(more)
    return before + more if isinstance(before, int) and isinstance(more, int) else None


def _worked_out(operator: ast.operator, left: Value, right: Value) -> Value:
    if isinstance(operator, ast.Add):
        if isinstance(left, list) or (isinstance(left, str) and isinstance(right, str | None)):
            return _added(left, right)
        return left + right if isinstance(left, int) and isinstance(right, int) else None
    if isinstance(left, int) and isinstance(right, int):
        if isinstance(operator, ast.Mult):
            return left * right
        if isinstance(operator, ast.Sub):
            return left - right
        if isinstance(operator, ast.FloorDiv) and right:
            return left // right
    return None
