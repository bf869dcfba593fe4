"""Do whole logs, mixed and prefixed as launchers write them, lead to what happened?

The logs stand in logs/, each under a line ``%% name = causes``: one of the causes must come first. ``?`` stands for a
failure whose cause its log does not tell, nothing at all for a log of a job that went well.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from pathlib import Path

import pytest

from preflight.diagnose import diagnose
from preflight.diagnose.found import Diagnosis
from tests.shares import some_first

FOLDER = Path(__file__).parent / "logs"
UNKNOWN = "?"
NOISE = "n9:77:91 [{gpu}] NCCL INFO Channel {number:02}/0 : {gpu}[{gpu}] -> 7[7] [send] via NET/IB/{gpu}/GDRDMA"


def logs() -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Every log by its name: the causes of which one is right, and its lines."""
    found = {}
    for path in sorted(FOLDER.glob("*.txt")):
        for part in path.read_text(encoding="utf-8").split("%% ")[1:]:
            head, _, body = part.partition("\n")
            name, _, causes = head.partition(" =")
            found[f"{path.stem}: {name}"] = (tuple(causes.split()), tuple(body.splitlines()))
    return found


def noisy(lines: tuple[str, ...]) -> list[str]:
    """Between any two lines NCCL says what it always says."""
    return [
        text for number, line in enumerate(lines) for text in (NOISE.format(gpu=number % 8, number=number % 64), line)
    ]


# How the same lines look behind a launcher or a collector of logs.
DRESSES: dict[str, Callable[[tuple[str, ...]], list[str]]] = {
    "as printed": list,
    "between NCCL's lines": noisy,
    "in colours": lambda lines: [f"\x1b[36m{line}\x1b[0m" for line in lines],
    "by kubectl": lambda lines: [f"[pod/trainer-worker-0/pytorch] {line}" for line in lines],
    "with times": lambda lines: [
        f"2025-03-01T10:{n // 60 % 60:02}:{n % 60:02}.123456789Z {line}" for n, line in enumerate(lines)
    ],
    "by srun, with its numbers aligned": lambda lines: [f" 3: {line}" for line in lines],
    "by pdsh, of addresses": lambda lines: [f"10.1.2.3: {line}" for line in lines],
    "on a node of Kubernetes": lambda lines: [f"2025-03-01T10:00:00.123456789Z stderr F {line}" for line in lines],
    "by journald": lambda lines: [f"Mar 01 10:00:00 n7 trainer[412]: {line}" for line in lines],
    "quoted": lambda lines: [f"> {line}" for line in lines],
    "taken from a page": lambda lines: [html.escape(line) for line in lines],
    "with carriage returns": lambda lines: [f"{line}\r" for line in lines],
}


def is_right(causes: tuple[str, ...], diagnosis: Diagnosis) -> bool:
    """Whether the first thing said is true; of a failure that its log does not explain, that no cause is named."""
    named = [one.cause.name for one in diagnosis.causes]
    if causes == (UNKNOWN,):
        return not named
    said = named or [one.cause.name for one in diagnosis.consequences]
    return said[0] in causes if said and causes else not said and not causes


@pytest.mark.parametrize("dress", some_first(DRESSES, 2))
def test_logs_lead_to_their_cause(dress):
    """However they are prefixed; those of healthy jobs lead to none."""
    wrong = {}
    for name, (causes, lines) in logs().items():
        diagnosis = diagnose(DRESSES[dress](lines))
        if not is_right(causes, diagnosis):
            wrong[name] = [one.cause.name for one in diagnosis.causes]
    assert wrong == {}
