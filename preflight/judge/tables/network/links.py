"""Are the links of the job steady, whole and as wide as they could be, those of a bond's members included?

Sources: the kernel's documentation of bonding and of /sys/class/net, and field cases.
"""

from __future__ import annotations

from preflight.facts.node import NodeFacts
from preflight.facts.subjects.kernel import ONE_AT_A_TIME
from preflight.facts.value import Missing
from preflight.judge.tables.faults import Fault
from preflight.judge.tables.network import interfaces, nccl_interfaces
from preflight.said import joined, said
from preflight.said.errors import FactMissing, NotApplicable

# Disciplines of tc that hold packets back; those of the kernel's choice, or of an adapter's classes, do not.
SHAPING = ("tbf", "netem", "htb", "hfsc", "cbq", "cake", "plug")
OFTEN = 50  # a switch that restarts, or an interface that is configured again, takes a link down a few times


def _bonds(node: NodeFacts) -> str:
    node.kernel.needs_bonds()
    down = [
        said("{member} of {bond}", member, bond)
        for bond, members in node.kernel.bonds.items()
        for member, is_up in members.items()
        if not is_up and any(members.values())
    ]
    return said("{down} is down: the bond has that much less bandwidth", ", ".join(down)) if down else ""


NO_PARTNER = "00:00:00:00:00:00"  # of a bond whose LACP packets nobody has answered


def _uneven_bonds(node: NodeFacts) -> str:
    """Bonds whose members should carry traffic together, and cannot."""
    node.kernel.needs_bonds()
    found = []
    for bond, mode in node.kernel.bond_modes.items():
        up = node.kernel.bonds.get(bond, {})
        members = [one for one in node.kernel.bond_members if one.bond == bond and up.get(one.name)]
        if mode.startswith(ONE_AT_A_TIME):
            continue
        if node.kernel.bond_partners.get(bond) == NO_PARTNER and sum(up.values()) > 1:
            found.append(said("no switch speaks LACP with {bond}: one of its members carries all", bond))
            continue
        groups = {one.name: one.aggregator for one in members if not isinstance(one.aggregator, Missing)}
        speeds = {one.name: one.speed_mbps for one in members if not isinstance(one.speed_mbps, Missing)}
        if len(set(speeds.values())) > 1:
            found.append(
                joined(
                    [
                        said("{name} of {bond} links at {speed} Mbit/s", name, bond, speed)
                        for name, speed in speeds.items()
                    ],
                    ", ",
                )
            )
        elif len(set(groups.values())) > 1:
            found.append(
                said(
                    "{groups} of {bond} are in different LACP aggregators: one of them carries all",
                    " and ".join(groups),
                    bond,
                )
            )
    return joined(found)


def _links_of_job(node: NodeFacts) -> tuple[str, ...]:
    """The interfaces that the job's packets leave by: the training interface, RoCE ports, and the members of bonds.

    BlockedBy where there is none, for a training interface that is not there is another check's to tell.
    """
    names = [*interfaces.of_the_job(node)]
    if node.rdma.devices and not node.without_rdma():
        rows = [row for port in node.rdma.active_ports() for row in port.gids]
        names += [row.netdev for row in rows if isinstance(row.netdev, str)]
    there = {one.name for one in node.network.interfaces}
    names += [member for bond in names for member in node.kernel.bonds.get(bond, {})]
    found = tuple(name for name in dict.fromkeys(names) if name in there)
    return found or (node.network.training_interface.name,)


