"""Which commands put hostnames and /etc/hosts right?"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping

from preflight.facts.node import NodeFacts
from preflight.facts.subjects.peers import Route
from preflight.judge.commands.words import Case, Remedy, Row, as_root, into_file, others_have, sudo
from preflight.said.errors import FactMissing

HOSTNAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")
ADDRESS = re.compile(r"[0-9A-Fa-f.:]+")


def in_hosts(node: NodeFacts, lines: Mapping[tuple[str, ...], str]) -> Remedy:
    """The command after which /etc/hosts gives these names their address and no other: names -> address.

    Each name is taken out of whatever line has it, and a line without a name left is dropped: with a second line the
    resolver would give both addresses, in an order of its own. FactMissing where there is none, or no word for a line.
    """
    names = [name for held in lines for name in held]
    if not names or not all(map(HOSTNAME.fullmatch, names)) or not all(map(ADDRESS.fullmatch, lines.values())):
        raise FactMissing("lines of /etc/hosts", "there is none to write")
    these = "|".join(name.replace(".", r"\.") for name in dict.fromkeys(names))
    script = rf"/^#/!s/(\s+({these}))+(\s|$)/\3/gI; /^[0-9a-f.:]+\s*$/d"
    wanted = shlex.join(f"{address} {' '.join(held)}" for held, address in lines.items())
    # Not sed -i: in a container the file is mounted, and cannot be replaced.
    kept = f'hosts="$(sed -E {shlex.quote(script)} /etc/hosts)"'
    return Remedy(f"{kept} && printf '%s\\n' {wanted} \"$hosts\" | {sudo(node)}tee /etc/hosts >/dev/null")


def _own_name(case: Case) -> Remedy:
    """The name as HOSTS has it, where it is one and nobody else is called so."""
    wanted = case.node.name.rpartition("@")[2].partition(":")[0]
    is_taken = others_have(case, lambda node: node.identity.hostname, wanted, "hostname") or others_have(
        case, lambda node: node.identity.hostname.partition(".")[0], wanted, "short hostname"
    )
    if not HOSTNAME.fullmatch(wanted) or wanted.replace(".", "").isdigit() or is_taken:
        raise FactMissing("hostname", f"{case.node.name} is no name for a node")
    return Remedy(as_root(case.node, "hostnamectl", "set-hostname", wanted))


def _names_of(node: NodeFacts) -> tuple[str, ...]:
    """The full name and the hostname, as a line of /etc/hosts has them; FactMissing for a node called localhost."""
    own = node.identity
    if own.hostname.partition(".")[0] == "localhost":
        raise FactMissing("hostname", f"{own.hostname} is no name for a line of /etc/hosts")
    is_full = own.fqdn.startswith(f"{own.hostname}.") and HOSTNAME.fullmatch(own.fqdn)
    return (own.fqdn, own.hostname) if is_full else (own.hostname,)


def _own_line(case: Case) -> Remedy:
    """The node's own names get the address that its peers use."""
    return in_hosts(case.node, {_names_of(case.node): case.node.address_for_peers()})


def _localhost(case: Case) -> Remedy:
    """The loopback interface, or the line that every system has; a line of another address has to go by hand."""
    if case.node.network.loopback_trouble():
        down = next(one.name for one in case.node.network.interfaces if one.is_loopback and not one.is_up)
        return Remedy(f"{sudo(case.node)}ip link set dev {shlex.quote(down)} up")
    if case.node.network.bare_loopback():
        bare = shlex.quote(case.node.network.bare_loopback())
        return Remedy(f"{sudo(case.node)}ip address replace 127.0.0.1/8 dev {bare}")
    return in_hosts(case.node, {("localhost",): "127.0.0.1"})


def _peers(is_wrong: Callable[[NodeFacts, Route], bool], *, full: bool = False) -> Row:
    """The names of each peer that a node does not find by them get the address that the job uses."""

    def row(case: Case) -> Remedy:
        return in_hosts(case.node, _lines_of(_wrong(case, is_wrong), is_full=full))

    return row


def _wrong(case: Case, is_wrong: Callable[[NodeFacts, Route], bool]) -> Iterable[tuple[NodeFacts, Route]]:
    return ((peer, route) for peer, route in case.peers if is_wrong(peer, route))


def _lines_of(found: Iterable[tuple[NodeFacts, Route]], *, is_full: bool) -> dict[tuple[str, ...], str]:
    """Names of a peer -> its address; a peer whose name or address is no word for a line is left out."""
    lines = {(peer.identity.fqdn if is_full else peer.identity.hostname,): route.address for peer, route in found}
    return {
        names: address for names, address in lines.items() if HOSTNAME.fullmatch(*names) and ADDRESS.fullmatch(address)
    }


def _is_unresolved(peer: NodeFacts, route: Route) -> bool:
    del peer
    return not route.resolved


def _is_stale(peer: NodeFacts, route: Route) -> bool:
    return bool(peer.network.strays(route.resolved))


def _is_lost_in_full(peer: NodeFacts, route: Route) -> bool:
    is_another = peer.identity.fqdn != peer.identity.hostname
    return is_another and (not route.resolved_fqdn or bool(peer.network.strays(route.resolved_fqdn)))


def _leads_elsewhere(peer: NodeFacts, route: Route) -> bool:
    is_first = route.reverse_addresses[:1] == (route.address,)
    return isinstance(route.reverse, str) and not is_first and bool(peer.network.strays(route.reverse_addresses[:1]))


def _slow(case: Case) -> Remedy:
    """The peers' lines, and for addresses as a store of both families sees them further ones under names of their own.

    Under the peer's name such a line would give that name a second address, and above the peer's line it would answer
    for the address of IPv4 as well.
    """
    seen = _lines_of(_wrong(case, _is_slow_when_accepted), is_full=False)
    lines = in_hosts(case.node, {**_lines_of(_wrong(case, _is_slow), is_full=False), **seen}).now
    mapped = [f"::ffff:{address} {name}-mapped" for (name,), address in seen.items()]
    return Remedy(f"{lines} && {{ {into_file(case.node, '/etc/hosts', *mapped)}; }}" if mapped else lines)


def _is_slow_when_accepted(peer: NodeFacts, route: Route) -> bool:
    del peer
    return isinstance(route.accepted_seconds, float) and route.accepted_seconds > 0.1


def _is_slow(peer: NodeFacts, route: Route) -> bool:
    del peer
    return isinstance(route.reverse_seconds, float) and route.reverse_seconds > 0.1


ROWS: dict[str, Row] = {
    "names.own_hostname_is_not_localhost": _own_name,
    "names.localhost_is_the_node_itself": _localhost,
    "names.hostnames_are_unique": _own_name,
    "names.short_hostnames_are_unique": _own_name,
    "names.own_hostname_is_not_loopback": _own_line,
    "names.own_hostname_is_an_address_of_the_node": _own_line,
    "names.every_node_speaks_one_address_family: own hostname": _own_line,
    "names.peers_can_be_resolved": _peers(_is_unresolved),
    "names.peers_are_taken_for_themselves": _peers(_is_stale),
    "names.full_names_of_peers_lead_to_them": _peers(_is_lost_in_full, full=True),
    "names.reverse_names_lead_back": _peers(_leads_elsewhere),
    "names.look_ups_are_answered": _peers(_is_slow),
    "names.look_ups_are_fast": _slow,
}
