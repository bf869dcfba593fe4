"""Which nodes were not reached for one and the same reason, and what is to be done about it?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from preflight.reach.transport import TRANSPORTS, written_for
from preflight.reach.transport.kubernetes import Kubernetes
from preflight.reach.transport.ssh import Ssh, login_of
from preflight.said import changed, said, values_in

ANY = "<node>"  # in place of the name of each node that a reason is said of
MOST_OF_A_RACK = 0.5
RACKS_OF_ONE_CAUSE = 3  # so many that are most of the run's racks have something above them in common
REFUSED_WITH_A_KEY = (
    "where the key is there already, sshd's log on the node says why (`journalctl -u ssh -u sshd`): the account has "
    "expired or is locked, its shell does not exist, AllowUsers or PermitRootLogin keeps it out"
)
NOT_AT_A_TERMINAL = "let ~/.bashrc start it only at a terminal (`[ -t 0 ]`), then run again"
ABSENT = "install that program there, or let the startup file start it only at a terminal (`[ -t 0 ]`), then run again"
# What a node's own shell says that started something else than Python -> what to do about it.
ANOTHER_SHELL = (
    (
        "restricted",
        "the account's shell there is a restricted one: `chsh -s /bin/bash <user>` on the nodes named, then run again",
    ),
    (
        "not available",
        "the account has no login shell there (nologin): `chsh -s /bin/bash <user>` on the nodes named, then run again",
    ),
    (
        "sftp",
        "sshd there starts a command of its own: remove ForceCommand from sshd_config, then run again",
    ),
    (
        "Error: ",
        "give `--python PATH` with the full path of a Python of 3.9 or newer that starts there, then run again",
    ),
)


class Loss(NamedTuple):
    """Nodes that were lost for one reason, and the rack that they are of, where it is most of that rack."""

    nodes: tuple[str, ...]
    reason: str
    rack: str = ""
    of: int = 0  # how many nodes of the run that rack has

    @property
    def message(self) -> str:
        """What there is to say of them."""
        where = said("{rack}: {nodes} of {of} nodes ", self.rack, len(self.nodes), self.of) if self.rack else ""
        return said("{where}not reached: {reason}", where, self.reason)

    @property
    def message_of_its_end(self) -> str:
        """What there is to say where they answered at first, and `reason` says what is not measured for it."""
        lost = len(self.nodes)
        return (
            said("{rack}: {lost} of {of} nodes: {reason}", self.rack, lost, self.of, self.reason)
            if self.rack
            else self.reason
        )


def losses(failures: Mapping[str, str], racks: Mapping[str, str]) -> tuple[Loss, ...]:
    """Node -> reason as groups, each of which says what its nodes have in common.

    Reasons that differ in nothing but the node's own name are one. Of a reason, the nodes that are most of a rack are
    a group of their own: it is its switch or its power that is to be looked at.
    """
    alike: dict[str, list[str]] = {}
    for name, reason in failures.items():
        alike.setdefault(without_name(reason, name), []).append(name)
    parts = [part for reason, names in alike.items() for part in by_rack(names, reason, racks)]
    return tuple(part._replace(reason=failures[part.nodes[0]]) if len(part.nodes) == 1 else part for part in parts)


def by_rack(names: Sequence[str], reason: str, racks: Mapping[str, str]) -> list[Loss]:
    """Nodes that were lost for one reason: those that are most of a rack by themselves, then the rest.

    Where most racks are lost, or no other node is left, it is no rack's own fault, and all of it is one loss.
    """
    if set(racks) <= set(names):
        return [Loss(tuple(names), reason)]
    total = Counter(racks.values())
    held = Counter(racks[name] for name in names if name in racks)
    lost = [rack for rack, count in held.items() if count > 1 and count > MOST_OF_A_RACK * total[rack]]
    if len(lost) >= RACKS_OF_ONE_CAUSE and len(lost) > MOST_OF_A_RACK * len(total):
        return [Loss(tuple(names), reason)]
    found = [Loss(tuple(name for name in names if racks.get(name) == rack), reason, rack, total[rack]) for rack in lost]
    rest = tuple(name for name in names if racks.get(name) not in lost)
    return [*found, Loss(rest, reason)] if rest else found


OF_A_HOSTFILE = "or `python=PATH` on their lines of the hostfile, which comes before `--python`"


def without_name(reason: str, name: str) -> str:
    """The reason as it may be said of other nodes too: ANY in the place of the node's name."""
    own = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])")
    return changed(reason, lambda text: own.sub(ANY, text))


