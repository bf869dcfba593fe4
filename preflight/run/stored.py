"""What did a finished run store, so that it can be judged again without contacting a node?"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TypeVar

from preflight.facts import decode, view
from preflight.facts.cluster import Cluster
from preflight.facts.documents import Documents
from preflight.facts.results import Bench, Mesh, Rehearsal, Training
from preflight.reach.hosts import fold
from preflight.report.compare import Snapshot
from preflight.report.document import NodeInfo, Proof, RunReport, racks
from preflight.report.facts import lasting, row_values
from preflight.report.json import read_json
from preflight.report.language import ENGLISH, Language
from preflight.report.material import Material
from preflight.run.source import Measurements
from preflight.said import said
from preflight.said.errors import NotMeasured, UsageError

T = TypeVar("T")
J = TypeVar("J", Bench, Training)
JOBS = ("mesh", "bench", "training", "rehearsal")
LOG_LIMIT_BYTES = 1 << 20


@dataclass
class StoredRun:
    """A run read from its folder: the same questions, the stored answers."""

    names: tuple[str, ...]
    cluster: Cluster
    failures: dict[str, str]
    report: RunReport
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    stage_seconds: dict[str, float] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)  # they stay in the folder of the run itself, like the facts
    documents: Documents = field(default_factory=Documents)
    transports: dict[str, str] = field(default_factory=dict)  # nobody is reached again
    logins: dict[str, str] = field(default_factory=dict)

    @property
    def started(self) -> str:
        """When the run itself started."""
        return self.report.run.started

    def open(self) -> None:
        """No node is contacted."""

    def refuse_more_than_asked(self, profile: str, need: int | None) -> None:
        """Raise UsageError for what the run itself was not asked to measure, or has no nodes for."""
        if profile == "full" and self.report.profile != "full":
            raise UsageError(
                said("--profile full with --from: the stored run was of profile {profile}", self.report.profile)
            )
        if need is not None and need > len(self.names):
            raise UsageError(
                said(
                    "--need {need}: wanted a number from 1 to {names}, the nodes of the stored run",
                    need,
                    len(self.names),
                )
            )

    def recall(self, checks: tuple[str, ...]) -> None:
        """Nothing: a stored run takes over nothing."""

    def certify(self, checks: tuple[str, ...]) -> None:
        """What was measured is certified by the run itself."""

    @property
    def proof(self) -> Proof | None:
        """What the run itself took from an earlier one."""
        return next((info.proof for info in self.report.nodes.values() if info.proof is not None), None)

    @property
    def racks(self) -> dict[str, str]:
        """The racks of the nodes, as the run itself knew them."""
        return racks(self.report)

    def close(self) -> None:
        """Nothing was opened."""

    def measured(self) -> Measurements:
        """What the jobs measured then."""
        return Measurements(self.report.mesh, self.report.bench, self.report.training, self.report.rehearsal)

    def node_infos(self) -> dict[str, NodeInfo]:
        """The nodes as they answered then."""
        return dict(self.report.nodes)

    def mesh(self) -> Mesh:
        """The stored mesh."""
        return _present(self.report.mesh, "mesh")

    def bench(self) -> Bench:
        """The stored benchmark."""
        return self._of_its_backend(_present(self.report.bench, "bench"), "bench")

    def training(self) -> Training:
        """The stored training."""
        return self._of_its_backend(_present(self.report.training, "training"), "training")

    def rehearsal(self) -> Rehearsal:
        """The stored rehearsal."""
        return _present(self.report.rehearsal, "rehearsal")

    def _of_its_backend(self, result: J, name: str) -> J:
        """A job's result; what ran over another backend says nothing of the one that is asked for."""
        backends = {node.backend for node in self.cluster} - {result.backend}
        if backends:
            raise NotMeasured(
                said(
                    "the stored {name} ran over {backend}, not over {backends}",
                    name,
                    result.backend,
                    ", ".join(sorted(backends)),
                )
            )
        return result

    def end(self) -> None:
        """The second look is stored with the facts."""

    def why_not_asked(self, check: str, kind: str) -> str:
        """What kept the run itself from asking for the job that this check reads; "" where it asked."""
        if kind not in JOBS or getattr(self.report, kind) is not None:
            return ""
        reason = next((reason for reason, checks in self.report.not_asked.items() if check in checks), "")
        if not reason and self.report.profile == "quick" and kind != "mesh":
            reason = "profile quick"
        return said("{reason} of the stored run", reason) if reason else ""

    def leave_out(self, names: Collection[str]) -> None:
        """The stored jobs ran on whatever nodes they ran on."""

    def not_started(self) -> str:
        """Nothing is started from a stored run."""
        return "judged from a stored run"

    def planned(self) -> tuple[str, ...]:
        """The node of every rank, as the stored training says."""
        ranks = self.report.training.ranks if self.report.training is not None else ()
        return tuple(rank.node for rank in sorted(ranks, key=lambda rank: rank.rank))


