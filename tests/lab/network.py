"""How are lab hosts wired: one bridge, one veth per host, each direction shaped on its own?"""

import re
from collections.abc import Sequence

from .spaces import LabError, Space, call

SUBNET = "10.77.0"
PREFIX_LENGTH = 24
# Larger bursts let a short transfer look faster than the link, smaller ones keep TCP from filling it.
BURST_SECONDS = 0.002
# A packet larger than the burst is cut into frames in software: eight hosts at 200 Mbit then need 1.5 cores, not 0.1.
LARGEST_PACKET_BYTES = 32000
UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


def bits_per_s(rate: str) -> float:
    """'200mbit' -> 2e8."""
    match = re.fullmatch(r"([0-9.]+)([kmg]bit)", rate)
    if match is None:
        raise LabError(f"rate {rate!r}: wanted a number and kbit, mbit or gbit, as in 200mbit")
    return float(match[1]) * UNITS[match[2]]


def wire(switch: Space, hosts: Sequence[tuple[Space, str]]) -> None:
    """Join hosts to a new bridge by their eth0, each at its address."""
    ip(switch, ["link add bridge0 type bridge", "link set bridge0 up"])
    for host, address in hosts:
        attach(switch, host, interface="eth0", address=f"{address}/{PREFIX_LENGTH}", bridge="bridge0")


def attach(switch: Space, host: Space, *, interface: str, address: str, bridge: str) -> None:
    """Give a host an interface on one of the switch's bridges."""
    port = port_name(host.name, interface)
    ip(
        switch,
        [
            f"link add name {port} type veth peer name {interface} netns {host.pid}",
            f"link set {port} master {bridge} up",
        ],
    )
    size = f"link set dev {interface} gso_max_size {LARGEST_PACKET_BYTES}"
    ip(host, ["link set lo up", f"addr add {address} dev {interface}", size, f"link set {interface} up"])
    use_cubic(host, interface)


def use_cubic(host: Space, interface: str) -> None:
    """Let TCP over this interface use cubic.

    New namespaces take the machine's choice, often bbr, whose probing makes rates wander on shaped links; per
    route, because a namespace may be refused the sysctl.
    """
    routes = call([*host.enter("net"), "ip", "-4", "route", "show", "dev", interface, "scope", "link"]).splitlines()
    ip(host, [f"route change {re.sub(r' (congctl|linkdown) ?[a-z]*', '', route)} dev {interface} congctl cubic"
              for route in routes])  # fmt: skip


def shape(space: Space, interface: str, rate: str | None) -> None:
    """Limit what `space` sends through `interface`; None lifts the limit."""
    if rate is None:
        discipline = ["noqueue"]
    else:
        burst_bytes = max(int(bits_per_s(rate) / 8 * BURST_SECONDS), 4000)
        discipline = ["tbf", "rate", rate, "burst", str(burst_bytes), "latency", "50ms"]
    call([*space.enter("net"), "tc", "qdisc", "replace", "dev", interface, "root", *discipline])


def add_bridge(switch: Space, name: str) -> None:
    """Make a second network in the switch, once."""
    if f" {name}:" not in call([*switch.enter("net"), "ip", "-o", "link", "show", "type", "bridge"]):
        ip(switch, [f"link add {name} type bridge", f"link set {name} up"])


def port_name(host: str, interface: str) -> str:
    """The switch's side of a host's interface."""
    return host if interface == "eth0" else f"{host}.{interface}"


def ip(space: Space, lines: Sequence[str]) -> None:
    """Run ip commands in a network namespace."""
    call([*space.enter("net"), "ip", "-batch", "-"], text="\n".join(lines) + "\n")
