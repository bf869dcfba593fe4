"""Is this text an address that rank 0 can have, and for whom?"""

from __future__ import annotations

import ipaddress
import re

from preflight.launch.field import value_of
from preflight.launch.plan import Plan

LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"})

NAME = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?")

PLACEHOLDER = re.compile(
    r"<.*>|\{.*\}|\[[^:\]]*\]|.*\b[xX]{1,4}\b.*|.*\.[xX]+(\..*)?"
    r"|(your|my|the|insert|replace|put|fill)[-_ ].*|(change|fill)[-_]?me|todo|fixme|tbd|none|null"
    r"|(master|head|main|first|server)[-_]?(node)?[-_]?(ip|addr|address)|.*[-_]?(here)|[A-Z][A-Z0-9]*_[A-Z0-9_]*|(MASTER|HEAD|NODE|HOST|MAIN|IP|ADDR|ADDRESS)",
    re.DOTALL,
)


def wrong_with(address: str) -> str:
    """Why a text cannot be the address of a node; "" where it can."""
    bare = address.strip().strip("[]").partition("%")[0]
    try:
        ipaddress.ip_address(bare)
    except ValueError:
        pass
    else:
        return ""
    if not address.strip():
        return "is empty"
    if any(ord(letter) > 127 for letter in address):
        return "is a placeholder that was never filled in"
    if "@" in address:
        return "has a user name; an address alone is wanted"
    if "://" in address:
        return "is a URL; an address alone is wanted"
    if re.fullmatch(r"[A-Za-z0-9_.-]+:\d+", address):
        return "has a port, which has a field of its own"
    lower = address.lower()
    if PLACEHOLDER.fullmatch(address) or PLACEHOLDER.fullmatch(lower) or "example" in lower.split("."):
        return "is a placeholder that was never filled in"
    if re.fullmatch(r"\d+", address):
        return "is a number, no address: a placeholder that was never filled in"
    if in_brackets(address):
        return "is an IPv6 address with a port behind it, and no brackets tell them apart"
    if re.fullmatch(r"[\d.]+", address) or ":" in address:
        return "is not an IP address"
    if not NAME.fullmatch(address):
        return "is not a host name"
    return ""


def is_ipv6(address: str) -> bool:
    """Whether it is an IPv6 address without brackets."""
    try:
        return ipaddress.ip_address(address.strip().partition("%")[0]).version == 6
    except ValueError:
        return False


def in_brackets(text: str) -> str:
    """``[ADDRESS]:PORT`` of an IPv6 address with a port behind it that has no brackets; "" of any other text."""
    address, _, port = text.strip().rpartition(":")
    return f"[{address}]:{port}" if is_ipv6(address) and re.fullmatch(r"\d{5}", port) else ""


def is_loopback(address: str) -> bool:
    """Whether every node takes the address for itself."""
    bare = address.strip().strip("[]").partition("%")[0].lower()
    try:
        parsed = ipaddress.ip_address(bare)
    except ValueError:
        return bare.rstrip(".") in LOOPBACK_NAMES
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).is_loopback or (mapped or parsed).is_unspecified


def address_of(plan: Plan) -> str:
    """The address of rank 0 where it is one, "" elsewhere."""
    address = value_of(plan.master_address) or ""
    return "" if wrong_with(address) or is_loopback(address) else address
