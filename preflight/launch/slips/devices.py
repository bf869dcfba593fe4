"""Does each process that is started on a node take a device of its own, as its program picks it?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Unknown, firm, value_of
from preflight.launch.plan import Plan, fail
from preflight.launch.slips.source import assigned, method, reached, reads, settings_of, variable
from preflight.said import said

OWN_NUMBERS = "SLURM_LOCALID|OMPI_COMM_WORLD_LOCAL_RANK|LOCAL_RANK"
OWN_NUMBER = re.compile(rf"\"?\$\{{?({OWN_NUMBERS})\}}?\"?")


def of_a_process(plan: Plan, tree: ast.Module, file: str) -> Iterable[Finding]:
    """Whatever a program does to the device of its process."""
    if plan.launcher.has_agent:
        yield from _by_global_rank(plan, tree, file)
    yield from _one_for_all(plan, tree, file)
    yield from _narrowed(plan, tree, file)


def _by_global_rank(plan: Plan, tree: ast.Module, file: str) -> Iterable[Finding]:
    """`torch.cuda.set_device(dist.get_rank())`: the second node has no device of such a number."""
    if not plan.spans_nodes or (firm(plan.processes_per_node) or 1) < 2:
        return
    named: dict[str, bool] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            named[name] = named.get(name, True) and _is_global_rank(node.value)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
            continue
        given = node.args[0]
        by_name = isinstance(given, ast.Name) and named.get(given.id, False)
        if node.func.attr == "set_device" and (by_name or _is_global_rank(given)):
            message = said(
                "{file} takes the rank in the whole job for its device: the second node has none of that number", file
            )
            fix = 'int(os.environ["LOCAL_RANK"])'
            yield fail("program_keeps_what_it_is_given", message, Where(file, node.lineno), plan.where, fix=fix)


def _one_for_all(plan: Plan, tree: ast.Module, file: str) -> Iterable[Finding]:
    """Several processes of a node on one device: CUDA_VISIBLE_DEVICES or set_device with a constant."""
    count = firm(plan.processes_per_node) or 1
    if count < 2:
        return
    for line, value in settings_of(reached(tree), "CUDA_VISIBLE_DEVICES"):
        listed = [one for one in value.split(",") if one.strip()]
        if len(listed) < count:
            message = said(
                "{file} sets CUDA_VISIBLE_DEVICES to {value!r}, and {count} processes are started on a node: they "
                "share a device, and NCCL stops with Duplicate GPU detected",
                file,
                value,
                count,
            )
            fix = said("Delete line {line}.", line)
            yield fail("program_keeps_what_it_is_given", message, Where(file, line), plan.where, fix=fix)
    for node in reached(tree):
        if isinstance(node, ast.Call) and method(node) == "set_device" and node.args:
            given = node.args[0]
            text = str(given.value) if isinstance(given, ast.Constant) else _by_default(plan, tree, given)
            if re.fullmatch(r"(cuda:)?\d+", text):
                message = said(
                    "{file} takes device {text} in every process, and {count} are started on a node: NCCL stops with "
                    "Duplicate GPU detected",
                    file,
                    text,
                    count,
                )
                fix = 'int(os.environ["LOCAL_RANK"])'
                yield fail("program_keeps_what_it_is_given", message, Where(file, node.lineno), plan.where, fix=fix)


def _by_default(plan: Plan, tree: ast.Module, given: ast.expr) -> str:
    """The number that ``args.gpu`` has where the option --gpu is not given, "" where it is, or has no default."""
    if not isinstance(given, ast.Attribute):
        return ""
    words = [str(value_of(word) or getattr(word, "expression", "")) for word in plan.arguments]
    is_replaced = any(
        isinstance(node, ast.Attribute) and node.attr == given.attr and isinstance(node.ctx, ast.Store)
        for node in ast.walk(tree)
    )
    if is_replaced or given.attr in map(_option, words):
        return ""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call) and method(node) == "add_argument"):
        names = [_option(str(one.value)) for one in call.args if isinstance(one, ast.Constant)]
        default = next((word.value for word in call.keywords if word.arg == "default"), None)
        if given.attr in names:
            return str(default.value) if isinstance(default, ast.Constant) else ""
    return ""


def _option(word: str) -> str:
    """The name by which argparse keeps what an option says."""
    return word.partition("=")[0].lstrip("-").replace("-", "_")


def _narrowed(plan: Plan, tree: ast.Module, file: str) -> Iterable[Finding]:
    """CUDA_VISIBLE_DEVICES=$SLURM_LOCALID leaves a process one device, number 0, and LOCAL_RANK names another."""
    shown = plan.device_ids
    if not isinstance(shown, Unknown) or not OWN_NUMBER.fullmatch(shown.expression):
        return
    own = OWN_NUMBERS.split("|")
    local = {target for target, value in assigned(tree) if any(reads(value, name) for name in own)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and method(node) == "set_device" and node.args:
            given = node.args[0]
            if any(reads(given, name) for name in own) or (isinstance(given, ast.Name) and given.id in local):
                message = said(
                    "CUDA_VISIBLE_DEVICES={expression} shows each process one device, as number 0, and {file} takes "
                    "{number} for its number: invalid device ordinal",
                    shown.expression,
                    file,
                    next(name for name in own if name in ast.unparse(tree)),
                )
                fix = "Leave CUDA_VISIBLE_DEVICES alone: every process sees all devices of its node."
                yield fail("slurm_tasks_see_their_gpus", message, shown.where, Where(file, node.lineno), fix=fix)
                return


def _is_global_rank(node: ast.AST) -> bool:
    """``dist.get_rank()``, ``int(os.environ["RANK"])``; not what is divided by the devices of a node."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "int" and node.args:
        return _is_global_rank(node.args[0])
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr == "get_rank" and not node.args
    return variable(node) == "RANK"
