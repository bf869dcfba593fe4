"""What is this node, subject by subject?"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from preflight.node.channel import Channel

# gpu comes first: it starts a program, and identity may leave threads behind that wait for a resolver.
COLLECTORS = {
    "gpu": "gpu",
    "network": "network",
    "ports": "ports",
    "software": "software",
    "rdma": "rdma",
    "environment": "environment",
    "limits": "limits",
    "identity": "identity",
}
LONGEST_TEXT = 4096


def run(arguments: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Emit each subject as soon as it is known; one that fails is emitted as missing, with the reason."""
    arguments = {**arguments, "scratch": channel.scratch}
    for subject, module in COLLECTORS.items():
        try:
            facts = importlib.import_module(f"preflight.node.{module}").collect(arguments)
            event = {"subject": subject, "facts": facts}
        except Exception as error:  # whatever is wrong with one subject, the others are still worth having
            kind = "denied" if isinstance(error, PermissionError) else "failed"
            event = {"subject": subject, "missing": f"{type(error).__name__}: {error}", "kind": kind}
        channel.emit(sendable(event))
    return {}


def sendable(value: Any) -> Any:
    """The same with every text valid Unicode and of bounded length, whatever a file or a variable held."""
    if isinstance(value, str):
        if not value.isascii():
            value = value.encode("utf-8", "backslashreplace").decode()
        return value if len(value) <= LONGEST_TEXT else value[: LONGEST_TEXT - 1] + "…"
    if isinstance(value, dict):
        return {sendable(key): sendable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [sendable(item) for item in value]
    return value
