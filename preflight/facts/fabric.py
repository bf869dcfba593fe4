"""Which RDMA ports does NCCL_IB_HCA choose, and what is each row of a GID table good for?"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Literal

import msgspec

from preflight.facts.subjects.network import Network
from preflight.facts.subjects.rdma import Gid, Rdma, RdmaDevice, RdmaPort
from preflight.facts.value import NOT_REPORTED, Missing
from preflight.knowledge.variables.interfaces import Patterns, parse_patterns
from preflight.said import said
from preflight.said.errors import FactMissing

Scope = Literal["empty", "link-local", "ipv4", "ipv6"]
GID = re.compile(r"(?:[0-9a-f]{4}:){7}[0-9a-f]{4}")
NO_BYTES = "0000:0000:0000:0000:0000:0000:0000:0000"
IPV4_MAPPED = "0000:0000:0000:0000:0000:ffff:"  # ::ffff:0:0/96
# A port without a subnet manager has the default prefix and nothing else.
OF_NOBODY = (NO_BYTES, "fe80" + NO_BYTES[4:], IPV4_MAPPED + "0000:0000", "")
LINK_LOCAL = ("fe8", "fe9", "fea", "feb")  # fe80::/10
LINK_LOCAL_OF_IPV4 = "a9fe"  # 169.254
LINK_LAYERS = ("InfiniBand", "Ethernet")


@dataclass(frozen=True)
class Hca:
    """One port of one device: what NCCL_IB_HCA chooses."""

    device: str
    port: RdmaPort
    open_error: str | Missing = NOT_REPORTED
    kind: str = ""  # adapters of one kind are the same model; "" where that is not known
    card: str = ""  # functions of one card have the same; "" where that is not known

    @property
    def name(self) -> str:
        """The port as NCCL_IB_HCA names it: "mlx5_0:1"."""
        return f"{self.device}:{self.port.number}"

    @property
    def cable(self) -> tuple[str, str] | None:
        """The card and its port: several PCIe functions of one port share its cable; None where it is not known."""
        label = self.port.label
        return (self.card, label) if self.card and isinstance(label, str) else None

    @property
    def is_roce(self) -> bool:
        """Whether the link is Ethernet."""
        return self.port.link_layer == "Ethernet"

    @property
    def is_efa(self) -> bool:
        """Whether it is an active port of AWS' Elastic Fabric Adapter, which needs a plugin of NCCL.

        Its link layer is "Unspecified" (drivers/infiniband/hw/efa of Linux), its names are rdmap0s6 or efa_0.
        """
        named = self.device.startswith(("rdmap", "efa"))
        return named and self.port.state == "ACTIVE" and self.port.link_layer not in LINK_LAYERS

    @property
    def is_unmanaged(self) -> bool:
        """Whether it is an InfiniBand port that has its link, and no address from a subnet manager yet."""
        return self.port.link_layer == "InfiniBand" and self.port.state in ("INIT", "ARMED")

    @property
    def has_address(self) -> bool:
        """Whether its table has a row beyond the link-local ones."""
        self.port.needs_gids()
        return any(classify(gid).scope in ("ipv4", "ipv6") for gid in self.port.gids)

    @property
    def is_up(self) -> bool:
        """Whether the port has its link; EFA's has a layer of its own, which NCCL's own transport leaves out."""
        return self.port.state == "ACTIVE"

    @property
    def is_active(self) -> bool:
        """Whether the port is ACTIVE: NCCL silently leaves out every other."""
        return self.port.state == "ACTIVE" and self.port.link_layer in LINK_LAYERS


def hcas(rdma: Rdma) -> tuple[Hca, ...]:
    """All ports of all devices, in the devices' order."""
    return tuple(
        Hca(device.name, port, device.open_error, _kind(device), device.card if isinstance(device.card, str) else "")
        for device in rdma.devices
        for port in device.ports
    )


def firmwares(rdma: Rdma) -> str:
    """The firmware of each kind of adapter, each version once: "MT4129 28.39.1002"."""
    for device in rdma.devices:
        for field in ("firmware", "board"):
            value = getattr(device, field)
            same_model = (one for one in rdma.devices if one.model == device.model)
            # Another adapter of the model tells it: here it was lost.
            if isinstance(value, Missing) and any(isinstance(getattr(one, field), str) for one in same_model):
                raise FactMissing(said("{field} of {name}", field, device.name), value.missing)
    values = {
        f"{_kind(device) or device.name} {device.firmware}"
        for device in rdma.devices
        if isinstance(device.firmware, str)
    }
    if not values:
        raise FactMissing("firmware of RDMA adapters", "no adapter reports one", "absent")
    return ", ".join(sorted(values))