def _unsteady(node: NodeFacts) -> str:
    """Links that went down again and again since the machine, or the bond, was started."""
    counts: dict[str, int] = {
        one.name: one.failures for one in node.kernel.bond_members if not isinstance(one.failures, Missing)
    }
    untold = []
    for name in _links_of_job(node):
        changes = node.network.interface(name).carrier_changes
        if not isinstance(changes, Missing):
            counts[name] = max(counts.get(name, 0), changes // 2)
        elif name not in counts:
            untold.append(name)
    if not counts:
        raise FactMissing("link losses since the start", "the kernel counts none", "absent")
    if untold:
        raise FactMissing("link losses since the start", said("those of {untold} cannot be read", ", ".join(untold)))
    found = [
        said("{name} lost its link {count} times since it was created", name, count)
        for name, count in counts.items()
        if count >= OFTEN
    ]
    return joined(found)


def _half_duplex(node: NodeFacts) -> str:
    """Links over which only one end sends at a time: what is sent meanwhile collides, and is sent again."""
    links = {name: node.network.interface(name).duplex for name in _links_of_job(node)}
    if all(isinstance(duplex, Missing) for duplex in links.values()):
        raise NotApplicable("no driver tells the duplex of the links")
    half = [name for name, duplex in links.items() if duplex == "half"]
    return (
        said("{half} at half duplex: what both ends send at once is lost, and sent again", ", ".join(half))
        if half
        else ""
    )


def shaping(node: NodeFacts) -> str:
    """What holds packets back at the interfaces that the job's packets leave by."""
    queues = (node.network.interface(name).queue for name in _links_of_job(node))
    told = {queue for queue in queues if not isinstance(queue, Missing)}
    if not told:
        raise FactMissing("traffic shaping", "the kernel reports no queue of the interfaces", "absent")
    return ", ".join(sorted(told.intersection(SHAPING))) or "none"


def narrow_links(node: NodeFacts) -> str:
    """Which adapters behind the job's interfaces have fewer PCIe lanes than they and their slots could have."""
    found = {name: node.network.interface(name).lanes for name in _links_of_job(node)}
    known = {name: lanes for name, lanes in found.items() if not isinstance(lanes, Missing)}
    for name, lanes in found.items():
        if isinstance(lanes, Missing) and lanes.kind != "absent":  # it is an adapter, and may be the narrow one
            raise FactMissing(said("PCIe lanes of {name}", name), lanes.missing, lanes.kind)
    if not known:
        raise FactMissing("PCIe lanes of the interfaces", "no adapter reports them", "absent")
    few = [said("{name} x{now} of x{most}", name, now, most) for name, (now, most) in known.items() if now < most]
    return ", ".join(few) or "all lanes"


def bonds_of_job(node: NodeFacts) -> str:
    """Mode, hash policy and number of members of the bonds behind the training interface and the RDMA ports."""
    node.kernel.needs_bonds()
    used = set(interfaces.of_the_job(node))
    used |= {row.netdev for device in node.rdma.devices for port in device.ports for row in port.gids
             if isinstance(row.netdev, str)}  # fmt: skip
    found = {
        bond: " ".join(filter(None, (bond, node.kernel.bond_modes.get(bond), node.kernel.bond_policies.get(bond))))
        + said(" of {members}", len(members))
        for bond, members in sorted(node.kernel.bonds.items())
        if bond in used
    }
    if not found:
        raise FactMissing("bonds", "the job uses none", "absent")
    return ", ".join(found.values())


def _errors_since(node: NodeFacts) -> str:
    """Of the interfaces that the job uses: what others count is not its matter."""
    for unread in (node.kernel.link_errors_unread, node.ending.link_errors_unread):
        if unread.kind != "absent":
            raise FactMissing("rx/tx errors", unread.missing, unread.kind)
    before, after = node.kernel.link_errors, node.ending.link_errors
    used = dict.fromkeys((node.network.training_interface.name, *(one.name for one in nccl_interfaces.of_nccl(node))))
    grown = {name: after[name] - before[name] for name in used if name in before and name in after}
    if not grown:
        raise FactMissing("rx/tx errors", "the kernel counts none", "absent")
    return joined(
        [said("{name} counted {count} rx/tx errors", name, count) for name, count in grown.items() if count > 0]
    )


def _lost_since(node: NodeFacts) -> str:
    """The links that went down, those of bonds' members and of RoCE ports among them."""
    after = node.ending.carrier_changes
    before = {name: node.network.interface(name).carrier_changes for name in _links_of_job(node) if name in after}
    known = {name: after[name] - count for name, count in before.items() if isinstance(count, int)}
    if not known:
        raise FactMissing("link losses", "the kernel counts none", "absent")
    return joined(
        [
            said("{name} lost its link {times}", name, _times((more + 1) // 2))
            for name, more in known.items()
            if more > 0
        ]
    )


def _times(count: int) -> str:
    return "once" if count == 1 else said("{count} times", count)


FRAGILE: tuple[Fault[NodeFacts], ...] = (
    Fault(
        "duplex of the links",
        _half_duplex,
        "let both ends of the link negotiate (`ethtool -s <interface> autoneg on`, and the switch port alike)",
        "IEEE 802.3, kernel Documentation/ABI/testing/sysfs-class-net, duplex",
    ),
    Fault(
        "bond members",
        _bonds,
        "`cat /proc/net/bonding/<bond>` on the nodes named; replace the cable or correct the switch port",
        "kernel bonding documentation, MII monitoring",
    ),
    Fault(
        "members of bonds",
        _uneven_bonds,
        "`cat /proc/net/bonding/<bond>` on the nodes named; put both switch ports into one port channel, at one speed",
        "kernel bonding documentation, 802.3ad",
    ),
    Fault(
        "link losses since the start",
        _unsteady,
        "`dmesg -T | grep -i link` and `ethtool <interface>` on the nodes named; reseat or replace the cable",
        "kernel, Documentation/ABI/testing/sysfs-class-net, carrier_changes; bonding, Link Failure Count",
    ),
)
OF_RUN = (
    Fault("errors of interfaces", _errors_since, "", "kernel, Documentation/networking/statistics.rst"),
    Fault("link losses", _lost_since, "", "kernel, Documentation/ABI/testing/sysfs-class-net, carrier_changes"),
)
