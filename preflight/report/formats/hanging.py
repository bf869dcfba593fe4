"""How does it read what the ranks of a hanging job do?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from preflight.diagnose.hanging.stuck import Doing, Stuck
from preflight.facts.value import Missing
from preflight.report.printable import printable
from preflight.said import plain_text, said
from preflight.said.redact import without_secrets

MOST_NAMED = 8
MOST_FRAMES = 6


def hanging_text(stuck: Stuck, failures: Mapping[str, str]) -> str:
    """The verdict, then the ranks in groups of those that do the same."""
    total = sum(map(len, stuck.groups))
    lines = [f"{printable(stuck.verdict)}   [{total} rank{'s' * (total != 1)}]"]
    if stuck.ras and stuck.ras != stuck.verdict:
        lines.append(printable(stuck.ras))
    for group in stuck.groups:
        first = group[0]
        names = ", ".join(printable(one.name) for one in group[:MOST_NAMED])
        more = said(" and {MOST_NAMED} more", len(group) - MOST_NAMED) if len(group) > MOST_NAMED else ""
        at = said(" at {at}", printable(first.at)) if first.at else ""
        lines += ["", f"{names}{more}: {printable(first.what)}{at}", *(_details(first))]
    if stuck.missing:
        ranks = ", ".join(map(str, stuck.missing[:32]))
        lines += ["", said("no process was found of rank {ranks}", ranks)]
    lines += [
        said("{name}: not looked at: {shown}", printable(name), _shown(reason)) for name, reason in failures.items()
    ]
    if stuck.steps:
        lines += ["", "next:", *(f"  - {_shown(step)}" for step in stuck.steps)]
    return "\n".join(lines) + "\n"


def _details(one: Doing) -> list[str]:
    process = one.process
    lines = [
        said(
            "  process {pid}, state {state}, {cpu:g} cores, {threads} threads",
            process.pid,
            process.state,
            process.cpu,
            process.threads,
        )
        + (said(", wchan {wchan}", printable(process.wchan)) if process.wchan else "")
        + (said(", {gpu_memory_mib} MiB of a GPU", process.gpu_memory_mib) if process.gpu_memory_mib else "")
    ]
    if isinstance(process.frames, Missing):
        lines.append(said("  stack not read: {missing}", printable(process.frames.missing)))
    else:
        lines += [f"    {_shown(frame)}" for frame in process.frames[:MOST_FRAMES]]
    lines += [said("    kernel: {frame}", printable(frame)) for frame in process.kernel_stack[:3]]
    waiting = [socket for socket in process.sockets if socket.unsent_bytes or socket.state != "established"]
    lines += [
        said(
            "  {state} to {peer}, {unsent_bytes} bytes not taken by it",
            printable(socket.state),
            printable(socket.peer),
            socket.unsent_bytes,
        )
        for socket in waiting[:4]
    ]
    return lines


def hanging_document(stuck: Stuck, failures: Mapping[str, str]) -> dict[str, Any]:
    """What a job that hangs waits for, for programs to read."""
    guilty = set(map(id, stuck.guilty))
    return {
        "verdict": printable(stuck.verdict),
        "hangs": stuck.hangs,
        "goes_on": stuck.goes_on,
        "nccl_ras": _shown(stuck.ras),
        "next": [_shown(step) for step in stuck.steps],
        "guilty": [{"rank": one.process.rank, "node": printable(one.node)} for one in stuck.guilty],
        "missing_ranks": list(stuck.missing),
        "not_looked_at": {printable(name): _shown(reason) for name, reason in failures.items()},
        "ranks": [
            {
                "node": printable(one.node),
                "what": printable(one.what),
                "collective": printable(one.call),
                "at": printable(one.at),
                "guilty": id(one) in guilty,
                **_printed(msgspec.to_builtins(one.process, enc_hook=plain_text)),
            }
            for group in stuck.groups
            for one in group
        ],
    }


def _shown(text: str) -> str:
    return printable(without_secrets(text))


def _printed(value: Any) -> Any:
    if isinstance(value, str):
        return _shown(value)
    if isinstance(value, dict):
        return {key: _printed(item) for key, item in value.items()}
    return [_printed(item) for item in value] if isinstance(value, (list, tuple)) else value