def _kind(device: RdmaDevice) -> str:
    return next((text for text in (device.board, device.model) if isinstance(text, str)), "")


def chosen_hcas(rdma: Rdma, value: str = "") -> tuple[Hca, ...]:
    """The ports that NCCL_IB_HCA matches, active or not; all of them where `value` is empty.

    Names are prefixes unless the list begins with ``=``: ``mlx5_1`` takes mlx5_10 too.
    """
    patterns = parse_patterns(value)
    return tuple(hca for hca in hcas(rdma) if patterns.accepts(hca.device, hca.port.number))


def given(hcas: tuple[Hca, ...]) -> tuple[Hca, ...]:
    """Those ports that can be opened; all, where none can or that is not known.

    A container sees every device of its machine in sysfs, and opens those that it was given.
    """
    return tuple(hca for hca in hcas if isinstance(hca.open_error, Missing) or not hca.open_error) or hcas


def needs_plugin(rdma: Rdma, network: str) -> str:
    """Why NCCL needs a plugin on a node: its adapters, or NCCL_NET, are none of NCCL's own; "" where it needs none."""
    if network and network.lower() not in ("ib", "socket"):
        return f"NCCL_NET={network}"
    ports = [hca for hca in hcas(rdma) if hca.is_up]
    foreign = [hca.name for hca in ports if hca.port.link_layer == "Unspecified"]
    return said("{foreign} is EFA", ", ".join(foreign[:2])) if foreign and len(foreign) == len(ports) else ""


PLUGINS = ("libnccl-net", "librccl-net", "librccl-anp")  # what nodes look for


def library_of_plugin(value: str) -> str:
    """The library that NCCL_NET_PLUGIN asks for; "" where it asks for none, or for one that nodes do not look for.

    NCCL takes a file's name, or the end of libnccl-net-<name>.so; it looks for libnccl-net.so in any case.
    """
    if value.lower() in ("", "none", "libnccl-net.so") or "/" in value or "," in value:
        return ""
    name = value if ".so" in value else f"libnccl-net-{value}.so"
    return name if name.startswith(PLUGINS) else ""


def unmatched(rdma: Rdma, value: str) -> tuple[str, ...]:
    """The entries of NCCL_IB_HCA that match no port of this node."""
    patterns = parse_patterns(value)
    written = [entry.name if entry.port is None else f"{entry.name}:{entry.port}" for entry in patterns.entries]
    return tuple(entry for entry in written if not chosen_hcas(rdma, "=" * patterns.is_exact + entry))


def asked_for_in_vain(rdma: Rdma, value: str) -> tuple[Hca, ...]:
    """The ports that entries of NCCL_IB_HCA take of which none is active; none where it says what to leave out.

    ``mlx5_0`` takes both ports of that adapter, and is served where one of them is active.
    """
    patterns = parse_patterns(value)
    found: list[Hca] = []
    for entry in () if patterns.is_exclusion else patterns.entries:
        one = Patterns((entry,), is_exclusion=False, is_exact=patterns.is_exact)
        taken = [hca for hca in hcas(rdma) if one.accepts(hca.device, hca.port.number)]
        found += [] if any(hca.is_active for hca in taken) else taken
    return tuple({hca.name: hca for hca in found}.values())


def taken_by_prefix(rdma: Rdma, value: str) -> dict[str, tuple[str, ...]]:
    """The prefix trap: an entry that is a device's full name -> further devices that it takes as a prefix."""
    patterns = parse_patterns(value)
    names = [device.name for device in rdma.devices]
    if patterns.is_exact:
        return {}
    written = {entry.name for entry in patterns.entries}
    trapped = {
        entry: tuple(name for name in names if name.startswith(entry) and name not in written)
        for entry in sorted(written)
        if entry in names
    }
    return {entry: others for entry, others in trapped.items() if others}


class GidClass(msgspec.Struct, frozen=True):
    """What a GID is: its RoCE version (None on InfiniBand or where it is not known), scope and address."""

    index: int
    roce_version: int | None
    scope: Scope
    gid: str  # as the kernel writes it; "" where it is none

    @property
    def address(self) -> str:
        """As an IPv4 or IPv6 address; "" of an empty row."""
        if self.scope == "empty":
            return ""
        if self.gid.startswith(IPV4_MAPPED):
            return ".".join(str(int(self.gid[place : place + 2], 16)) for place in (30, 32, 35, 37))
        return str(ipaddress.IPv6Address(self.gid))

    @property
    def is_routable(self) -> bool:
        """Whether it can be used beyond its own layer 2 segment: RoCE v2 with a real IP address."""
        return self.roce_version == 2 and self.scope in ("ipv4", "ipv6")

    def __str__(self) -> str:
        version = f"RoCE v{self.roce_version}" if self.roce_version else "no RoCE"
        return f"{version} {self.scope} {self.address}".rstrip()


