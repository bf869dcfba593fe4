"""What does a program say to Lightning's Trainer, or Fabric, about devices and nodes? It is parsed, never run."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from preflight.launch.field import Sourced, value_of, whole
from preflight.launch.plan import Plan
from preflight.launch.reading.bundle import Bundle, beside, resolved
from preflight.launch.slips.source import parsed
from preflight.launch.text.programs import argument_number
from preflight.launch.text.shell import Command
from preflight.said.errors import UsageError

LIGHTNING = re.compile(r"(?m)^\s*(?:import|from)\s+(?:pytorch_lightning|lightning)\b")
# Who names how processes are started is taken at its word, and so is who takes Slurm for a place without tasks.
CHOSEN = re.compile(r"\b(plugins|cluster_environment|SLURM_JOB_NAME|LightningEnvironment|SLURMEnvironment)\b")
CALLS = ("Trainer", "Fabric")
ELSEWHERE = ("cpu", "tpu", "mps", "hpu")


def is_of_lightning(text: str) -> bool:
    """Whether a program leaves it to Lightning to find out which of its processes it is."""
    return LIGHTNING.search(text) is not None and CHOSEN.search(text) is None


def counts(text: str) -> Mapping[str, tuple[int, int]]:
    """The devices and nodes that the one Trainer of a program asks for, and the line: (number, line).

    One node where it names devices alone, as Lightning takes it.
    """
    tree = parsed(text) if is_of_lightning(text) else None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree is not None else []
    trainers = [call for call in calls if _name(call.func) in CALLS]
    if len(trainers) != 1 or any(word.arg is None for word in trainers[0].keywords):
        return {}
    given = {word.arg: word.value for word in trainers[0].keywords}
    if _constant(given.get("accelerator")) in ELSEWHERE:
        return {}
    found: dict[str, tuple[int, int]] = {}
    for name, words in (("devices", ("devices", "gpus")), ("num_nodes", ("num_nodes",))):
        held = next((given[word] for word in words if word in given), None)
        number = _number(held)
        if number is not None and held is not None:
            found[name] = number, held.lineno
        elif held is not None:
            return {}  # from an option or a variable
    if "devices" in found:
        found.setdefault("num_nodes", (1, trainers[0].lineno))
    return found


def find_programs(bundle: Bundle, script: str, commands: Iterable[Command], *, look_beside: bool) -> None:
    """Read the programs that lie beside a script which starts them."""
    for command in commands:
        path = next((word.plain for word in command.words if word.plain.endswith(".py")), "")
        with contextlib.suppress(UsageError):  # nobody asked for it
            if path:
                beside(bundle, script, path, look_beside=look_beside)


def with_trainer(bundle: Bundle, plan: Plan, script: str) -> Plan:
    """The plan with what its program says to Lightning, as if it were given as options; options themselves win."""
    path = value_of(plan.program) or ""
    name = resolved(bundle, script, path) if path.endswith(".py") else None
    if name is None or plan.is_opaque:
        return plan
    text = bundle.texts[name]
    words = [value_of(word) or "" for word in plan.arguments]
    more = (
        Sourced(f"--trainer.{option}={number}", name, line)
        for option, (number, line) in counts(text).items()
        if argument_number(words, option, option.replace("_", "-"), "gpus" if option == "devices" else option) is None
    )
    return replace(plan, arguments=(*plan.arguments, *more))


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _constant(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _number(node: ast.expr | None) -> int | None:
    """4, "4" and [0, 1]: whatever has one count."""
    if isinstance(node, ast.List):
        return len(node.elts) or None
    value = _constant(node)
    value = whole(value) if isinstance(value, str) else value
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
