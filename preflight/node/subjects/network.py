"""Which interfaces, addresses and default gateways does this node have?

The kernel itself is asked first: its answer is whole, and importing psutil would cost a node more than all other
facts of the network. psutil and netifaces are the fallback where rtnetlink is closed to us.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct

from preflight.node.agent import netlink, roots
from preflight.node.agent import sockets as socket
from preflight.node.agent.missing import entries, missing, read_lines, read_text
from preflight.node.sources import pci
from preflight.node.sources.kernel import shaping
from preflight.node.subjects import itself

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Link = tuple[list[dict[str, Any]], int, int]  # what is known of an interface: addresses, MTU, Mbit/s


# linux/sockios.h, linux/if.h, linux/ethtool.h
SIOCGIFFLAGS, SIOCGIFMTU, SIOCETHTOOL = 0x8913, 0x8921, 0x8946
IFF_LOOPBACK, IFF_RUNNING = 0x8, 0x40
ETHTOOL_GSET, ETHTOOL_BYTES = 1, 44  # struct ethtool_cmd, the longest that we ask for
OFFLOADS = {"tso": 0x1E, "gso": 0x23, "gro": 0x2B}  # ETHTOOL_GTSO, ETHTOOL_GGSO, ETHTOOL_GGRO
MAC_LENGTH = 17
OTHER_SYSFS = "sysfs of another network namespace"
NO_SPEED = (errno.EOPNOTSUPP, errno.EINVAL, errno.EBUSY, errno.EPERM)


def collect(arguments: dict[str, Any]) -> dict[str, Any]:
    """Facts of the subject network."""
    roots.only_here(arguments)
    low, high = read_text(f"{arguments['proc']}/sys/net/ipv4/ip_local_port_range").split()
    names = dict(socket.if_nameindex())
    found = interfaces(names, sysfs=arguments["sysfs"])
    return {
        "interfaces": found,
        "unreached": itself.unreached(found),
        "gateways": gateways(names),
        "ephemeral_ports": [int(low), int(high)],
        "rate_limits": shaping.rate_limits(arguments["proc"]),
        "reserved_ports": reserved_ports(arguments["proc"], int(low), int(high)),
    }


def reserved_ports(proc: str, low: int, high: int) -> int | dict[str, str]:
    """How many ports of that range are reserved ("8080,30000-30999"): the kernel does not assign them."""
    text = read_lines(f"{proc}/sys/net/ipv4/ip_local_reserved_ports")
    if isinstance(text, dict):
        return text
    count = 0
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        count += max(0, min(int(last or first), high) - max(int(first), low) + 1)
    return count


def interfaces(names: dict[int, str], *, sysfs: str) -> list[dict[str, Any]]:
    """Every interface by index; one that vanishes while we look is left out."""
    try:
        links = links_by_kernel(names)
    except OSError as refused:  # a sandbox that keeps rtnetlink or ioctl from us
        try:
            links = links_by_psutil(names)
        except ImportError:
            raise refused from None
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as kernel:
        driver = Driver(kernel)
        for index, name in sorted(names.items()):
            flags = interface_flags(kernel, name)
            if flags is None or name not in links:
                continue
            addresses, mtu, speed_mbps = links[name]
            found.append(
                {
                    "name": name,
                    "index": index,
                    "addresses": addresses,
                    "mtu": mtu,
                    "speed_mbps": speed_mbps,
                    "is_up": bool(flags & IFF_RUNNING),
                    "is_loopback": bool(flags & IFF_LOOPBACK),
                    **of_sysfs(name, index=index, sysfs=sysfs),
                    "offloads": offloads(driver, name) if is_of_peers(addresses) else missing("not asked", "absent"),
                }
            )
    return with_queues(found)


def with_queues(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The interfaces that packets to peers may leave by, each with its queue and the rates that it is held to."""
    asked = [one for one in found if one["is_physical"] is True or is_of_peers(one["addresses"])]
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, netlink.NETLINK_ROUTE) as kernel:
            for one in asked:
                one["queue"] = netlink.queue_of(kernel, one["index"]) or missing("the kernel reports none", "absent")
        disciplines = shaping.by_interface()
        for one in asked:
            one["shaping"] = disciplines.get(one["index"]) or missing("the kernel reports none", "absent")
    except OSError as error:  # a sandbox without rtnetlink
        for one in asked:
            one["queue"] = one["shaping"] = missing(error.strerror or str(error), "absent")
    return found


