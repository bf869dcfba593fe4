"""How are the GPUs and RDMA devices of a node joined? The matrix of `nvidia-smi topo -m`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from preflight.facts.value import Text, Value
from preflight.said import joined, said


class TopologyRow(Value, frozen=True):
    """What lies between one device and each of the others: "NV18", "PIX", "SYS"."""

    device: Text
    relations: tuple[Text, ...]


NEAR = ("X", "PIX", "PXB", "PHB", "NODE", "SYS")


class Topology(NamedTuple):
    """The matrix of `nvidia-smi topo -m`: GPU0, ... and NIC0, ... in the order of its columns."""

    rows: tuple[TopologyRow, ...]
    adapters: dict[Text, Text]  # "NIC0" -> "mlx5_0"

    def nearest_adapters(self) -> Mapping[str, tuple[str, ...]]:
        """GPU -> the adapters nearest to it, by PCIe."""
        return _nearest(self.rows, tuple(self.adapters.items()))

    def shared_adapters(self) -> str:
        """GPUs that have to share an adapter though there is one for each, as a message says it."""
        near = self.nearest_adapters()
        if not near or len(self.adapters) < len(near) or any(len(names) != 1 for names in near.values()):
            return ""
        users: dict[str, list[str]] = {}
        for gpu, names in near.items():
            users.setdefault(names[0], []).append(gpu)
        return joined(
            [said("{name} is nearest to {of}", name, " and ".join(of)) for name, of in users.items() if len(of) > 1]
        )

    def are_joined_by_nvlink(self) -> bool:
        """Whether every pair of GPUs has NVLink between them."""
        gpus = [row.device for row in self.rows if row.device.startswith("GPU")]
        joined = ("NV", "X")
        return all(
            relation.startswith(joined)
            for row in self.rows
            if row.device.startswith("GPU")
            for relation in row.relations[: len(gpus)]
        )

    def between_gpus(self) -> str:
        """How NVLink joins the GPUs, each way once: "NV18"; "PCIe" for pairs that it does not join."""
        gpus = [row for row in self.rows if row.device.startswith("GPU")]
        ways = {way for row in gpus for way in row.relations[: len(gpus)] if way != "X"}
        return ", ".join(sorted({way if way.startswith("NV") else "PCIe" for way in ways}))

    def summary(self, *, is_named: bool = True) -> str:
        """The topology as a message says it, the same for nodes of the same build; ``is_named`` tells the adapters."""
        near = self.nearest_adapters()
        between = sorted({relation for row in self.rows for relation in row.relations if relation != "X"})
        of_gpus = joined(
            [
                f"{gpu} {('/'.join(names) if is_named else said('{names} adapters', len(names)))}"
                for gpu, names in near.items()
            ]
        )
        return of_gpus or said("GPUs joined by {between}", ", ".join(between))


@lru_cache(maxsize=256)  # nodes of a build have one topology between them, and several checks ask
def _nearest(rows: tuple[TopologyRow, ...], adapters: tuple[tuple[str, str], ...]) -> Mapping[str, tuple[str, ...]]:
    names = dict(adapters)
    columns = {
        names.get(row.device, row.device): place for place, row in enumerate(rows) if not row.device.startswith("GPU")
    }
    found: dict[str, tuple[str, ...]] = {}
    for row in rows:
        if not row.device.startswith("GPU"):
            continue
        relations = {name: row.relations[place] for name, place in columns.items() if place < len(row.relations)}
        distances = {name: NEAR.index(relation) for name, relation in relations.items() if relation in NEAR}
        if distances:
            nearest = min(distances.values())
            found[row.device] = tuple(name for name, far in distances.items() if far == nearest)
    return MappingProxyType(found)