def classify(gid: Gid) -> GidClass:
    """A row of a GID table: version from its type, scope and address from its bytes."""
    kind = "" if isinstance(gid.kind, Missing) else gid.kind.strip()
    version = 2 if kind == "RoCE v2" else 1 if kind in ("IB/RoCE v1", "RoCE v1") else None
    text = _as_the_kernel_writes(gid.gid)
    return GidClass(gid.index, version, _scope(text), text)


def gid_of_nccl(port: RdmaPort, *, family: str = "AF_INET", version: int = 2, address_range: str = "") -> GidClass:
    """The row that NCCL 2.21 and later take where NCCL_IB_GID_INDEX is not set (ncclIbGetGidIndex, net_ib.cc).

    It begins with row 0 and moves on to a row of the wanted family, and within that to one of the wanted RoCE version.
    Link-local rows of IPv4 (169.254) count as any other; where no row is of the family it stays at row 0. Of
    NCCL_IB_ADDR_RANGE only what has a mask counts, and what is of the family.
    """
    rows = {gid.index: classify(gid) for gid in port.gids}
    taken = rows.get(0, GidClass(0, None, "empty", ""))
    for row in sorted(rows.values(), key=lambda row: row.index):
        if row.index == 0 or _family(row) != family or not _is_within(row, address_range):
            continue
        is_better = row.roce_version == version and (taken.roce_version != version or not _is_valid(taken))
        if _family(taken) != family or (_is_valid(row) and is_better):
            taken = row
    return taken


def _family(row: GidClass) -> str:
    return "AF_INET" if "." in row.address else "AF_INET6"


def _is_within(row: GidClass, address_range: str) -> bool:
    try:
        network = ipaddress.ip_network(address_range, strict=False) if "/" in address_range else None
        address = ipaddress.ip_address(row.address)
    except ValueError:
        return True
    return network is None or network.version != address.version or address in network


def _is_valid(row: GidClass) -> bool:
    """NCCL's validGid: neither empty nor link-local of IPv6."""
    return row.scope in ("ipv4", "ipv6") or "." in row.address


def best_gid(port: RdmaPort, network: Network) -> GidClass:
    """The row to set as NCCL_IB_GID_INDEX: routable RoCE v2, best the IPv4 address that its netdev really has.

    Raises FactMissing ("absent") where the port has no routable row.
    """
    rows = [(gid, classify(gid)) for gid in port.gids]
    routable = [(gid, found) for gid, found in rows if found.is_routable]
    if not routable:
        kinds = ", ".join(f"{found.index}: {found}" for _, found in rows if found.scope != "empty") or "none"
        raise FactMissing(
            said("routable GID of port {number}", port.number),
            said("no RoCE v2 GID with an IP address ({kinds})", kinds),
            "absent",
        )

    def rank(row: tuple[Gid, GidClass]) -> tuple[bool, bool, int]:
        gid, found = row
        return (not _is_on_netdev(gid, found, network), found.scope != "ipv4", found.index)

    return min(routable, key=rank)[1]


def _is_on_netdev(gid: Gid, found: GidClass, network: Network) -> bool:
    return not isinstance(gid.netdev, Missing) and any(
        interface.name == gid.netdev and any(held.address == found.address for held in interface.addresses)
        for interface in network.interfaces
    )


def _as_the_kernel_writes(text: str) -> str:
    """Eight groups of four small digits; "" where it is no address."""
    written = text.strip().lower()
    if GID.fullmatch(written):  # nearly all: ipaddress takes ten times as long, and a cluster has 100,000 rows
        return written
    try:
        return ipaddress.IPv6Address(int(ipaddress.IPv6Address(written))).exploded
    except ValueError:
        return ""


def _scope(gid: str) -> Scope:
    if gid in OF_NOBODY:
        return "empty"
    if gid.startswith(IPV4_MAPPED):
        return "link-local" if gid.startswith(LINK_LOCAL_OF_IPV4, len(IPV4_MAPPED)) else "ipv4"
    return "link-local" if gid.startswith(LINK_LOCAL) else "ipv6"
