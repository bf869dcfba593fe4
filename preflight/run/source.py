"""What can be asked of a run, live or stored?"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from preflight.facts.cluster import Cluster
from preflight.results import Bench, Mesh, Training


class Source(Protocol):
    """Where facts and measurements come from: the live nodes, or a stored run."""

    @property
    def names(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def cluster(self) -> Cluster: ...  # noqa: D102
    @property
    def failures(self) -> dict[str, str]: ...  # noqa: D102
    @property
    def stage_seconds(self) -> dict[str, float]: ...  # noqa: D102
    def mesh(self) -> Mesh: ...  # noqa: D102
    def bench(self) -> Bench: ...  # noqa: D102
    def training(self) -> Training: ...  # noqa: D102
    def end(self) -> None: ...  # noqa: D102
    def planned(self) -> tuple[str, ...]: ...  # noqa: D102
    def leave_out(self, names: Collection[str]) -> None: ...  # noqa: D102
    def not_started(self) -> str: ...  # noqa: D102