def snapshot(folder: Path) -> Snapshot:
    """A finished run as others are compared with it; `folder` may be report.json alone, then without facts."""
    if not folder.is_dir():
        return Snapshot(read_json(folder))
    run = load(folder, "auto")
    return Snapshot(run.report, {node.name: lasting(node) for node in run.cluster})


def load(folder: Path, backend: str) -> StoredRun:
    """The run stored in `folder`, its backend where `backend` is auto.

    Raises UsageError naming the file that is missing, malformed, or not of this run.
    """
    report = read_json(folder / "report.json")
    jobs = [job for job in (report.bench, report.training) if job is not None]
    for job in (report.mesh, *jobs):
        strange = set(job.node_names if job is not None else ()) - report.nodes.keys()
        if strange:
            raise UsageError(
                said(
                    "{folder}: it measured on {strange}, which it does not have",
                    folder / "report.json",
                    fold(sorted(strange)),
                )
            )
    chosen = jobs[0].backend if jobs and backend == "auto" else backend
    with _without_collections():
        cluster = view.view(_documents(folder / "facts", report), chosen, are_stored=True)
    reached = {node.name for node in cluster}
    failures = {name: _why_without_facts(report, name) for name in report.nodes if name not in reached}
    age = age_text(report.run.started, datetime.now(timezone.utc))
    return StoredRun(tuple(report.nodes), cluster, failures, report, (said("judged from {folder}{age}", folder, age),))


def _why_without_facts(report: RunReport, name: str) -> str:
    if not report.finished:
        return "the stored run did not finish"
    return "its facts are not in the stored run" if report.nodes[name].reached else "not reached in the stored run"


def age_text(started: str, now: datetime) -> str:
    """How old a stored run is, where that is a day or more: what it found may have changed since."""
    try:
        days = (now - datetime.fromisoformat(started)).days
    except (ValueError, TypeError):
        return ", of an unknown day"
    return said(", {days} day{s} old", days, "s" * (days != 1)) if days >= 1 else ""


def _documents(folder: Path, report: RunReport) -> Iterator[decode.Document]:
    """One after the other: what a document took is free again before the next is read.

    Facts are written at the end of a run: in the folder of an unfinished one, and for a node that was not reached,
    they are what an earlier run left there.
    """
    places = {name: index for index, name in enumerate(report.nodes)}
    files: dict[str, Path] = {}
    for path in sorted(folder.glob("*.json")) if report.finished else ():
        document = decode.read(path)
        name = document.node
        if name not in places:
            raise UsageError(said("{path}: node {name!r} is not in report.json", path, name))
        if name in files:
            raise UsageError(said("{path}: node {name!r} has its facts in {name2} too", path, name, files[name].name))
        if document.index != places[name]:
            found, wanted = document.index + 1, places[name] + 1
            raise UsageError(
                said(
                    "{path}: node {name!r} is the host of number {found} there, of number {wanted} in report.json",
                    path,
                    name,
                    found,
                    wanted,
                )
            )
        files[name] = path
        if report.nodes[document.node].reached:
            yield document


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Facts of 1,000 nodes live to the end: looking through them for garbage again and again costs seconds."""
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


def material(folder: Path, report: RunReport, language: Language = ENGLISH) -> Material:
    """What report.html draws from, as far as the folder holds it; `folder` may be report.json alone."""
    if not folder.is_dir():
        return Material(report, language=language)
    shown_facts = {node.name: row_values(node) for node in load(folder, "auto").cluster}
    logs = {path.name: _end_of(path) for path in sorted((folder / "logs").glob("*.log"))}
    return Material(report, shown_facts, logs, language)


def _end_of(path: Path) -> str:
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - LOG_LIMIT_BYTES))
        return stream.read(LOG_LIMIT_BYTES).decode("utf-8", "replace")


def _present(section: T | None, name: str) -> T:
    if section is None:
        raise NotMeasured(said("the stored run has no {name}", name))
    return section
