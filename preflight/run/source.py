"""What can be asked of a run, live or stored?"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from preflight.facts.cluster import Cluster
from preflight.results import Bench, Mesh, Training


class Source(Protocol):
    """Where facts and measurements come from: the live nodes, or a stored run."""

    names: tuple[str, ...]
    cluster: Cluster
    failures: dict[str, str]
    stage_seconds: dict[str, float]

    def mesh(self) -> Mesh: ...  # noqa: D102
    def bench(self) -> Bench: ...  # noqa: D102
    def training(self) -> Training: ...  # noqa: D102
    def end(self) -> None: ...  # noqa: D102
    def planned(self) -> tuple[str, ...]: ...  # noqa: D102
    def leave_out(self, names: Collection[str]) -> None: ...  # noqa: D102
    def not_started(self) -> str: ...  # noqa: D102