def links_by_psutil(names: dict[int, str]) -> dict[str, Link]:
    """The interfaces as psutil lists them; an OSError where its list differs from the kernel's own."""
    import psutil

    addresses, stats = psutil.net_if_addrs(), psutil.net_if_stats()
    # An address with a label ("eth0:1") looks like an interface of its own there, and loses its place in the order.
    if not set(addresses) <= set(stats) or set(stats) != set(names.values()):
        raise OSError(
            f"psutil and the kernel differ on {', '.join(sorted({*addresses, *stats} ^ set(names.values())))}"
        )
    links: dict[str, Link] = {}
    for name, stat in stats.items():
        found = []
        for item in addresses.get(name, ()):
            if item.family in netlink.FAMILIES:
                if item.netmask is None:
                    raise OSError(f"psutil reports no netmask of {item.address} on {name}")
                mask = socket.inet_pton(item.family, item.netmask)
                prefix_length = bin(int.from_bytes(mask, "big")).count("1")
                found.append(address(netlink.FAMILIES[item.family], item.address, prefix_length))
        links[name] = (found, stat.mtu, stat.speed)
    return links


def links_by_kernel(names: dict[int, str]) -> dict[str, Link]:
    """Interface -> its addresses, MTU and speed, from rtnetlink and ioctl, as `links_by_psutil` has them."""
    found: dict[int, list[dict[str, Any]]] = {index: [] for index in names}
    for index, family, text, prefix_length in netlink.addresses():
        if index in found:
            found[index].append(address(family, text, prefix_length))
    links: dict[str, Link] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as kernel:
        driver = Driver(kernel)
        for index, name in names.items():
            try:
                mtu: int = struct.unpack_from("=16xi", ask(kernel, SIOCGIFMTU, name))[0]
                links[name] = (found[index], mtu, speed_mbps(driver, name))
            except OSError as error:
                if error.errno != errno.ENODEV:
                    raise
    return links


def address(family: str, text: str, prefix_length: int) -> dict[str, Any]:
    """An address as it crosses the wire, without the scope that some add to link-local ones."""
    return {"address": text.partition("%")[0], "prefix_length": prefix_length, "family": family}


def ask(kernel: socket.socket, request: int, name: str) -> bytes:
    """An ioctl with a struct ifreq that needs nothing but the name."""
    return fcntl.ioctl(kernel, request, struct.pack("16s24x", written(name)))


def written(name: str) -> bytes:
    """The name of an interface as the kernel has it."""
    return name.encode("utf-8", "surrogateescape")


def interface_flags(kernel: socket.socket, name: str) -> int | None:
    """The IFF_ flags, or nothing if the interface has gone."""
    try:
        flags: int = struct.unpack_from("=16xH", ask(kernel, SIOCGIFFLAGS, name))[0]
    except OSError as error:
        if error.errno == errno.ENODEV:
            return None
        raise
    return flags


class Driver:
    """The drivers of all interfaces, as ethtool asks them: with a command in a buffer, where the answer appears."""

    def __init__(self, kernel: socket.socket) -> None:
        self._kernel = kernel
        self._buffer = bytearray(ETHTOOL_BYTES)
        self._place = place_of(self._buffer)

    def ask(self, name: str, command: int) -> bytearray:
        """What the driver writes behind the command, valid until the next; OSError where it refuses."""
        self._buffer[:] = struct.pack(f"=I{ETHTOOL_BYTES - 4}x", command)
        fcntl.ioctl(self._kernel, SIOCETHTOOL, struct.pack("16sP16x", written(name), self._place))
        return self._buffer


def speed_mbps(driver: Driver, name: str) -> int:
    """The link rate as ETHTOOL_GSET reports it, 0 where the driver reports none."""
    try:
        low, high = struct.unpack_from("=12xH14xH", driver.ask(name, ETHTOOL_GSET))
    except OSError as error:
        if error.errno in NO_SPEED:
            return 0
        raise
    speed: int = high << 16 | low
    return speed if speed < 1 << 31 else 0  # -1 is SPEED_UNKNOWN


def is_of_peers(addresses: list[dict[str, Any]]) -> bool:
    """Whether peers may reach an interface; those of a machine's containers have at most link-local addresses."""
    return any(not one["address"].startswith(("fe80:", "127.", "::1")) for one in addresses)


def offloads(driver: Driver, name: str) -> list[str] | dict[str, str]:
    """The OFFLOADS that are on: they split and merge packets in the adapter, or late in the kernel."""
    try:
        return [offload for offload, command in OFFLOADS.items() if any(driver.ask(name, command)[4:8])]
    except OSError as error:
        return missing("the driver does not report it", "absent") if error.errno in NO_SPEED else missing(str(error))


def place_of(held: bytearray) -> int:
    """The address in memory of a buffer that is kept; the modules array and ctypes load others in 2 ms to tell it."""
    import _ctypes

    byte: Any = type("byte", (_ctypes._SimpleCData,), {"_type_": "B"})  # noqa: SLF001 - ctypes' own base of its types
    row: Any = type("row", (_ctypes.Array,), {"_type_": byte, "_length_": len(held)})
    address: int = _ctypes.addressof(row.from_buffer(held))
    return address


