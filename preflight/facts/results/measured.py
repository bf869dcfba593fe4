"""What do all sections of report.json that hold measurements have in common?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from typing_extensions import Self

UUID_LETTERS = 12  # GPU- or MIG- and eight more


class Measured(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of every section: frozen, and strict when a stored run is read again."""


class OnDevice(Measured, frozen=True, kw_only=True):
    """What one rank says, and on which device."""

    rank: int
    node: str
    device: str  # as CUDA counts those it sees: "cuda:0"; "cpu"
    board: str = ""  # its PCI address, "0000:9d:00.0"; "" where nothing tells it
    uuid: str = ""  # "GPU-5ad1f0c2-...", of a slice "MIG-..."

    @classmethod
    def told(cls, record: Mapping[str, Any], *, node: str) -> Self:
        """What a rank of that node sent, without what only others read; a list is a tuple here."""
        names = [name for name in cls.__struct_fields__ if name in record]
        known: dict[str, Any] = {
            name: tuple(record[name]) if isinstance(record[name], list) else record[name] for name in names
        }
        return cls(**known, node=node)

    @property
    def named(self) -> str:
        """As a person finds it: CUDA's number depends on what a job may see, and on CUDA_DEVICE_ORDER."""
        return named(self.device, board=self.board, uuid=self.uuid)


def named(device: str, *, board: str, uuid: str) -> str:
    """The beginning of a GPU's UUID, which CUDA_VISIBLE_DEVICES takes, its PCI address, and CUDA's number behind."""
    known = " ".join(filter(None, (uuid[:UUID_LETTERS], board)))
    return f"{known} ({device})" if known else device
