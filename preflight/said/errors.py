"""What can go wrong, and which part of it is the user's, a host's or ours?

PreflightError
|- UsageError         the user's option or file; exit code 4
|- HostError(host)    one host failed; a value, the run goes on
|  |- Unreachable       no connection, or no login
|  |- TimedOut          connected, then silent past the deadline
|  |- BadReply          what came back is not our protocol
|  |- StoodStill        it gave us up, for we ourselves stood still: no fault of the host's
|  `- Busy              another run holds the node
|- FactMissing        a check asked for what we do not know -> error, or skip if no node has it
|  `- BlockedBy         its answer depends on another check that does not hold -> error "blocked by"
|- NotApplicable      the question does not arise here -> skip
|- NotMeasured        a job gave no figure for this check -> error
|- Blame              measured, and it does not hold; names the nodes (an AssertionError)
`- BlameMany          several Blames of one check, each a finding of its own
Interrupted           INT, TERM or HUP (a KeyboardInterrupt, so no handler of Exception meets it)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from preflight.said import joined, knowing, said, values_in

MissingKind = Literal["absent", "failed", "denied"]


class PreflightError(Exception):
    """The root: the command line prints it as one line, never as a traceback."""


class UsageError(PreflightError):
    """The user's option or input file is wrong; the message names it, what was wanted and what was got."""


class HostError(PreflightError):
    """One host failed; the run goes on with the others.

    Where what is to be done depends on how it was lost, its reason is known to be a ``loss`` of a kind: "busy",
    "foreign", "mid-run", "no python" (it is not known to start), "no such python" or "input taken".
    """

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(said("{host}: {reason}", host, reason))
        self.host = host
        self.reason = reason


class Unreachable(HostError):
    """No connection or no login."""


class TimedOut(HostError):
    """The host was silent past a deadline."""


class BadReply(HostError):
    """The host answered something that is not our protocol."""

    def __init__(self, host: str, reason: str) -> None:
        is_said = "foreign" in values_in(reason, "loss")
        words = reason if is_said else said("an answer that cannot be ours: {reason}", reason)
        super().__init__(host, knowing(words, loss="foreign"))


class StoodStill(HostError):
    """The machine that we run on stood still for so long that the host gave the run up: the host is not to blame."""


class Busy(HostError):
    """Another run of preflight holds the host, or else those of ours that ``holds`` names; ``run`` is its id."""

    def __init__(self, host: str, run: str, holds: str = "") -> None:
        itself = said("busy: run {run} holds it; wait for that to end, or stop it", run)
        words = said("busy: run {run} holds {holds}; wait for that to end, or stop it", run, holds) if holds else itself
        super().__init__(host, knowing(words, loss="busy"))
        self.run, self.holds = run, holds


class FactMissing(PreflightError):
    """A check read a fact that a node does not have.

    ``kind`` is the reason: ``absent`` (the thing is not there), ``failed`` (the tool that reads it broke or timed
    out), ``denied`` (reading it needs a privilege we lack).
    """

    def __init__(self, fact: str, reason: str, kind: MissingKind = "failed") -> None:
        super().__init__(said("{fact}: {reason}", fact, reason))
        self.fact = fact
        self.reason = reason
        self.kind: MissingKind = kind

    def kept(self) -> FactMissing:
        """The same to be held beyond its handler: without the frames that it passed, which would hold it in turn."""
        return self.with_traceback(None)


class BlockedBy(FactMissing):
    """A check cannot be answered while another check does not hold: a consequence, not a second cause.

    ``check`` is the id of the cause. ``nodes`` are the nodes the cause lies on, where the message should say so.
    """

    def __init__(self, check: str, *, nodes: Iterable[str] = (), detail: str = "") -> None:
        self.check = check
        self.nodes = tuple(nodes)
        text = (
            said("blocked by {check} on {nodes}", check, ",".join(self.nodes))
            if self.nodes
            else said("blocked by {check}", check)
        )
        super().__init__(text, detail or "does not hold")


class NotApplicable(PreflightError):
    """The question of a check does not arise on these nodes."""


class NotMeasured(PreflightError):
    """A job ran, or was not started, and gave no figure for the question asked."""


class Blame(PreflightError, AssertionError):
    """What a check measured does not hold, because of the nodes named.

    ``fix`` is one command or sentence; an empty one means the ``Fix:`` of the check's docstring. ``is_advisory`` makes
    it a warning though the check is not advisory: where this job can live with it. ``where`` are lines of the user's
    files.
    """

    def __init__(
        self,
        message: str,
        *,
        nodes: Iterable[str],
        fix: str = "",
        is_advisory: bool = False,
        where: Iterable[tuple[str, int]] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.nodes = tuple(nodes)
        self.fix = fix
        self.is_advisory = is_advisory
        self.where = tuple(where)


class BlameMany(PreflightError, AssertionError):
    """Several things that one check measured do not hold, each a finding of its own.

    A node gets one verdict of a check, so what several Blames say of one node becomes one Blame: after this
    ``blames`` share no node.
    """

    def __init__(self, blames: Iterable[Blame]) -> None:
        by_node: dict[str, list[Blame]] = {}
        for blame in blames:
            for node in blame.nodes:
                by_node.setdefault(node, []).append(blame)
        nodes_of: dict[tuple[int, ...], list[str]] = {}
        for node, its_blames in by_node.items():
            nodes_of.setdefault(tuple(map(id, its_blames)), []).append(node)
        self.blames = tuple(_merged(by_node[nodes[0]], nodes) for nodes in nodes_of.values())
        super().__init__(joined(blame.message for blame in self.blames))


def _merged(blames: list[Blame], nodes: list[str]) -> Blame:
    messages = dict.fromkeys(blame.message for blame in blames)
    fixes = dict.fromkeys(blame.fix for blame in blames if blame.fix)
    is_advisory = all(blame.is_advisory for blame in blames)
    where = dict.fromkeys(place for blame in blames for place in blame.where)
    return Blame(joined(messages), nodes=nodes, fix=joined(fixes), is_advisory=is_advisory, where=where)


class Interrupted(KeyboardInterrupt):
    """A signal asked us to stop; the report says how far the run came."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(said("signal {signal_number}", signal_number))
        self.signal_number = signal_number
