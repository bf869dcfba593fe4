"""What do NCCL_SOCKET_IFNAME, NCCL_IB_HCA and GLOO_SOCKET_IFNAME choose, and what can be said of them by themselves?

NCCL's rules are those of parseStringList and matchIfList in its sources, Gloo's those of torch's ProcessGroupGloo.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import lru_cache

from preflight.knowledge.interfaces import kind
from preflight.said import said

NCCL, GLOO = "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"
NAMES = (NCCL, GLOO)
LOOPBACK = "lo"
LONGEST = 15  # letters of an interface's name, by the kernel


@dataclass(frozen=True)
class Pattern:
    """One entry of NCCL_SOCKET_IFNAME or NCCL_IB_HCA; `port` is None where none is written."""

    name: str
    port: int | None


@dataclass(frozen=True)
class Patterns:
    """A whole list as NCCL reads it: prefixes, unless `is_exact`; what to leave out, if `is_exclusion`."""

    entries: tuple[Pattern, ...]
    is_exclusion: bool
    is_exact: bool

    def accepts(self, name: str, port: int | None = None) -> bool:
        """Whether a name (and a port, for HCAs) is chosen by the list."""
        # NCCL takes an empty list for "everything", so "^=" alone excludes everything.
        matched = not self.entries or any(self._matches(entry, name, port) for entry in self.entries)
        return matched != self.is_exclusion

    def _matches(self, entry: Pattern, name: str, port: int | None) -> bool:
        if entry.port is not None and port is not None and entry.port != port:
            return False
        return name == entry.name if self.is_exact else name.startswith(entry.name)


@lru_cache(maxsize=1024)
def parse_patterns(value: str) -> Patterns:
    """A value of NCCL_SOCKET_IFNAME or NCCL_IB_HCA: ``eth``, ``^docker,lo``, ``=eth0``, ``^=eth0``, ``mlx5_0:1``.

    From NCCL 2.30 on a rail and a plane may follow the port, which may be empty: ``mlx5_0:1:2:3``, ``mlx5_0::1``.
    Blanks are kept, as NCCL keeps them: ``eth0, eth1`` names an interface that begins with a blank.
    """
    is_exclusion = value.startswith("^")
    rest = value[1:] if is_exclusion else value
    is_exact = rest.startswith("=")
    rest = rest[1:] if is_exact else rest
    entries = []
    for word in rest.split(","):
        name, colon, digits = word.partition(":")
        if name:
            entries.append(Pattern(name, _atoi(digits) if colon and not digits.startswith(":") else None))
    return Patterns(tuple(entries), is_exclusion, is_exact)


def is_set(value: str) -> bool:
    """NCCL and torch both ignore a value of one character."""
    return len(value) > 1


def gloo_names(value: str) -> list[str]:
    """The interfaces of GLOO_SOCKET_IFNAME; std::getline gives no empty word after a last comma."""
    return value.removesuffix(",").split(",")


def matches_nothing(variable: str, value: str) -> str:
    """What to say of a value that names no interface of any machine, "" where one may have it.

    NCCL goes on with what one entry matches; Gloo makes a device of each, so that all must be there.
    """
    if not is_set(value):
        return ""
    if variable == GLOO:
        if re.search(r"[\^=\s]", value):
            return said("GLOO_SOCKET_IFNAME={value}: Gloo takes exact names only, no ^, = or blanks", value)
        odd = [name for name in gloo_names(value) if not _may_be_one(name)]
        whole = bool(odd)
    else:
        patterns = parse_patterns(value)
        if patterns.is_exclusion or not patterns.entries:
            return ""
        odd = [name for name in re.split(",", value.lstrip("=")) if name and not _may_be_one(name)]
        whole = len(odd) == len(patterns.entries)
    return said("{variable}={value}: no interface is called {odd}", variable, value, ", ".join(odd)) if whole else ""


def leads_home(variable: str, value: str, *, family: str = "") -> str:
    """What to say of a value over which no other node is reached, on whatever machine; "" where one may be.

    Every machine has lo and lists it first: NCCL starts on it where the list takes it, or leaves only others out. Not
    so with NCCL_SOCKET_FAMILY=AF_INET6, `family`: it takes no loopback address of IPv6.
    """
    if not is_set(value):
        return ""
    patterns = parse_patterns(value)
    if variable == GLOO:
        is_home = _is_home(gloo_names(value)[0])  # it offers the address of the first
    elif patterns.accepts(LOOPBACK):
        if patterns.is_exclusion and family != "AF_INET6":
            words = "{variable}={value} leaves lo in, and takes it first: no other node is reached over it"
            return said(words, variable, value)
        is_home = family != "AF_INET6"
    else:
        is_home = not patterns.is_exclusion and all(_is_home(entry.name) for entry in patterns.entries)
    return said("{variable}={value}: no other node is reached over it", variable, value) if is_home else ""


def _is_home(name: str) -> bool:
    """Loopback, and bridges of one machine to its own containers and virtual machines."""
    row = kind(name)
    return name == LOOPBACK or (row is not None and row.is_home)


def _may_be_one(name: str) -> bool:
    """Whether an interface may be called so, or by its beginning; nobody calls one by an address."""
    try:
        ipaddress.ip_network(name, strict=False)
    except ValueError:
        return len(name.partition(":")[0]) <= LONGEST and not re.search(r"[\s/]", name)
    return name.isdigit()  # 10 is an address to Python alone


def _atoi(digits: str) -> int:
    """C's atoi: the leading digits, else 0."""
    taken = ""
    for character in digits.strip():
        if not (character.isascii() and character.isdigit()):
            break
        taken += character
    return int(taken or "0")
