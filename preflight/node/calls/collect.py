"""What is this node, subject by subject?"""

from __future__ import annotations

from preflight.node.agent import roots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from preflight.node.agent.channel import Channel

# The order in which subjects are collected, and which of them share a message. Every message wakes the keeper, so quick
# subjects share one. Subjects that may block forever in a driver or a file system (gpu, software, rdma) have a message
# each, so that those before them have arrived by then; so has environment, which starts the user's shells. gpu comes
# first, because it starts a program. identity comes early, because peers do not look up a node without it, but last
# of the quick ones, because a resolver that does not answer takes seconds.
GROUPS = (
    ("gpu",),
    ("network", "ports", "limits", "machine", "identity"),
    ("software",),
    ("rdma",),
    ("environment",),
    ("kernel",),
)
COLLECTORS = tuple(subject for group in GROUPS for subject in group)  # each is collected by the module of its name
COLLECTED = {"collected": True}  # the end of the first round
LONGEST_TEXT = 4096
PEERS_SECONDS = 60.0  # the slowest node delays this question for all; the call's own limit holds too


def run(arguments: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Emit the subjects, group by group as they are known; one that fails is emitted as missing, with the reason.

    Then {"collected": true}, and the second round in the same process: a message {"peers": {...}} asks how this node
    reaches its peers, {"finish": true} ends the call without it. With ``subjects`` false that round is the only one.
    """
    for events in steps({**arguments, "scratch": channel.scratch}):
        channel.emit(*events)
    channel.emit(*further(channel.receive(PEERS_SECONDS), arguments))
    return {}


def steps(arguments: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """The events of the first round, a group at a time."""
    held = {"held": {}, **arguments}
    *others, last = GROUPS if arguments.get("subjects", True) else ((),)
    for group in others:
        yield [answer(subject, held) for subject in group]
    yield [*(answer(subject, held) for subject in last), COLLECTED]


def further(order: dict[str, Any], arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of the second round."""
    if "peers" not in order:
        return []
    from preflight.node.calls import peers

    roots.only_here(arguments)
    return [{"subject": "peers", "facts": sendable(peers.run(order["peers"]))}]


def answer(subject: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The event of a subject: its facts, or why there are none."""
    try:
        facts = __import__(f"preflight.node.subjects.{subject}", fromlist=("collect",)).collect(arguments)
        event = {"subject": subject, "facts": facts}
    except Exception as error:  # one broken subject must not cost the others
        kind = "denied" if isinstance(error, PermissionError) else "failed"
        event = {"subject": subject, "missing": f"{type(error).__name__}: {error}", "kind": kind}
    made: dict[str, Any] = sendable(event)
    return made


def sendable(value: Any) -> Any:
    """The facts with every text valid Unicode and of bounded length, whatever a file or a variable held."""
    if isinstance(value, str):
        return sendable_text(value)
    if isinstance(value, dict):
        return {sendable_text(key): sendable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [sendable(item) for item in value]
    return value


def sendable_text(text: str) -> str:
    """The same of one text."""
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
