"""What does the kernel of this network namespace say about addresses, routes and TCP sockets?"""

from __future__ import annotations

import errno
import os
import struct

from preflight.node.agent import sockets as socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

# linux/netlink.h, linux/rtnetlink.h and linux/inet_diag.h
NETLINK_ROUTE, NETLINK_SOCK_DIAG = 0, 4
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_REQUEST_DUMP, NLM_F_DUMP_INTR = 0x1, 0x301, 0x10
ASKED_AT_MOST = 10  # tries, where the list changes while it is given
RTM_GETLINK, RTM_GETADDR, RTM_GETROUTE, RTM_GETNEIGH, TCPDIAG_GETSOCK = 18, 22, 26, 30, 18
IFLA_QDISC, IFLA_EXT_MASK, WITHOUT_STATISTICS = 6, 29, 8
IFA_ADDRESS, IFA_LOCAL = 1, 2
RTA_DST, RTA_SRC, RTA_OIF, RTA_GATEWAY, RTA_PRIORITY, RTA_MULTIPATH, RTA_VIA = 1, 2, 4, 5, 6, 9, 18
NDA_DST, NDA_LLADDR = 1, 2
NUD_INCOMPLETE, NUD_FAILED, NUD_NOARP, NUD_PERMANENT = 0x01, 0x20, 0x40, 0x80
RT_TABLE_MAIN, RTN_UNICAST, RTM_F_CLONED = 254, 1, 0x200

NO_ROUTE = {  # what a look for a route ends with, and which kind of route or rule the kernel found
    errno.ENETUNREACH: "there is no route",
    errno.EHOSTUNREACH: "an unreachable route",
    errno.EINVAL: "a blackhole route",
    errno.EACCES: "a route or rule prohibits it, or it is a broadcast address here",
}
FAMILIES = {socket.AF_INET: "inet", socket.AF_INET6: "inet6"}


def is_open() -> bool:
    """Whether the kernel answers here: a sandbox may forbid it."""
    try:
        dump(RTM_GETADDR, family=socket.AF_INET)
    except OSError:
        return False
    return True


def addresses() -> list[tuple[int, str, str, int]]:
    """Every address as (interface index, family, address, prefix length), in the kernel's order: primary first."""
    found = []
    for body in dump(RTM_GETADDR, family=socket.AF_UNSPEC):
        family, prefix_length, _, _, index = struct.unpack_from("=BBBBI", body)
        if family in FAMILIES:
            values = dict(attributes(body[8:]))
            # With a peer, IFA_ADDRESS is the peer's and IFA_LOCAL is ours; IPv6 without one has no IFA_LOCAL.
            address = values[IFA_LOCAL] if IFA_LOCAL in values else values[IFA_ADDRESS]
            found.append((index, FAMILIES[family], socket.inet_ntop(family, address), prefix_length))
    return found


def default_gateways(family: int) -> list[tuple[int, str]]:
    """The main table's default gateways of a family as (interface index, address), the preferred first."""
    return pick_gateways(dump(RTM_GETROUTE, family=family), family=family)


def way_to(text: str, *, source: str = "") -> tuple[int, str]:
    """Where packets to an address leave: (interface index, gateway or ""); raises OSError where there is no route.

    Rules of policy routing may choose by the `source`, an address of this node.
    """
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    packed = socket.inet_pton(family, text)
    asked = struct.pack("=HH", 4 + len(packed), RTA_DST) + packed
    if source:
        asked += struct.pack("=HH", 4 + len(packed), RTA_SRC) + socket.inet_pton(family, source)
    asked = struct.pack("=BBB9x", family, 8 * len(packed), 8 * len(packed) if source else 0) + asked
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_ROUTE) as kernel:
        kernel.send(struct.pack("=IHHII", 16 + len(asked), RTM_GETROUTE, NLM_F_REQUEST, 1, 0) + asked)
        data = kernel.recv(1 << 16)
    if struct.unpack_from("=H", data, 4)[0] == NLMSG_ERROR:
        code = -struct.unpack_from("=i", data, 16)[0]
        raise OSError(code, os.strerror(code))
    values = dict(attributes(data[28:]))  # behind the headers of the message and of the route
    gateway = values.get(RTA_GATEWAY)
    index = struct.unpack("=I", values[RTA_OIF])[0] if RTA_OIF in values else 0
    return index, socket.inet_ntop(family, gateway) if gateway else via(values[RTA_VIA]) if RTA_VIA in values else ""


def queue_of(kernel: socket.socket, index: int) -> str:
    """How packets wait at an interface for their turn, as `tc qdisc` calls it; "" where the kernel does not tell.

    `kernel` is a socket of NETLINK_ROUTE, for an answer costs less than a socket.
    """
    asked = struct.pack("=4xi8x", index) + struct.pack("=HHI", 8, IFLA_EXT_MASK, WITHOUT_STATISTICS)
    kernel.send(struct.pack("=IHHII", 16 + len(asked), RTM_GETLINK, NLM_F_REQUEST, 1, 0) + asked)
    data = kernel.recv(1 << 16)
    if struct.unpack_from("=H", data, 4)[0] == NLMSG_ERROR:  # the interface has gone
        return ""
    return dict(attributes(data[32:])).get(IFLA_QDISC, b"").rstrip(b"\0").decode("ascii", "replace")


def hardware_of() -> dict[tuple[int, str], tuple[str, str]]:
    """The neighbour (ARP) table: (interface index, address) -> (hardware address or "", its state in a word)."""
    found = {}
    for body in dump(RTM_GETNEIGH, family=socket.AF_UNSPEC):
        family, index, state = struct.unpack_from("=B3xiH", body)
        values = dict(attributes(body[12:]))
        if family in FAMILIES and NDA_DST in values and not state & NUD_NOARP:
            is_lost = state & (NUD_FAILED | NUD_INCOMPLETE)
            word = "permanent" if state & NUD_PERMANENT else "unanswered" if is_lost else "known"
            address = socket.inet_ntop(family, values[NDA_DST])
            found[index, address] = (values.get(NDA_LLADDR, b"").hex(":"), word)
    return found


