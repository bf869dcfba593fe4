"""What do DeepSpeed's configuration and environment file say?"""

from __future__ import annotations

import json
from typing import Any

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Field, Sourced, Unknown, value_of
from preflight.launch.plan import BatchConfig, fail
from preflight.launch.text.located import Broken
from preflight.said import said
from preflight.said.errors import UsageError


def read_batches(text: str, file: str) -> BatchConfig:
    """The figures of a DeepSpeed configuration."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise Broken("JSON", getattr(error, "msg", "nested too deep"), Where(file, line)) from None
    if not isinstance(found, dict):
        raise UsageError(said("{file}:1: not a DeepSpeed configuration: wanted an object", file))
    lines = text.split("\n")
    zero = found.get("zero_optimization")
    zero = zero if isinstance(zero, dict) else {}
    values: dict[str, Field[Any]] = {}
    for key, value in found.items():
        values[key] = Sourced(value, file, _line_of(key, lines))
    for key, value in zero.items():
        values[f"zero_optimization.{key}"] = Sourced(value, file, _line_of(key, lines))
    return BatchConfig(file, values)


def _line_of(key: str, lines: list[str]) -> int:
    """The line that has a key first."""
    quoted = json.dumps(key)
    return next((number for number, line in enumerate(lines, start=1) if quoted in line), 1)


def read_variables(text: str, file: str) -> tuple[dict[str, Field[str]], list[Finding]]:
    """The NAME=VALUE lines of .deepspeed_env or nccl.conf."""
    values: dict[str, Field[str]] = {}
    problems: list[Finding] = []
    is_deepspeed = "deepspeed_env" in file
    is_literal = is_deepspeed or file.endswith("nccl.conf")  # a shell fills in what stands in any other
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip()
        name, equals, value = line.partition("=")
        if line and not line.startswith("#") and equals:
            held, name = value.strip(), name.removeprefix("export ").strip()
            is_open = not is_literal and "$" in held and not held.startswith("'")
            values[name] = Unknown(held, file, number) if is_open else Sourced(held, file, number)
        if is_deepspeed and (line.startswith("export ") or (line and not equals)):
            message = said(
                "{line!r}: DeepSpeed splits every line of {file} at its = and takes all before it as the name",
                line[:60],
                file,
            )
            problems.append(
                fail("environment_file_lines_are_read", message, Where(file, number), fix=line.removeprefix("export "))
            )
    return values, problems


def is_auto(value: Field[Any]) -> bool:
    """Whether the trainer fills a figure in."""
    return isinstance(value, Unknown) or value_of(value) in (None, "auto")
