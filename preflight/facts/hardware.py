"""What does a node tell of its GPUs and its RDMA devices?"""

from __future__ import annotations

from preflight.errors import BlockedBy, FactMissing
from preflight.facts.missing import Count, Missing, Text, Value, present


class Gpu(Value, frozen=True):
    """One GPU as nvidia-smi tells it."""

    index: Count
    name: Text
    uuid: Text
    memory_mib: Count | Missing
    bus_id: Text
    compute_mode: Text | Missing
    mig_mode: Text | Missing
    processes: Count | Missing

    def is_busy(self) -> bool:
        """Whether a program holds memory of it; a GPU that does not tell is taken for free."""
        return not isinstance(self.processes, Missing) and self.processes > 0

    def told(self) -> str:
        """The model as a message says it."""
        memory = "" if isinstance(self.memory_mib, Missing) else f" {self.memory_mib} MiB"
        return f"{self.name}{memory}" + (" in MIG mode" if self.mig_mode == "Enabled" else "")


class Gpus(Value, frozen=True):
    """The GPUs of a node and the driver that runs them; an empty tuple means that there is none."""

    devices: tuple[Gpu, ...] | Missing
    driver: Text | Missing
    cuda_driver: Text | Missing

    def trouble(self) -> str:
        """Why the GPUs of this node cannot be told, "" where they can, none being an answer."""
        return self.devices.missing if isinstance(self.devices, Missing) else ""

    def readable(self) -> tuple[Gpu, ...]:
        """The GPUs, blocked where the driver does not tell them."""
        if isinstance(self.devices, Missing):
            raise BlockedBy("gpu.devices_are_readable", detail=self.devices.missing)
        return self.devices

    def models(self) -> str:
        """Each model once, with its memory and whether it is partitioned: "NVIDIA H200 143771 MiB"."""
        if not self.readable():
            raise FactMissing("GPU model", "no GPU", "absent")
        return ", ".join(sorted({gpu.told() for gpu in self.readable()}))

    def driver_version(self) -> str:
        """The version of the driver; a node without GPUs needs none."""
        if not self.readable():
            raise FactMissing("driver", "no GPU", "absent")
        return present(self.driver, "driver")


class Gid(Value, frozen=True):
    """One row of a port's GID table."""

    index: Count
    gid: Text
    kind: Text | Missing  # "IB/RoCE v1" or "RoCE v2"
    netdev: Text | Missing


class RdmaPort(Value, frozen=True):
    """A port of an RDMA device as sysfs tells it."""

    number: Count
    state: Text  # "ACTIVE", "DOWN", "INIT", "ARMED"
    physical_state: Text | Missing  # "LinkUp", "Polling", "Disabled"
    rate_gbps: float | Missing
    link_layer: Text  # "InfiniBand" or "Ethernet"
    gids: tuple[Gid, ...]
    lid: Text | Missing
    sm_lid: Text | Missing
    counters: dict[Text, Count]

    def state_told(self) -> str:
        """The state as a message says it: "DOWN (Polling)"."""
        return self.state if isinstance(self.physical_state, Missing) else f"{self.state} ({self.physical_state})"

    def rate_told(self) -> str:
        """Rate and kind of the link as a message says them: "400 Gbit/s InfiniBand"."""
        return f"{present(self.rate_gbps, 'rate'):g} Gbit/s {self.link_layer}"


class RdmaDevice(Value, frozen=True):
    """An RDMA device (HCA)."""

    name: Text
    firmware: Text | Missing
    board: Text | Missing
    node_type: Text | Missing
    ports: tuple[RdmaPort, ...]


class Rdma(Value, frozen=True):
    """Every RDMA device of the node."""

    devices: tuple[RdmaDevice, ...]

    def active_ports(self) -> tuple[RdmaPort, ...]:
        """The ports that are up, of all devices."""
        return tuple(port for device in self.devices for port in device.ports if port.state == "ACTIVE")
