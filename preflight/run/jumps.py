"""Is a jump host the reason why nodes are silent? ssh itself has the same words for both.

A jump host that accepts the connection and says nothing leaves ssh waiting for the node's banner. `ssh -G` shows which
jump host leads to a node, and contacts nobody.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from preflight.reach.host import Host
from preflight.reach.transport import Reach
from preflight.reach.transport.here import printed
from preflight.reach.transport.ssh import Ssh
from preflight.said import said

SILENT = "banner exchange"  # what ssh says of it
MOST_ASKED = 64  # nodes, of which each is a process here
COMPARED = 16  # nodes that answered
ASK = partial(printed, seconds=5.0)


def explained(
    hosts: Iterable[Host], failures: Mapping[str, str], reach: Reach, ask: Callable[[Sequence[str]], str] = ASK
) -> dict[str, str]:
    """The failures, those of nodes that fell silent behind one jump host in the words of that host.

    Two of them and more, and no node behind it that answered: else it is the node's own.
    """
    over_ssh = [host for host in hosts if host.transport == Ssh.name]
    silent = [host for host in over_ssh if SILENT in failures.get(host.name, "")][:MOST_ASKED]
    if len(silent) < 2:
        return dict(failures)
    answered = [host for host in over_ssh if host.name not in failures][:COMPARED]
    alive = {_jump(host, reach, ask) for host in answered}
    behind: dict[str, list[str]] = {}
    for host in silent:
        behind.setdefault(_jump(host, reach, ask), []).append(host.name)
    reported = dict(failures)
    for jump, names in behind.items():
        if jump and jump not in alive and len(names) > 1:
            words = said(
                "the jump host {jump}: sshd accepts but does not answer (ssh: {SILENT}); restart sshd on {jump}",
                jump,
                SILENT,
            )
            everyone = [name for name, reason in failures.items() if SILENT in reason]
            reported.update(dict.fromkeys(everyone if len(behind) == 1 else names, words))
    return reported


def _jump(host: Host, reach: Reach, ask: Callable[[Sequence[str]], str]) -> str:
    """The jump host that leads to a host, as `ssh -G` has it; "" where there is none, or ssh does not say."""
    words = Ssh().argv(host, reach)
    try:
        text = ask([words[0], "-G", *words[1:-1]])
    except (OSError, subprocess.SubprocessError, ValueError):
        return ""
    found = re.search(r"(?m)^proxyjump (?!none$)(\S+)$", text)
    return found[1].split(",")[0] if found else ""
