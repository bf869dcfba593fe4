"""Is the port of rank 0 one that can be listened on, and the same everywhere?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding
from preflight.launch.field import Sourced, Unknown
from preflight.launch.plan import Plan, fail, warn
from preflight.said import knowing, said

SSH, PRIVILEGED, LAST = 22, 1024, 65535
EPHEMERAL = (32768, 60999)
Range = tuple[int, int]
MANY = 10**9


def port_is_valid(plan: Plan) -> Iterable[Finding]:
    """A port outside 1-65535, ssh's own, or one that only root may open."""
    port = plan.master_port
    if not isinstance(port, Sourced) or port.origin == "tool":
        return
    name = plan.field_names.port
    if port.value == 0:
        if plan.spans_nodes:
            words = said("{name} 0 lets each node choose its own port: the other nodes do not learn it", name)
            message = knowing(words, value=port.value)
            yield fail("master_port_is_valid", message, port.where, fix=f"{name}: 29500")
    elif not 0 < port.value < 65536:
        yield fail(
            "master_port_is_valid",
            said("{name} {value}; wanted 1-65535", name, port.value),
            port.where,
            fix=f"{name}: 29500",
        )
    elif port.value == SSH:
        message = knowing(said("{name} 22 is sshd's", name), value=port.value)
        yield fail("master_port_is_valid", message, port.where, fix=f"{name}: 29500")
    elif port.value < PRIVILEGED:
        message = said("{name} {value}: only root may listen on ports below {PRIVILEGED}", name, port.value, PRIVILEGED)
        yield warn("master_port_is_valid", message, port.where, fix=f"{name}: 29500")
    elif EPHEMERAL[0] <= port.value <= EPHEMERAL[1] and plan.may_span_nodes:
        message = said(
            "{name} {value} lies among the ports that Linux hands out by itself "
            "({EPHEMERAL}-{EPHEMERAL2}): any connection may take it first",
            name,
            port.value,
            EPHEMERAL[0],
            EPHEMERAL[1],
        )
        yield warn("master_port_is_not_ephemeral", message, port.where, fix=f"{name}: 29500")


def port_is_the_same_everywhere(plan: Plan) -> Iterable[Finding]:
    """A port that every node works out for itself."""
    port = plan.master_port
    if isinstance(port, Unknown) and port.varies and plan.spans_nodes:
        message = said("the port {expression} comes out different on every node", port.expression)
        yield fail("master_port_is_the_same_everywhere", message, port.where, fix="29500, the same on every node")


def port_stays_in_range(plan: Plan) -> Iterable[Finding]:
    """A port that is worked out from a job's number, or at random, may come out above 65535 or below 1024."""
    port = plan.master_port
    found = lowest_and_highest(port.expression) if isinstance(port, Unknown) else None
    if not isinstance(port, Unknown) or found is None:
        return
    low, high = found
    if low < PRIVILEGED and SHUFFLED.fullmatch(port.expression.strip()):
        message = said("the port {expression} may come out below 1024, where only root may listen", port.expression)
        yield warn("master_port_is_valid", message, port.where, fix="$(shuf -i 10000-29999 -n 1)")
    if high <= LAST:
        return
    if low > LAST:
        message = said("the port {expression} is {low} or more; wanted 1-65535", port.expression, low)
        yield fail("master_port_is_valid", message, port.where, fix="$((10000 + SLURM_JOB_ID % 20000))")
    elif high >= MANY:
        message = said(
            "the port {expression} grows with the number of the job, and above 65535 it is not a port", port.expression
        )
        yield warn("master_port_is_valid", message, port.where, fix="$((10000 + SLURM_JOB_ID % 20000))")
    else:
        message = said("the port {expression} may come out as {high}; wanted 1-65535", port.expression, high)
        yield warn("master_port_is_valid", message, port.where, fix="$((10000 + SLURM_JOB_ID % 20000))")


JOB = r"\$?\{?(?:SLURM_JOB_?ID|SLURM_ARRAY_JOB_ID)\}?"
# The last digits of a job's number, behind digits that are written: 1${SLURM_JOB_ID: -4}.
TAILED = re.compile(r"(\d{0,5})\$\{SLURM_JOB_?ID:(?: -|0-)(\d)\}")
TAIL = re.compile(r"\$\(\s*echo -n \"?" + JOB + r"\"?\s*\|\s*tail -c ?(\d)\s*\)")
SHUFFLED = re.compile(r"\$\(\s*shuf\b[^|)]*-i ?(\d{1,6})-(\d{1,6})[^|)]*\)")
ARITHMETIC = re.compile(r"\$\(\((?P<inner>.*)\)\)|\$\(\s*expr (?P<called>.*)\)|`\s*expr (?P<quoted>.*)`")
READABLE = re.compile(r"[\dJRT_+*%() -]{1,80}")


def lowest_and_highest(expression: str) -> Range | None:
    """The smallest and largest number that a shell's expression may come out as; None where it is not known."""
    text = expression.strip()
    tailed, shuffled = TAILED.fullmatch(text), SHUFFLED.fullmatch(text)
    if tailed:
        first, size = int(tailed[1] or 0), 10 ** int(tailed[2])
        return first * size, first * size + size - 1
    if shuffled:
        return int(shuffled[1]), int(shuffled[2])
    found = ARITHMETIC.fullmatch(text)
    inner = next((part for part in found.groups() if part is not None), "") if found else ""
    inner = TAIL.sub(lambda match: f"T{match[1]}", inner)
    inner = re.sub(r"\$?\{?RANDOM\}?", "R", re.sub(JOB, "J", inner)).replace("\\*", "*")
    if not inner or not READABLE.fullmatch(inner):
        return None
    try:
        return _range(ast.parse(inner.strip(), mode="eval").body)
    except (SyntaxError, ValueError):
        return None


def _range(node: ast.expr) -> Range:
    """The range of a sum, product or remainder; ValueError for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value, node.value
    if isinstance(node, ast.Name):
        if node.id.startswith("T"):
            return 0, 10 ** int(node.id[1:]) - 1
        return (0, MANY) if node.id == "J" else (0, 32767)
    if isinstance(node, ast.BinOp):
        (low, high), (least, most) = _range(node.left), _range(node.right)
        if isinstance(node.op, ast.Add):
            return low + least, high + most
        if isinstance(node.op, ast.Sub):
            return low - most, high - least
        if isinstance(node.op, ast.Mult):
            return low * least, high * most
        if isinstance(node.op, ast.Mod) and least == most > 0:
            return (low, high) if high < most else (0, most - 1)
    raise ValueError(node)


PLAN_RULES = (port_is_valid, port_is_the_same_everywhere, port_stays_in_range)