def tcp_sockets(states: Collection[int]) -> list[tuple[str, int, int, int]]:
    """The TCP sockets in these states: (local address, local port, state, inode), as /proc/net/tcp and tcp6 have them.

    Those tables cost 5 ms each to read even where they are empty, for each is a walk over all buckets of the kernel's
    hash. So is a dump of one family: the older request, which knows none, gives both in one walk.
    """
    found = []
    asked = struct.pack("=52xII", sum(1 << state for state in states), 0)  # struct inet_diag_req
    for body in ask(NETLINK_SOCK_DIAG, TCPDIAG_GETSOCK, asked):
        family, state, port = struct.unpack_from("!BBxxH", body)
        if family in FAMILIES:
            length = 4 if family == socket.AF_INET else 16
            (inode,) = struct.unpack_from("=I", body, 68)
            found.append((socket.inet_ntop(family, body[8 : 8 + length]), port, state, inode))
    return found


def pick_gateways(bodies: list[bytes], *, family: int) -> list[tuple[int, str]]:
    """The default gateways among routes: by metric; the hops of multipath routes only if there is no other."""
    plain: list[tuple[int, int, str]] = []
    several: list[tuple[int, int, str]] = []
    for body in bodies:
        found_family, length, source_length, _, table, _, _, kind, flags = struct.unpack_from("=BBBBBBBBI", body)
        if found_family != family or length or source_length or table != RT_TABLE_MAIN or kind != RTN_UNICAST:
            continue
        if flags & RTM_F_CLONED:
            continue
        values = dict(attributes(body[12:]))
        metric = struct.unpack("=I", values[RTA_PRIORITY])[0] if RTA_PRIORITY in values else 0
        if RTA_GATEWAY in values and RTA_OIF in values:
            index = struct.unpack("=I", values[RTA_OIF])[0]
            plain.append((metric, index, socket.inet_ntop(family, values[RTA_GATEWAY])))
        elif RTA_VIA in values and RTA_OIF in values:
            several.append((metric, struct.unpack("=I", values[RTA_OIF])[0], via(values[RTA_VIA])))
        elif RTA_MULTIPATH in values:
            several.extend((metric, index, address) for index, address in hops(values[RTA_MULTIPATH], family=family))
    chosen = sorted(plain or several, key=lambda route: route[0])
    return list(dict.fromkeys((index, address) for _, index, address in chosen))


def hops(data: bytes, *, family: int) -> Iterator[tuple[int, str]]:
    """The next hops of a multipath route: a chain of struct rtnexthop."""
    while len(data) >= 8:
        length, _, _, index = struct.unpack_from("=HBBi", data)
        if length < 8:
            return
        values = dict(attributes(data[8:length]))
        if RTA_GATEWAY in values:
            yield index, socket.inet_ntop(family, values[RTA_GATEWAY])
        elif RTA_VIA in values:
            yield index, via(values[RTA_VIA])
        data = data[(length + 3) & ~3 :]


def via(data: bytes) -> str:
    """A gateway of the other family: struct rtvia."""
    return socket.inet_ntop(struct.unpack_from("=H", data)[0], data[2:])


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The (type, value) pairs of a chain of struct rtattr."""
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            return
        yield kind & 0x3FFF, data[4:length]  # the two upper bits are flags
        data = data[(length + 3) & ~3 :]


def dump(kind: int, *, family: int) -> list[bytes]:
    """The bodies of all messages about addresses or routes of a family."""
    # One struct rtmsg, the longest header we need; the kernel takes the shorter ifaddrmsg as its beginning.
    return ask(NETLINK_ROUTE, kind, struct.pack("=B11x", family))


def ask(protocol: int, kind: int, request: bytes) -> list[bytes]:
    """The bodies of all messages that the kernel gives for a dump request; raises OSError where it refuses."""

    def once() -> tuple[list[bytes], bool]:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol) as kernel:
            kernel.send(struct.pack("=IHHII", 16 + len(request), kind, NLM_F_REQUEST_DUMP, 1, 0) + request)
            return read_dump(kernel)

    return until_whole(once)


def until_whole(once: Callable[[], tuple[list[bytes], bool]]) -> list[bytes]:
    """The bodies of a dump during which nothing changed; raises OSError where there is none in a few.

    A list that changes while the kernel gives it may have an entry twice, or not at all.
    """
    for _ in range(ASKED_AT_MOST):
        bodies, is_whole = once()
        if is_whole:
            return bodies
    raise OSError(errno.EAGAIN, f"netlink: the list changed each of the {ASKED_AT_MOST} times that it was asked for")


def read_dump(kernel: socket.socket) -> tuple[list[bytes], bool]:
    """The bodies of a dump's messages, and whether nothing changed while the kernel gave them."""
    bodies: list[bytes] = []
    is_whole = True
    while True:
        data = kernel.recv(1 << 17)
        while len(data) >= 16:
            length, message, flags, _, _ = struct.unpack_from("=IHHII", data)
            is_whole = is_whole and not flags & NLM_F_DUMP_INTR
            if message == NLMSG_DONE:
                return bodies, is_whole
            if message == NLMSG_ERROR:
                code = -struct.unpack_from("=i", data, 16)[0]
                raise OSError(code, f"netlink: {os.strerror(code)}")
            bodies.append(data[16:length])
            data = data[(length + 3) & ~3 :]
