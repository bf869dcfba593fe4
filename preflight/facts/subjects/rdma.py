"""Which RDMA devices has a node, with which ports and GIDs?"""

from __future__ import annotations

from typing import NamedTuple

from preflight.facts.pci import PciFunction
from preflight.facts.value import NOT_REPORTED, Count, Device, Missing, Text, Value, present
from preflight.said import said
from preflight.said.errors import FactMissing


class Gid(Value, frozen=True):
    """One row of a port's GID table."""

    index: Count
    gid: Text
    kind: Text | Missing  # "IB/RoCE v1" or "RoCE v2"
    netdev: Text | Missing
    vlan: Count | Missing = NOT_REPORTED  # of its netdev; absent where it is none


class RdmaPort(Value, frozen=True, kw_only=True):
    """A port of an RDMA device as sysfs reports it."""

    number: Count
    state: Text  # "ACTIVE", "DOWN", "INIT", "ARMED"
    physical_state: Text | Missing  # "LinkUp", "Polling", "Disabled"
    rate_gbps: float | Missing
    link_layer: Text  # "InfiniBand" or "Ethernet"
    gids: tuple[Gid, ...]
    lid: Text | Missing
    sm_lid: Text | Missing
    counters: dict[Text, Count]
    width: Count | Missing = NOT_REPORTED  # lanes
    active_mtu: Count | Missing = NOT_REPORTED  # InfiniBand's own: 256 to 4096
    label: Text | Missing = NOT_REPORTED  # of the socket on its card, as the driver calls it: "p1"
    pkeys: tuple[Text, ...] | Missing = NOT_REPORTED  # partition keys in the order of the table

    unread: tuple[Text, ...] = ()  # files that the kernel has of such a port, and that could not be read
    pfc_priorities: Text | Missing = NOT_REPORTED  # of an Ethernet port: the lossless ones, "3", or "none"
    ecn_priorities: Text | Missing = NOT_REPORTED  # whose congestion is marked and heeded
    trust: Text | Missing = NOT_REPORTED  # which marking counts: "dscp" or "pcp"
    traffic_class: Text | Missing = NOT_REPORTED  # that every connection gets

    def needs_gids(self) -> None:
        """Raise FactMissing where a part of the GID table could not be read: what NCCL would take is not known."""
        lost = [name for name in self.unread if name.startswith("gid")]
        if lost:
            raise FactMissing(
                said("GIDs of port {number}", self.number), said("{lost} cannot be read", ", ".join(lost[:3]))
            )

    def state_text(self) -> str:
        """The state as a message says it: "DOWN (Polling)"."""
        return self.state if isinstance(self.physical_state, Missing) else f"{self.state} ({self.physical_state})"

    def rate_text(self) -> str:
        """Rate and kind of the link as a message says them: "400 Gbit/s InfiniBand"."""
        return f"{present(self.rate_gbps, 'rate'):g} Gbit/s {self.link_layer}"


class PciRequests(NamedTuple):
    """How a device on PCIe asks for memory, and may be answered."""

    read_request_bytes: Count  # at once, at most: lspci's MaxReadReq
    is_relaxed: bool  # answers may overtake each other
    has_ats: bool  # it translates addresses by itself

    def text(self) -> str:
        """As a message says it."""
        on = ("off", "on")
        return said(
            "MaxReadReq {read_request_bytes}, relaxed ordering {on}, ATS {on2}",
            self.read_request_bytes,
            on[self.is_relaxed],
            on[self.has_ats],
        )


class RdmaDevice(Value, frozen=True, kw_only=True):
    """An RDMA device (HCA)."""

    name: Device
    firmware: Text | Missing
    board: Text | Missing
    node_type: Text | Missing
    ports: tuple[RdmaPort, ...]
    model: Text | Missing = NOT_REPORTED  # hca_type: "MT4129"
    card: Text | Missing = NOT_REPORTED  # sys_image_guid: the functions of one card have the same
    open_error: Text | Missing = NOT_REPORTED  # why /dev/infiniband/uverbs* cannot be opened, "" where it can
    pci: PciFunction | Missing = NOT_REPORTED
    requests: PciRequests | Missing = NOT_REPORTED


class Rdma(Value, frozen=True, kw_only=True):
    """Every RDMA device of the node."""

    devices: tuple[RdmaDevice, ...]
    without_driver: tuple[Text, ...] | Missing = NOT_REPORTED  # PCI addresses of InfiniBand adapters that are no device

    def rate_gbps(self) -> float:
        """The rate of the fastest active port that reports one."""
        rates = [port.rate_gbps for port in self.active_ports() if isinstance(port.rate_gbps, float)]
        if not rates:
            raise FactMissing("rate of RDMA", "no active port reports one", "absent")
        return max(rates)

    def active_ports(self) -> tuple[RdmaPort, ...]:
        """The ports that are up, of all devices."""
        return tuple(port for device in self.devices for port in device.ports if port.state == "ACTIVE")
