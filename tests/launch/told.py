"""What do the starts in the launch cases ask for, in full, and what is found in them on nodes?"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from preflight.launch.field import Sourced, Unknown
from preflight.launch.job import Start
from preflight.launch.plan import LaunchFiles, Plan
from preflight.launch.seats import folded, ranks_table
from preflight.launch.start import starting_of

HEAD = ("launcher", "where", "start")
# What is the file's own text, or follows from the fields beside it.
LEFT_OUT = (*HEAD, "config", "command", "words")
DEFAULTS = {one.name: one.default for one in dataclasses.fields(Plan)}


def of_files(files: LaunchFiles) -> Iterator[str]:
    """Every start, hostfile and configuration; of a start in a row what differs from the one before."""
    before: list[str] = []
    for plan in files.plans:
        now = list(of_plan(plan))
        yield now[0]
        yield from (line for line in now[1:] if line not in before)
        before = now
    for hostfile in files.hostfiles:
        yield "hosts " + " ".join(f"{host.name}:{of_field(host.slots, host.where.line)}" for host in hostfile.hosts)
    for batch in files.batches:
        yield f"batch {of_mapping(batch.values)}"
    for file, variables in files.variables:
        yield f"variables {file} {of_mapping(variables)}"
    yield from of_job(files)


def of_job(files: LaunchFiles) -> Iterator[str]:
    """How its nodes are started, or why they are not, and what its ranks will see."""
    starting = starting_of(files)
    if starting.refusal:
        yield f"refused {starting.refusal}"
    starts = [of_start(start) for start in starting.starts]
    yield from (f"starts {start}" for start in dict.fromkeys(starts))
    yield from [f"starts {len(starts)} in all"] * (len(starts) > len(set(starts)))
    yield from (f"ranks {' '.join(filter(None, row))}" for row in folded(ranks_table(files.plans)))


def of_start(start: Start) -> str:
    """The fields of a start that are not those of its plan."""
    fields = dataclasses.fields(Start)
    held = [
        (one.name, getattr(start, one.name)) for one in fields if one.name not in ("config", "environment", "where")
    ]
    return " ".join([*(f"{name}={of_part(value)}" for name, value in held if value), *sorted(start.environment)])


def of_plan(plan: Plan) -> Iterator[str]:
    """A line for the fields, and one for each that holds several values."""
    told = [f"{plan.launcher.name}, {plan.start} {plan.where.file}:{plan.where.line}"]
    more: list[str] = []
    for one in dataclasses.fields(Plan):
        value = getattr(plan, one.name)
        if one.name in LEFT_OUT or not value or value == DEFAULTS[one.name]:
            continue
        if isinstance(value, Mapping):
            more.append(f"  {one.name} {of_mapping(value)}")
        elif isinstance(value, tuple) and one.name != "wrapper":
            more.append(f"  {one.name} {' '.join(of_part(part) for part in value)}")
        elif dataclasses.is_dataclass(value) and not isinstance(value, Sourced | Unknown):
            more.append(f"  {one.name} {of_part(value)}")
        else:
            told.append(f"{one.name}={of_part(value, plan.where.line)}")
    yield " ".join(told)
    yield from more


def of_part(value: Any, line: int = 0) -> str:
    """A value in one line."""
    if isinstance(value, Sourced | Unknown):
        return of_field(value, line)
    if isinstance(value, Mapping):
        return f"({of_mapping(value)})"
    if isinstance(value, tuple | list):
        return "[" + " ".join(of_part(part, line) for part in value) + "]"
    if dataclasses.is_dataclass(value):
        held = ((one.name, getattr(value, one.name)) for one in dataclasses.fields(value))
        return "(" + " ".join(f"{name}={of_part(part)}" for name, part in held if part) + ")"
    return str(value)


def of_mapping(values: Mapping[str, Any]) -> str:
    """The names with their values, in the order in which they were read."""
    return " ".join(f"{name}={of_part(value)}" for name, value in values.items())


def of_field(value: Sourced[Any] | Unknown | None, line: int) -> str:
    """A value with the line that tells it where that is another one; what is unknown with a question mark."""
    if value is None:
        return ""
    place = f"@{value.line}" if value.line != line else ""
    if isinstance(value, Sourced):
        return f"{value.value!s}{place}{'' if value.origin == 'written' else f'({value.origin[0]})'}"
    told = {"v": value.varies, "c": value.in_container, "once": not value.per_node, value.hidden: value.hidden}
    flags = " ".join(word for word, holds in told.items() if holds)
    return f"?{value.expression}{place}{f'({flags})' if flags else ''}"
