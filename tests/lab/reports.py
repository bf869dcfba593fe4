"""What does the report of a run in the lab say, for tests to hold against what was planted?"""

import json
from pathlib import Path
from typing import Any


def report_of(folder: Path) -> dict[str, Any]:
    """What the run reported."""
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report


def of_verdict(report: dict[str, Any], verdict: str) -> list[tuple[str, tuple[str, ...]]]:
    """The checks with this verdict, each with its nodes."""
    return [(found["check"], tuple(found["nodes"])) for found in report["findings"] if found["verdict"] == verdict]


def told(report: dict[str, Any], output: str) -> str:
    """What a run printed, and what was not well in it: for the message of an assertion."""
    lines = [f"{found['verdict']} {found['check']} {found['nodes']} {found['message']}" for found in report["findings"]]
    return "\n".join([output, *(line for line in lines if not line.startswith(("pass", "skip")))])


def reach(folder: Path) -> dict[str, tuple[str, str, str]]:
    """What became of reaching the nodes: node -> (verdict, message, fix)."""
    return {
        node: (found["verdict"], found["message"], found["fix"])
        for found in report_of(folder)["findings"]
        if found["check"] == "reach.every_node_answers"
        for node in found["nodes"]
    }
