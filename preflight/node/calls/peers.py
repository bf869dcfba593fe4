"""How does this node reach every other one, and can it bind the job's port?"""

from __future__ import annotations

import errno
import os
import time

from preflight.node.agent import netlink
from preflight.node.agent import sockets as socket
from preflight.node.agent.missing import missing, read_lines
from preflight.node.sources.names import LIMIT_S, NOT_KNOWN, addresses_of, ask_all
from preflight.node.subjects.ports import holder_of_port

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping
    from typing import Any, Union

    Resolved = Mapping[str, Union[list[str], OSError]]

ASKED_BACK = 8  # of how many peers the names are asked for by address: the first, so rank 0's node is among them
BACK = "by address "
MAPPED = "::ffff:"  # before an address of IPv4, as a listener of both families sees a peer
LOOPBACK = 1  # its index; an address of the node itself is told by the interface that has it
ATF_COM, ATF_PERM = 0x2, 0x4  # linux/if_arp.h
IP_MTU, IPV6_MTU = 14, 24  # linux/in.h, linux/in6.h
DISCARD_PORT = 9  # connecting a UDP socket chooses a route and sends nothing


def run(arguments: dict[str, Any]) -> dict[str, Any]:
    """Facts of the subject peers."""
    peers, master = arguments["peers"], arguments["master_address"]
    names = {name for peer in peers for name in (peer["hostname"], peer["fqdn"])} | {master}
    # The way back first: where no name server answers, the names use up all threads.
    backwards = {f"{BACK}{peer['address']}": about(name_of, peer["address"]) for peer in peers[:ASKED_BACK]}
    forwards = {name: about(addresses_of, name) for name in sorted(names) if name}
    # Whom torch's store accepts has an address of IPv6, for it listens on both families: no line "10.0.0.1 node1" of
    # /etc/hosts answers for ::ffff:10.0.0.1, and where no name server does, every connection waits for it.
    mapped = {
        f"{MAPPED}{peer['address']}": about(seconds_of, f"{MAPPED}{peer['address']}")
        for peer in peers[:ASKED_BACK]
        if arguments.get("accepts") and ":" not in peer["address"] and has_ipv6()
    }
    answers: dict[str, Any] = ask_all({**backwards, **mapped, **forwards})
    resolved = {name: answers[name] for name in forwards}
    held = netlink.addresses()
    names_of = dict(socket.if_nameindex())
    holders = {address: names_of[index] for index, _, address, _ in held if index in names_of}
    routed = {address for _, _, address, length in held if length == (128 if ":" in address else 32)}
    outward = {index: name for index, name in names_of.items() if index != LOOPBACK}
    cards = neighbours("/proc/net/arp")
    error, holder = try_bind(arguments["bind"]["port"]) if arguments["bind"] else ("", "")
    routes = []
    for peer in peers:
        found = route(peer, resolved=resolved, holders=holders, routed=routed, outward=outward)
        card = cards.get(f"{peer['address']} {found['interface']}", {})
        back = {
            **reverse(answers.get(f"{BACK}{peer['address']}")),
            **accepted(answers.get(f"{MAPPED}{peer['address']}")),
        }
        routes.append({**found, **card, **back})
    return {
        "routes": routes,
        "master_addresses": master_addresses(master, resolved),
        "master_port_error": error,
        "master_port_holder": holder,
    }


def about(question: Callable[[str], Any], name: str) -> Callable[[], Any]:
    """A question about a name; functools.partial would be loaded for this alone."""
    return lambda: question(name)


def route(
    peer: Mapping[str, str],
    *,
    resolved: Resolved,
    holders: Mapping[str, str],
    routed: Container[str],
    outward: Mapping[int, str],
) -> dict[str, Any]:
    """One peer: what its names give here, and where packets to it leave."""
    refused = ""
    try:
        source: Any
        source, mtu = way_to(peer["address"])
        interface: Any = holders.get(source) or missing(f"no interface has {source}")
        # An address in `routed` is one for the whole node, behind whichever interface a router chose.
        if source not in routed and len(outward) > 1:
            interface = way_out(peer["address"], outward, source) or interface
    except OSError as error:
        kind = "absent" if error.errno in netlink.NO_ROUTE else "failed"
        source = interface = mtu = missing(f"no route to {peer['address']}: {error.strerror or error}", kind)
        refused = netlink.NO_ROUTE.get(error.errno or 0, "")
    return {
        "name": peer["name"],
        "address": peer["address"],
        "resolved": known(resolved, peer["hostname"]),
        "resolved_fqdn": known(resolved, peer["fqdn"]),
        "interface": interface,
        "source": source,
        "mtu": mtu,
        "refused": refused,
    }


