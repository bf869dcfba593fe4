"""Does each process that is started on a node take a device of its own, as its program picks it?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Unknown, firm
from preflight.launch.plan import Plan, fail
from preflight.launch.slips.source import assigned, method, reached, reads, settings_of, variable
from preflight.said import said

OWN_NUMBER = re.compile(r"\"?\$\{?(SLURM_LOCALID|LOCAL_RANK|OMPI_COMM_WORLD_LOCAL_RANK)\}?\"?")


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
            text = str(given.value) if isinstance(given, ast.Constant) else ""
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


def _narrowed(plan: Plan, tree: ast.Module, file: str) -> Iterable[Finding]:
    """CUDA_VISIBLE_DEVICES=$SLURM_LOCALID leaves a process one device, number 0, and LOCAL_RANK names another."""
    shown = plan.device_ids
    if not isinstance(shown, Unknown) or not OWN_NUMBER.fullmatch(shown.expression):
        return
    local = {target for target, value in assigned(tree) if reads(value, "LOCAL_RANK")}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and method(node) == "set_device" and node.args:
            given = node.args[0]
            if reads(given, "LOCAL_RANK") or (isinstance(given, ast.Name) and given.id in local):
                message = said(
                    "CUDA_VISIBLE_DEVICES={expression} shows each process one device, as number 0, and {file} takes "
                    "LOCAL_RANK for its number: invalid device ordinal",
                    shown.expression,
                    file,
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