def way_back(loss: Loss, transports: Mapping[str, str], logins: Mapping[str, str]) -> str:
    """What to do about a loss; `transports` and `logins` say of a node by what it is reached, and as HOSTS has it."""
    by_hand = _of_reason(loss, transports, logins)
    return (
        said("look at the switch and the power of {rack} first; else {by_hand}", loss.rack, by_hand)
        if loss.rack
        else by_hand
    )


def _of_reason(loss: Loss, transports: Mapping[str, str], logins: Mapping[str, str]) -> str:
    """As the reason says where it does, else a login by hand, as the transport of these nodes has it."""
    reason, first = loss.reason, loss.nodes[0]
    kinds = {*values_in(reason, "loss")}
    if "busy" in kinds:
        return "wait for the run named to end, or stop it where it was started (Ctrl-C), then run again"
    if "foreign" in kinds:  # the login went well
        return (
            "look at what else writes to the output of our command there, or stands in for its Python (a startup file, "
            "a wrapper, a program of another user); leave the node out until that is known"
        )
    for has_torch in values_in(reason, "python"):
        if "hostfile" in values_in(reason, "python_of"):  # it comes before --python
            return said("`python={has_torch}`, which has torch there, on their lines of the hostfile", has_torch)
        return said("`--python={has_torch}`, which has torch there, then run again", has_torch)
    transport = TRANSPORTS.get(transports.get(first, ""), written_for(first))
    if "no such python" in kinds:
        words = "`--python PATH` with the full path of a Python of 3.9 or newer on the nodes named"
        return said("{words}, {OF_A_HOSTFILE}, then run again", words, OF_A_HOSTFILE)
    by_transport = next(
        (word for name in ("format", "fix") for word in values_in(reason, name)), ""
    )  # as it says itself
    command = re.search(r": (ssh(?:-copy-id)? [-\w@.:\[\]<> ]+)$", by_transport)
    if command and command[1].startswith("ssh-copy-id"):
        return said("`{command}`, then run again; {REFUSED_WITH_A_KEY}", command[1], REFUSED_WITH_A_KEY)
    if command:  # with the user and the port that HOSTS gave
        return said("`{command}`, then run again", command[1])
    if transport.name == Kubernetes.name and "; " in reason:
        by_transport = reason.rpartition("; ")[2].rstrip(")")
    if by_transport and transport.name != Ssh.name:
        return said("{by_transport}, then run again", by_transport)
    if transport.name == Ssh.name and "input taken" in kinds:
        return NOT_AT_A_TERMINAL
    if transport.name == Ssh.name and "no python" in kinds:
        if any(values_in(reason, "program")):
            return ABSENT
        nodes_words = next(values_in(reason, "last_words"), "")
        login = login_of(logins.get(first, first) if len(loss.nodes) == 1 else ANY)
        ends_early = said(
            "`ssh {login} echo here` must print `here` at once: else a startup file there (~/.bashrc, "
            "~/.profile) ends, waits or starts another shell, the account has no usable shell (`getent "
            "passwd`), or sshd starts a command of its own (ForceCommand, `command=` in "
            "authorized_keys); then run again",
            login,
        )
        return next((fix for sign, fix in ANOTHER_SHELL if sign in nodes_words), ends_early)
    return transport.log_in_hint(logins.get(first, first) if len(loss.nodes) == 1 else ANY)
