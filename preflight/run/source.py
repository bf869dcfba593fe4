"""What does a run offer to checks and to the report, live or stored?"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from preflight.facts.cluster import Cluster
from preflight.facts.documents import Documents
from preflight.facts.results import Bench, Mesh, Rehearsal, Training
from preflight.report.document import NodeInfo, Proof


@dataclass(frozen=True)
class Measurements:
    """What the jobs of a run measured; None for a job that did not run."""

    mesh: Mesh | None = None
    bench: Bench | None = None
    training: Training | None = None
    rehearsal: Rehearsal | None = None


class Source(Protocol):
    """Where checks get facts and measurements from; a job starts when its result is first wanted."""

    @property
    def names(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def cluster(self) -> Cluster: ...  # noqa: D102
    @property
    def failures(self) -> Mapping[str, str]: ...  # noqa: D102
    @property
    def transports(self) -> Mapping[str, str]: ...  # noqa: D102

    @property
    def racks(self) -> Mapping[str, str]: ...  # noqa: D102 - of the nodes whose rack or switch is known
    @property
    def logins(self) -> Mapping[str, str]: ...  # noqa: D102 - a node's name -> as HOSTS has it, with user and port

    @property
    def proof(self) -> Proof | None: ...  # noqa: D102 - the earlier run whose bench and training hold

    def mesh(self) -> Mesh: ...  # noqa: D102
    def bench(self) -> Bench: ...  # noqa: D102
    def training(self) -> Training: ...  # noqa: D102
    def rehearsal(self) -> Rehearsal: ...  # noqa: D102
    def end(self) -> None: ...  # noqa: D102
    def planned(self) -> tuple[str, ...]: ...  # noqa: D102
    def leave_out(self, names: Collection[str]) -> None: ...  # noqa: D102


class ReportedSource(Source, Protocol):
    """A source with what the report says of it; `open` comes first and `close` last. `started` is ISO 8601 in UTC."""

    @property
    def started(self) -> str: ...  # noqa: D102
    @property
    def seconds(self) -> float: ...  # noqa: D102
    @property
    def stage_seconds(self) -> Mapping[str, float]: ...  # noqa: D102
    @property
    def notes(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def logs(self) -> Mapping[str, str]: ...  # noqa: D102
    @property
    def documents(self) -> Documents: ...  # noqa: D102

    def open(self) -> None: ...  # noqa: D102
    def recall(self, checks: tuple[str, ...]) -> None: ...  # noqa: D102
    def certify(self, checks: tuple[str, ...]) -> None: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102
    def measured(self) -> Measurements: ...  # noqa: D102
    def node_infos(self) -> dict[str, NodeInfo]: ...  # noqa: D102
    def not_started(self) -> str: ...  # noqa: D102
