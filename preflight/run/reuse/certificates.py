"""Which measurements of an earlier run still hold, because nothing has changed since on any of its nodes?

A good run with --reuse leaves a certificate in the user's state folder: what bandwidth and training
measured, for which nodes, and a fingerprint of the facts of each. Facts and connections are read again in every run.
"""

from __future__ import annotations

import dataclasses
import hmac
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from preflight import __version__
from preflight.facts import decode
from preflight.facts.decode import Document
from preflight.facts.results import Bench, Training
from preflight.job.options.options import Options
from preflight.reach.hosts import fold
from preflight.report.document import Proof
from preflight.run.reuse.fingerprint import fields, fingerprint, leaves
from preflight.said import joined, said
from preflight.said.errors import UsageError

CLOCK_SECONDS = 1.0  # what a node's clock may have moved against ours, beside what the round trip leaves open
CHANGES_SHOWN = 3
VALUE_LETTERS = 40
# Options about where a report goes or how it is judged, not what is measured; and options derived from others.
BESIDE = frozenset(
    (
        "command",
        "run_id",
        "verbosity",
        "report_dir",
        "record",
        "json",
        "deadline",
        "dry_run",
        "from_run",
        "reuse",
        "last_failed",
        "only",
        "notify",
        "fail_on_warn",
        "require_all",
        "found_settings",
        "found_python",
        "launch",
        "files",
        "starting",
    )
)


class Seal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One node as it was: the digests of its facts, and its clock against ours."""

    facts: dict[str, str]
    clock_offset_seconds: float
    clock_uncertainty_seconds: float


class Certificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a run measured on these nodes in this order, and how they were; `at` is in UTC, `folder` its report."""

    version: str
    run: str
    at: datetime
    folder: str
    checks: tuple[str, ...]  # those that were judged by the measurements
    nodes: dict[str, Seal]
    paths: dict[str, float]  # what a burst over each path carried
    bench: Bench | None
    training: Training | None

    def proof(self) -> Proof:
        """What a report says of the run that measured this."""
        jobs = {"bench": self.bench, "training": self.training}
        measured = tuple(name for name, result in jobs.items() if result is not None)
        return Proof(run=self.run, at=self.at.isoformat(timespec="seconds"), jobs=measured)


@dataclass(frozen=True)
class Asked:
    """The options of a run that decide what is measured."""

    options: Options
    checks: tuple[str, ...]  # those that bandwidth and training are for

    def digest(self, key: bytes) -> str:
        """Of the hosts and every option that counts; with a key, for variables may hold secrets."""
        opts = self.options
        values = {
            field.name: getattr(opts, field.name) for field in dataclasses.fields(opts) if field.name not in BESIDE
        }
        values["files"] = sorted(opts.files.texts.items())
        text = repr(sorted(values.items()))
        return hmac.new(key, text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()


def made(
    options: Options,
    documents: Mapping[str, Document],
    checks: tuple[str, ...],
    *,
    bench: Bench | None,
    training: Training | None,
    paths: dict[str, float],
    at: datetime,
) -> Certificate:
    """The certificate of a run that ended well."""
    return Certificate(
        version=__version__,
        run=options.run_id,
        at=at,
        folder=str(options.folder.absolute()),
        checks=checks,
        nodes={name: _sealed(document) for name, document in documents.items()},
        paths=paths,
        bench=bench,
        training=training,
    )


def why_not(
    certificate: Certificate, documents: Mapping[str, Document], asked: Asked, *, now: datetime, reuse: timedelta
) -> str:
    """Why the certificate no longer holds for these nodes; "" where it does."""
    if certificate.version != __version__:
        return said(
            "run {run} was measured by preflight {version}, this is {version2}",
            certificate.run,
            certificate.version,
            __version__,
        )
    age = now - certificate.at
    if not timedelta() <= age <= reuse:
        when = "in the future" if age < timedelta() else said("{age_text} ago", _age_text(age))
        return said("run {run} was {when}", certificate.run, when)
    if tuple(certificate.nodes) != tuple(host.name for host in asked.options.hosts):
        return said("run {run} covered other hosts", certificate.run)
    if not set(asked.checks) <= set(certificate.checks):
        more = sorted(set(asked.checks) - set(certificate.checks))
        return said("run {run} was not asked for {more}", certificate.run, more[0]) + (
            said(" and {more} more", len(more) - 1) if more[1:] else ""
        )
    absent = [name for name in certificate.nodes if name not in documents]
    if absent:
        return said("{absent} did not answer", fold(absent))
    changed = {
        name: words
        for name, document in documents.items()
        if (words := _changes(certificate.nodes[name], document, Path(certificate.folder)))
    }
    return (
        joined([said("{nodes}: {words}", fold(nodes), words) for words, nodes in _folded(changed).items()])
        if changed
        else ""
    )


def _folded(changed: Mapping[str, str]) -> dict[str, list[str]]:
    nodes_of: dict[str, list[str]] = {}
    for name, words in changed.items():
        nodes_of.setdefault(words, []).append(name)
    return nodes_of


def _changes(seal: Seal, document: Document, folder: Path) -> str:
    """What has changed on a node, in words; "" where nothing has."""
    now = fingerprint(document)
    keys = [key for key in dict.fromkeys((*seal.facts, *now)) if seal.facts.get(key) != now.get(key)]
    changes = _in_values(keys, document, folder) or [said("{key} has changed", key) for key in keys]
    offset, uncertainty = _clock(document)
    if abs(offset - seal.clock_offset_seconds) > CLOCK_SECONDS + uncertainty + seal.clock_uncertainty_seconds:
        changes.append(said("the clock moved by {offset:+.1f} s", offset - seal.clock_offset_seconds))
    more = said(" and {CHANGES_SHOWN} more", len(changes) - CHANGES_SHOWN) if len(changes) > CHANGES_SHOWN else ""
    return ", ".join(changes[:CHANGES_SHOWN]) + more


def _in_values(keys: Collection[str], document: Document, folder: Path) -> list[str]:
    """Each change with both values, where the facts of the certified run still lie in its folder."""
    if not keys:
        return []
    try:
        earlier = next(
            (
                found
                for path in sorted((folder / "facts").glob("*.json"))
                if (found := decode.read(path)).node == document.node
            ),
            None,
        )
    except (UsageError, OSError):
        return []
    if earlier is None:
        return []
    then = {path: value for key, value in fields(earlier).items() if key in keys for path, value in leaves(value, key)}
    now = {path: value for key, value in fields(document).items() if key in keys for path, value in leaves(value, key)}
    return [
        said(
            "{path} was {short}, is {short2}", path, _short(then.get(path, "not there")), _short(now.get(path, "gone"))
        )
        for path in dict.fromkeys((*then, *now))
        if then.get(path) != now.get(path)
    ]


def _short(value: str) -> str:
    return value if len(value) <= VALUE_LETTERS else f"{value[:VALUE_LETTERS]}..."


def _sealed(document: Document) -> Seal:
    return Seal(fingerprint(document), *_clock(document))


def _clock(document: Document) -> tuple[float, float]:
    clock = document.subjects["clock"]
    return float(clock["offset_seconds"]), float(clock["uncertainty_seconds"])


def _age_text(age: timedelta) -> str:
    minutes = int(age.total_seconds() // 60)
    return (
        said("{minutes} h {minutes2} min", minutes // 60, minutes % 60)
        if minutes >= 60
        else said("{minutes} min", minutes)
    )
