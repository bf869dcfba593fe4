"""How does the plan of report.json, which launch files gave it, read as tables?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from preflight.said import said

SEAT = ("rank", "node", "local_rank", "device", "interface", "address")
NO_FIELDS = ("launcher", "file", "line", "environment", "command")


@dataclass(frozen=True)
class Launch:
    """One start of a job: each value with the line that gives it, its variables and its command."""

    title: str
    fields: tuple[tuple[str, str, str], ...]
    variables: tuple[tuple[str, str], ...]
    command: str


def launches(plan: Mapping[str, Any]) -> tuple[Launch, ...]:
    """The starts of the job that the files hold."""
    return tuple(_launch(launch) for launch in _listed(plan, "launches"))


def seats(plan: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    """What every rank will see, a row each in the order of SEAT; "" is what is not known before."""
    return tuple(tuple(str(seat.get(name, "")) for name in SEAT) for seat in _listed(plan, "ranks"))


def _listed(plan: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    # report.json of another version may hold another plan: what is not understood is left out, not guessed.
    found = plan.get(name)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, (list, tuple)) else []


def _launch(launch: Mapping[str, Any]) -> Launch:
    variables = launch.get("environment")
    return Launch(
        said("{get} in {get2}:{get3}", launch.get("launcher", ""), launch.get("file", ""), launch.get("line", "")),
        tuple(
            (name.replace("_", " "), _value(value), f"{value.get('file', '')}:{value.get('line', '')}")
            for name, value in launch.items()
            if name not in NO_FIELDS and isinstance(value, dict)
        ),
        tuple((str(name), str(value)) for name, value in variables.items()) if isinstance(variables, dict) else (),
        str(launch.get("command", "")),
    )


def _value(value: Mapping[str, Any]) -> str:
    if "unknown" in value:
        return said("{value} (known when it runs)", value["unknown"])
    return f"{value.get('value', '')}{' (default)' if value.get('origin') == 'tool' else ''}"