def of_sysfs(name: str, *, index: int, sysfs: str) -> dict[str, Any]:
    """What sysfs tells of an interface; one that is mounted in another network namespace tells nothing."""
    folder = f"{sysfs}/class/net/{name}"
    if not shows(folder, index):
        unread, unknown = missing(OTHER_SYSFS), missing(OTHER_SYSFS, "absent")
        return {"is_physical": unread, "carrier_changes": unread, "duplex": unknown, "mac": unread, "lanes": unknown}
    return {
        "is_physical": os.path.exists(f"{folder}/device"),
        "carrier_changes": carrier_changes(folder),
        "duplex": duplex(folder),
        "mac": mac(folder),
        "lanes": lanes(folder),
    }


def shows(folder: str, index: int) -> bool:
    """Whether sysfs speaks of this very interface."""
    try:
        return int(read_text(f"{folder}/ifindex")) == index
    except (OSError, ValueError):
        return False


def carrier_changes(folder: str) -> int | dict[str, str]:
    """How often the link went up or down: a cable that is loose, a switch that was started again."""
    try:
        return int(read_text(f"{folder}/carrier_changes"))
    except (OSError, ValueError):
        return missing("the kernel does not count it", "absent")


def numbered(arguments: dict[str, Any]) -> Callable[[], list[tuple[int, str]]]:
    """What lists the interfaces, (index, name) each: the kernel, and for a tree its sysfs."""
    if not roots.root_of(arguments):
        return socket.if_nameindex
    folder = f"{arguments['sysfs']}/class/net"
    return lambda: [(int(read_text(f"{folder}/{name}/ifindex")), name) for name in entries(folder)]


def carriers(arguments: dict[str, Any]) -> dict[str, int]:
    """Interface -> how often its link went up or down, of those of which the kernel counts it."""
    named = numbered(arguments)()
    folders = {name: (index, f"{arguments['sysfs']}/class/net/{name}") for index, name in named}
    found = {name: carrier_changes(folder) for name, (index, folder) in folders.items() if shows(folder, index)}
    return {name: count for name, count in found.items() if isinstance(count, int)}


def duplex(folder: str) -> str | dict[str, str]:
    """Whether both ends of the link may send at once ("full") or must wait for each other ("half")."""
    try:
        text = read_text(f"{folder}/duplex").strip()
    except OSError:  # of what has no link, or is down
        text = "unknown"
    return text if text in ("full", "half") else missing("the driver does not report it", "absent")


def lanes(folder: str) -> list[int] | dict[str, str]:
    """[now, at most] of the PCIe link of the adapter behind an interface."""
    now, most = pci.lanes(os.path.realpath(f"{folder}/device")) if os.path.exists(f"{folder}/device") else (0, 0)
    if isinstance(now, int) and isinstance(most, int):
        return [now, most] if now and most else missing("no PCIe link is known", "absent")
    return now if not isinstance(now, int) else most if not isinstance(most, int) else missing("no PCIe link is known")


def mac(folder: str) -> str | dict[str, str]:
    """The hardware address; of what is no Ethernet (InfiniBand, tunnels) it has another length."""
    text = read_lines(f"{folder}/address")
    if isinstance(text, dict):
        return text
    return text if len(text) == MAC_LENGTH and text.strip("0:") else missing("the interface has none", "absent")


def gateways(names: dict[int, str]) -> list[dict[str, Any]]:
    """The default gateways, IPv4 first, the preferred of a family first."""
    try:
        found = {
            number: [(names[index], text) for index, text in netlink.default_gateways(number) if index in names]
            for number in netlink.FAMILIES
        }
    except OSError:
        found = gateways_by_netifaces()
        if not found:
            raise
    return [
        {"interface": name, "address": text, "family": netlink.FAMILIES[number]}
        for number, pairs in found.items()
        for name, text in pairs
    ]


def gateways_by_netifaces() -> dict[socket.AddressFamily, list[tuple[str, str]]]:
    """What netifaces lists for each family, where it is here and its answer cannot mislead; else nothing.

    It mixes the tables of policy routing and leaves multipath routes out: only one gateway a family, that it calls
    the default, is believed.
    """
    try:
        import netifaces
    except ImportError:
        return {}
    if not hasattr(netifaces, "gateways"):  # the empty folder that an uninstalled namesake leaves behind
        return {}
    found = netifaces.gateways()
    default = found.get("default", {})
    families = [family for family in netlink.FAMILIES if found.get(family)]
    if any(len(found[family]) > 1 or family not in default for family in families):
        return {}
    return {family: [(default[family][1], default[family][0].partition("%")[0])] for family in families}
