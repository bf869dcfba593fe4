"""Which rates does the kernel hold packets to: a queueing discipline of an interface, a rule of the packet filter?"""

from __future__ import annotations

import errno
import os
import struct
import zlib

from preflight.node.agent import netlink
from preflight.node.agent.missing import missing, missing_because, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from preflight.node.agent.missing import TextOrMissing

# linux/rtnetlink.h, linux/pkt_sched.h
RTM_GETQDISC, RTM_GETTCLASS = 38, 42
TCA_KIND, TCA_OPTIONS, TCA_TBF_PARMS, TCA_TBF_RATE64, TCA_HTB_PARMS, TCA_HTB_RATE64, TCA_HTB_CEIL64 = (
    1,
    2,
    1,
    4,
    1,
    6,
    7,
)
FIXED = ("netem", "fq", "fq_codel", "cake", "codel", "pie", "hfsc", "drr")  # whose options hold no counter
CLASSFUL = ("htb", "hfsc", "drr")
# linux/netfilter/nfnetlink.h, linux/netfilter/nf_tables.h
NETLINK_NETFILTER, NFT_MSG_GETRULE = 12, 10 << 8 | 7
NFTA_RULE_TABLE, NFTA_RULE_CHAIN, NFTA_RULE_EXPRESSIONS, NFTA_EXPR_NAME, NFTA_EXPR_DATA = 1, 2, 4, 1, 2
LIMITING = (b"limit", b"numgen", b"connlimit")  # numgen is how a rule loses some packets of many
COUNTING = (b"counter", b"last", b"quota")  # expressions that move by themselves
MATCHES = (b"limit", b"hashlimit", b"statistic")  # of iptables
HELD_BYTES = 8  # of such a match: behind them stand the credits that it has left
MOST_LETTERS = 400
NOT_ROOT = "the packet filter's rules are shown to root alone"


def by_interface() -> dict[int, str]:
    """Index of an interface -> its queueing disciplines, each kind once, with their rates or a checksum of the rest.

    Raises OSError where the kernel does not tell.
    """
    found: dict[int, list[str]] = {}
    for body in netlink.ask(netlink.NETLINK_ROUTE, RTM_GETQDISC, struct.pack("=20x")):
        (index,) = struct.unpack_from("=i", body, 4)
        values = dict(netlink.attributes(body[20:]))
        kind = values.get(TCA_KIND, b"").rstrip(b"\0").decode("ascii", "replace")
        found.setdefault(index, []).append(discipline(kind, values.get(TCA_OPTIONS, b"")))
        if kind in CLASSFUL:
            found[index] += classes(index)
    return {index: folded(words) for index, words in found.items()}


def discipline(kind: str, options: bytes) -> str:
    """A queueing discipline in words: "tbf 50 Mbit/s"."""
    if kind == "tbf":
        values = dict(netlink.attributes(options))
        return f"tbf {rate(values, TCA_TBF_PARMS, 8, TCA_TBF_RATE64)}"
    return f"{kind} {checksum(options)}" if kind in FIXED and options else kind


def classes(index: int) -> list[str]:
    """The classes of an interface, with the rates of HTB's."""
    asked = struct.pack("=4xi12x", index)
    found = []
    for body in netlink.ask(netlink.NETLINK_ROUTE, RTM_GETTCLASS, asked):
        values = dict(netlink.attributes(body[20:]))
        kind = values.get(TCA_KIND, b"").rstrip(b"\0").decode("ascii", "replace")
        options = values.get(TCA_OPTIONS, b"")
        if kind == "htb":
            parts = dict(netlink.attributes(options))
            least = rate(parts, TCA_HTB_PARMS, 8, TCA_HTB_RATE64)
            found.append(f"class {least} to {rate(parts, TCA_HTB_PARMS, 20, TCA_HTB_CEIL64)}")
        else:
            found.append(f"class {kind} {checksum(options)}")
    return found


def rate(values: dict[int, bytes], parameters: int, place: int, wide: int) -> str:
    """A rate of bytes a second, from its own attribute where it is too large for the 32 bits in the parameters."""
    if wide in values:
        (found,) = struct.unpack_from("=Q", values[wide])
    elif len(values.get(parameters, b"")) >= place + 4:
        (found,) = struct.unpack_from("=I", values[parameters], place)
    else:
        return "unknown"
    return f"{found * 8 / 1e6:g} Mbit/s"


def rate_limits(proc: str) -> TextOrMissing:
    """The rules of the packet filter that hold packets to a rate or lose some, "" without any; root alone may ask.

    A kernel without the module is not asked: that would load it.
    """
    modules = f"{proc}/modules"
    if os.path.exists(modules) and not any(line.startswith("nf_tables ") for line in read_text(modules).splitlines()):
        return ""
    try:
        bodies = netlink.ask(NETLINK_NETFILTER, NFT_MSG_GETRULE, struct.pack("=BBH", 0, 0, 0))
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP, errno.EPROTONOSUPPORT):  # this kernel has no nf_tables
            return ""
        return missing(NOT_ROOT, "denied") if error.errno == errno.EPERM else missing_because(error)
    return folded([text for body in bodies if (text := limiting(body[4:]))])


def limiting(attributes: bytes) -> str:
    """A rule that limits a rate: its table, chain and a checksum of what it says; "" for any other."""
    values = dict(netlink.attributes(attributes))
    said: list[bytes] = []
    limits = False
    for _, expression in netlink.attributes(values.get(NFTA_RULE_EXPRESSIONS, b"")):
        parts = dict(netlink.attributes(expression))
        name, data = parts.get(NFTA_EXPR_NAME, b"").rstrip(b"\0"), parts.get(NFTA_EXPR_DATA, b"")
        if name == b"match":
            match = dict(netlink.attributes(data))
            name = match.get(1, b"").rstrip(b"\0")
            limits = limits or name in MATCHES
            data = match.get(3, b"")[:HELD_BYTES] if name in MATCHES else data
        limits = limits or name in LIMITING
        said += [] if name in COUNTING else [name, data]
    if not limits:
        return ""
    table, chain = (
        values.get(key, b"").rstrip(b"\0").decode("utf-8", "replace") for key in (NFTA_RULE_TABLE, NFTA_RULE_CHAIN)
    )
    return f"{table}/{chain} {checksum(b' '.join(said))}"


def checksum(data: bytes) -> str:
    """So that a change shows, whatever it is."""
    return f"{zlib.crc32(data):08x}"


def folded(words: list[str]) -> str:
    """Each of them once, with how often it stands there, in an order of their own: "64 x fq_codel 1f00aa22, mq"."""
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    text = ", ".join(f"{count} x {word}" if count > 1 else word for word, count in sorted(counts.items()))
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}... {checksum(text.encode())}"
