"""Does a program that is given beside its start undo what its launcher tells it? It is parsed, never run."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Mapping

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.address import in_brackets, is_ipv6, is_loopback
from preflight.launch.field import Sourced, firm, value_of
from preflight.launch.plan import LaunchFiles, Plan, fail, warn
from preflight.launch.slips import devices, saving
from preflight.launch.slips.source import always, parsed, reached, settings_of, variable
from preflight.said import said


def program_keeps_what_it_is_given(files: LaunchFiles) -> Iterable[Finding]:
    """The launcher tells each process where rank 0 is, and which device is its own: a constant in their place is not.

    Under torchrun the processes meet in the store of the agent, at the port that the agent chose.
    """
    programs = {os.path.basename(name): name for name in files.programs}
    told: set[str] = set()
    for plan in files.plans:
        name = programs.get(os.path.basename(value_of(plan.program) or ""), "")
        if not name or name in told or plan.is_opaque:
            continue
        tree = parsed(files.programs[name])
        if tree is None:
            continue
        told.add(name)
        if plan.launcher.has_agent:
            yield from _meeting_point(plan, tree, name)
        else:
            yield from _own_port(plan, tree, name)
        yield from devices.of_a_process(plan, tree, name)
        yield from _address_in_a_url(plan, tree, name)
        yield from saving.of_each_node(plan, tree, name)


def _meeting_point(plan: Plan, tree: ast.Module, file: str) -> Iterable[Finding]:
    """`os.environ["MASTER_ADDR"] = "localhost"`, and a port that is not the launcher's."""
    for node in always(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
            continue
        for target in node.targets:
            name = variable(target)
            text, where = str(node.value.value), Where(file, node.lineno)
            port = firm(plan.master_port)
            if name == "MASTER_ADDR" and plan.spans_nodes and is_loopback(text):
                message = said(
                    "{file} sets MASTER_ADDR to {text}: the processes of other nodes look on their own", file, text
                )
                yield fail(
                    "program_keeps_what_it_is_given",
                    message,
                    where,
                    plan.where,
                    fix=said("Delete line {line}.", node.lineno),
                )
            elif name == "MASTER_PORT" and plan.launcher.name == "torchrun" and port is not None and text != str(port):
                message = said(
                    "{file} sets MASTER_PORT to {text}, and the agent's store listens on {port}: no process finds it",
                    file,
                    text,
                    port,
                )
                yield fail(
                    "program_keeps_what_it_is_given",
                    message,
                    where,
                    plan.where,
                    fix=said("Delete line {line}.", node.lineno),
                )


def own_port(plan: Plan, texts: Mapping[str, str]) -> Sourced[int] | None:
    """The port that a program sets itself, whatever is exported; under torchrun it is the agent's that counts."""
    base = os.path.basename(value_of(plan.program) or "")
    name = next((name for name in texts if os.path.basename(name) == base), "")
    tree = parsed(texts[name]) if name and not plan.is_opaque and not plan.launcher.has_agent else None
    held = settings_of(reached(tree), "MASTER_PORT") if tree is not None else ()
    return next((Sourced(int(text), name, line) for line, text in held if text.isdecimal()), None)


def _own_port(plan: Plan, tree: ast.Module, file: str) -> Iterable[Finding]:
    """`os.environ["MASTER_PORT"] = "29500"` where another port is exported: that one has no effect."""
    exported = plan.environment.get("MASTER_PORT")
    text = value_of(exported)
    for line, value in settings_of(reached(tree), "MASTER_PORT"):
        if isinstance(exported, Sourced) and text and value != text:
            message = said(
                "{file} sets MASTER_PORT to {value} itself: the exported {text} has no effect, and where {value} is "
                "taken, rank 0 ends with Address already in use",
                file,
                value,
                text,
            )
            fix = said("Delete line {line}.", line)
            yield warn("program_keeps_what_it_is_given", message, Where(file, line), exported.where, fix=fix)


def _address_in_a_url(plan: Plan, tree: ast.Module, file: str) -> Iterable[Finding]:
    """An IPv6 address needs brackets in a URL, however a program puts it together."""
    address = plan.master_address
    if not isinstance(address, Sourced) or not is_ipv6(address.value):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and JOINED_URL.match(_pattern(node)):
            message = said(
                "{file} writes tcp://ADDRESS:PORT, and the address {value} is of IPv6: without brackets its end is "
                "taken for the port",
                file,
                address.value,
            )
            fix = 'tcp://[{...}]:{...}, or init_method="env://"'
            yield fail("master_address_is_an_address", message, Where(file, node.lineno), address.where, fix=fix)
            return


HOLE = "{}"
JOINED_URL = re.compile(r"tcp://\{\}:(\{\}|\d)")


def _pattern(node: ast.expr) -> str:
    """A text that is put together, with {} for each value: by an f-string, format, % or +."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else HOLE for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _pattern(node.left) + _pattern(node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return re.sub(r"%[sd]", HOLE, _pattern(node.left))
    is_format = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format"
    if is_format and isinstance(node.func.value, ast.Constant):  # type: ignore[attr-defined]
        return re.sub(r"\{\w*\}", HOLE, str(node.func.value.value))  # type: ignore[attr-defined]
    return HOLE


def urls_have_brackets(files: LaunchFiles) -> Iterable[Finding]:
    """tcp://fd00::1:29500 among a command's words: torch takes what is behind the first colon for the port."""
    for script in files.scripts:
        for command in script.commands:
            for word in command.words:
                before, url, rest = word.plain.rpartition("tcp://")
                bracketed = in_brackets(rest)
                if url and bracketed:
                    message = said(
                        "{url} has an IPv6 address without brackets: its end is taken for the port", f"{url}{rest}"
                    )
                    where = Where(script.marks.file, word.line)
                    yield fail("master_address_is_an_address", message, where, fix=f"{before}{url}{bracketed}")


FILES_RULES = (program_keeps_what_it_is_given, urls_have_brackets)
