"""Which findings has somebody decided to live with, who, why and until when?

In preflight.toml::

    [[waivers]]
    check = "network.mtu_is_the_same_on_every_node"
    nodes = "node[3-4]"          # or "*"
    reason = "the switch of rack 2 is replaced on Friday"
    owner = "alice"
    expires = 2026-12-31
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from preflight.judge.ledger.findings import Finding, Verdict
from preflight.reach.hosts import parse_hosts
from preflight.said import said
from preflight.said.errors import UsageError

KEYS = ("check", "nodes", "reason", "owner", "expires")
EVERY_NODE = "*"
WAIVABLE = (Verdict.FAIL, Verdict.WARN)  # not an error: what was not measured may be anything


@dataclass(frozen=True)
class Waiver:
    """One decision; without `nodes` it is about all of them. It holds up to and including the day it expires."""

    check: str
    nodes: tuple[str, ...]
    reason: str
    owner: str
    expires: date

    def is_about(self, finding: Finding, node: str) -> bool:
        """Whether what a finding says of a node is meant."""
        return self.check == finding.check and (not self.nodes or node in self.nodes)

    def text(self) -> str:
        """For whoever has to renew or remove it."""
        return said("waiver of {check} by {owner} (until {expires})", self.check, self.owner, self.expires)


def parse_waivers(entries: object, *, source: str) -> tuple[Waiver, ...]:
    """The [[waivers]] of a file. Raises UsageError naming the first that cannot be."""
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(said("{source}: waivers: wanted tables [[waivers]]", source))
    return tuple(
        _parsed(entry, said("{source}: waiver {number}", source, number)) for number, entry in enumerate(entries, 1)
    )


def _parsed(entry: dict[str, Any], source: str) -> Waiver:
    for key in (*KEYS, *entry):
        if key not in entry:
            raise UsageError(said("{source}: {key} is missing; wanted {KEYS}", source, key, ", ".join(KEYS)))
        if key not in KEYS:
            raise UsageError(said("{source}: unknown key {key!r}; wanted {KEYS}", source, key[:80], ", ".join(KEYS)))
    for key in KEYS[:-1]:
        if not isinstance(entry[key], str) or not entry[key].strip():
            raise UsageError(said("{source}: {key}: wanted a text, got {entry!r}", source, key, str(entry[key])[:80]))
    try:
        expires = entry["expires"]
        day = expires if type(expires) is date else date.fromisoformat(expires)
    except (TypeError, ValueError):
        raise UsageError(
            said(
                "{source}: expires: wanted a day such as 2026-12-31, got {entry!r}", source, str(entry["expires"])[:80]
            )
        ) from None
    try:
        nodes = () if entry["nodes"] == EVERY_NODE else tuple(host.name for host in parse_hosts(entry["nodes"]))
    except UsageError as error:
        raise UsageError(
            said("{source}: nodes: {removeprefix}", source, str(error).removeprefix("--hosts: "))
        ) from None
    return Waiver(entry["check"], nodes, entry["reason"], entry["owner"], day)


def waive(finding: Finding, waivers: Iterable[Waiver], *, today: date) -> tuple[Finding, ...]:
    """The finding, or as many as there are waivers for some of its nodes and a rest without."""
    if finding.verdict not in WAIVABLE:
        return (finding,)
    holding = [waiver for waiver in waivers if waiver.expires >= today]
    nodes_of: dict[Waiver | None, list[str]] = {}
    for node in finding.nodes:
        waiver = next((waiver for waiver in holding if waiver.is_about(finding, node)), None)
        nodes_of.setdefault(waiver, []).append(node)
    return tuple(
        replace(finding, nodes=tuple(nodes))
        if waiver is None
        else replace(finding, nodes=tuple(nodes), message=_waived(finding.message, waiver), waived=True)
        for waiver, nodes in nodes_of.items()
    ) or (finding,)


def _waived(message: str, waiver: Waiver) -> str:
    return said(
        "{message} (waived by {owner} until {expires}: {reason})", message, waiver.owner, waiver.expires, waiver.reason
    )


def remarks(
    waivers: Iterable[Waiver], findings: Iterable[Finding], *, not_asked: Iterable[str], today: date
) -> tuple[str, ...]:
    """What is to be done about waivers that hold no longer, or that nothing in this run needed."""
    left_out = set(not_asked)
    found = [finding for finding in findings if finding.verdict in WAIVABLE]
    lines = []
    for waiver in waivers:
        if waiver.expires < today:
            lines.append(said("{text} has expired and no longer holds: {reason}", waiver.text(), waiver.reason))
        elif waiver.check not in left_out and not any(
            waiver.is_about(finding, node) for finding in found for node in finding.nodes
        ):
            lines.append(
                said("{text} matches nothing that was found: remove it, or correct its check or nodes", waiver.text())
            )
    return tuple(lines)
