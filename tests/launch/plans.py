"""What do launch files ask for, as report.json shows it?"""

from __future__ import annotations

from typing import Any

from preflight.launch.read import read_texts
from preflight.launch.seats import described

NOT_FIELDS = ("launcher", "file", "line", "environment", "command")


def launches(texts: dict[str, str]) -> list[dict[str, Any]]:
    """Every start of a job in these files: launcher, fields with their lines, variables and the command."""
    return [described(plan) for plan in read_texts(texts).plans]


def launch(text: str, *, name: str = "n.sh", **more: str) -> dict[str, Any]:
    """The only start of a job in a file."""
    (found,) = launches({name: text, **more})
    return found


def values(found: dict[str, Any]) -> dict[str, Any]:
    """The fields of a start without their places; the expression of one that only a run would tell."""
    fields = {name: field for name, field in found.items() if name not in NOT_FIELDS}
    return {name: field.get("value", field.get("unknown")) for name, field in fields.items()}