def neighbours(path: str) -> dict[str, dict[str, Any]]:
    """The card that this node takes a neighbour for, and whether somebody wrote that down for good.

    By address and interface: behind another interface the same address may be another machine's.
    """
    found = {}
    text = read_lines(path)
    for line in text.splitlines()[1:] if isinstance(text, str) else []:
        words = line.split()
        if len(words) == 6 and words[3].strip("0:") and int(words[2], 16) & ATF_COM:
            found[f"{words[0]} {words[5]}"] = {
                "card": words[3].lower(),
                "is_written": bool(int(words[2], 16) & ATF_PERM),
            }
    return found


def name_of(address: str) -> tuple[str, list[str], float]:
    """The name that an address has here, as c10d asks for it at every connection; what that name leads to; seconds."""
    begun = time.monotonic()
    try:
        name = socket.getnameinfo((address, 0), socket.NI_NAMEREQD | socket.NI_NUMERICSERV)[0]
    except socket.gaierror as error:
        if error.errno not in NOT_KNOWN:
            raise
        return "", [], time.monotonic() - begun
    return name, addresses_of(name), time.monotonic() - begun


def reverse(answer: Any) -> dict[str, Any]:
    """The look-up of a peer's address as it crosses the wire; nothing for a peer that was not asked for."""
    if answer is None:
        return {}
    if isinstance(answer, OSError):
        seconds: Any = LIMIT_S if isinstance(answer, TimeoutError) else missing(str(answer))
        return {"reverse": missing(str(answer)), "reverse_seconds": seconds}
    name, addresses, taken = answer
    return {
        "reverse": name or missing("the resolver knows no name for it", "absent"),
        "reverse_addresses": addresses,
        "reverse_seconds": round(taken, 4),
    }


def seconds_of(address: str) -> float:
    """How long the resolver takes to say what an address is called, or that it does not know."""
    begun = time.monotonic()
    try:
        socket.getnameinfo((address, 0), socket.NI_NAMEREQD | socket.NI_NUMERICSERV)
    except socket.gaierror:
        return time.monotonic() - begun
    return time.monotonic() - begun


def accepted(answer: Any) -> dict[str, Any]:
    """Those seconds as they cross the wire; nothing where they were not asked for."""
    if answer is None:
        return {}
    if isinstance(answer, OSError):
        return {"accepted_seconds": LIMIT_S if isinstance(answer, TimeoutError) else missing(str(answer))}
    return {"accepted_seconds": round(answer, 4)}


def has_ipv6() -> bool:
    """Whether torch's store can listen on both families here; else it listens on IPv4 alone."""
    try:
        listen(socket.AF_INET6, 0)
    except OSError:
        return False
    return True


def known(resolved: Resolved, name: str) -> list[str]:
    """The addresses of a name, none where the resolver failed or was too slow."""
    answer = resolved.get(name, [])
    return [] if isinstance(answer, OSError) else answer


def master_addresses(name: str, resolved: Resolved) -> Any:
    """What MASTER_ADDR resolves to here; an empty list means that the resolver knows no such name."""
    if not name:
        return missing("MASTER_ADDR is not set", "absent")
    answer = resolved[name]
    return missing(f"{name}: {answer}") if isinstance(answer, OSError) else answer


def way_to(address: str) -> tuple[str, Any]:
    """The address that the kernel's routes give packets to `address`, and the size at which they are cut on the way."""
    is_ipv6 = ":" in address
    with socket.socket(socket.AF_INET6 if is_ipv6 else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, DISCARD_PORT))
        source = str(probe.getsockname()[0]).partition("%")[0]
        try:
            return source, probe.getsockopt(*((socket.IPPROTO_IPV6, IPV6_MTU) if is_ipv6 else (socket.SOL_IP, IP_MTU)))
        except OSError as error:  # a sandbox without it
            return source, missing(error.strerror or str(error), "absent")


def way_out(address: str, outward: Mapping[int, str], source: str) -> str:
    """The interface of these that packets to an address leave by, which need not have their source address.

    "" where that is unknown, or none of them.
    """
    try:
        return outward.get(netlink.way_to(address, source=source)[0], "")
    except OSError:  # a sandbox without rtnetlink
        return ""


def try_bind(port: int) -> tuple[str, str]:
    """Listen on a port as torch's store does: on every address of both families. The error and who holds the port."""
    try:
        listen(socket.AF_INET6, port)
    except OSError as error:
        if error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):  # no IPv6 here
            try:
                listen(socket.AF_INET, port)
            except OSError as second:
                return failure(second, port)
            return "", ""
        return failure(error, port)
    return "", ""


def listen(family: int, port: int) -> None:
    """Bind and listen on all addresses of a family (IPv6 includes IPv4), then close."""
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind(("", port))
        server.listen(1)


def failure(error: OSError, port: int) -> tuple[str, str]:
    """The reason, and the program in the way if it is one."""
    reason = error.strerror or str(error)
    holder = holder_of_port("/proc", port) if error.errno == errno.EADDRINUSE else None
    own = os.getpid()
    return reason, f"{holder[1]} (pid {holder[0]})" if holder and holder[0] != own else ""
