"""What do the real collectors say of a twin's nodes, and what do the real checks make of it?

Each node's folder is laid over this machine for one process, which has a network of its own; what it emits goes through
the real decoding and is judged by the checks that read facts. Folders that no fault has touched are collected once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from preflight.facts import decode, neighbours, view
from preflight.facts.cluster import Cluster
from preflight.facts.decode import Document
from preflight.facts.value import Missing
from preflight.job.collect import subjects
from preflight.job.collect.record import Entries, Entry
from preflight.judge.ledger.findings import Finding, Verdict
from preflight.judge.ledger.ledger import Ledger
from preflight.judge.settings import Settings
from preflight.knowledge import sysctls
from preflight.run.suite.judge import Judge
from tests.checks import samples

from .folder import Folder

ROOT = Path(__file__).parents[2]
# Checks of what is measured, of this machine's disks, and of logins between nodes are for runs over ssh.
LEFT_OUT = ("rehearse.", "bench.", "training.", "mesh.", "files.", "caches.", "trust.", "master.")
SECONDS = 60
# What the machine says of itself that a twin is laid over; nothing of that may be seen in a twin. The variable chooses
# one for a whole run of these tests: `PREFLIGHT_TWINS_ON="up for years" pytest tests/twins`.
MACHINE = "PREFLIGHT_TWINS_ON"
BOOTED = "<5>[    0.000000] Linux version 6.8.0\n<3>[    2.500000] NVRM: Xid (PCI:0000:07:00): 48, of this machine\n"
MACHINES: dict[str, dict[str, Any]] = {
    "": {"hostname": "localhost", "up_seconds": 5.0, "clock_ahead_seconds": -3e8, "log": BOOTED},
    "up for years": {"hostname": "node3", "up_seconds": 3e8, "clock_ahead_seconds": 3e8, "log": BOOTED[48:]},
}


class NoAnswer(Exception):
    """A node's process ended without its facts."""


class NodeProcess:
    """The process of one node: the first round of its facts, that of its peers, and what moved since."""

    def __init__(self, folder: Folder, **order: Any) -> None:
        self.folder = folder
        argv = [
            "unshare",
            "--net",
            "--mount",
            "--uts",
            "--",
            sys.executable,
            "-I",
            "-S",
            f"{ROOT}/tests/twins/agent.py",
        ]
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        machine = MACHINES[os.environ.get(MACHINE, "")]
        self._send({"folder": str(folder.root), "root": str(ROOT), "machine": machine})
        self._line()  # it has a network of its own
        self._send({"layers": [], "sysctls": sysctls.NAMES, "machine": machine, **order})

    def _send(self, order: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.kill()
            _, stderr = self.process.communicate()
            raise NoAnswer(f"{self.folder.name}: {stderr[-3000:]}")
        found: dict[str, Any] = json.loads(line)
        return found

    def _until(self, mark: Any) -> tuple[dict[str, dict[str, Any]], dict[str, Missing]]:
        said: dict[str, dict[str, Any]] = {}
        missing: dict[str, Missing] = {}
        while (event := self._line()).get("collected") != mark:
            if "facts" in event:
                said[event["subject"]] = event["facts"]
            else:
                missing[event["subject"]] = Missing(event["missing"], event["kind"])
        return said, missing

    def facts(self, index: int) -> Document:
        """The first round, as a live run stores it."""
        said, missing = self._until(True)
        said["clock"] = {"offset_seconds": 0.0, "uncertainty_seconds": 0.001}
        addresses = self.folder.answers()["interfaces"][0]["addresses"] or ["127.0.0.1"]
        address = addresses[0].partition("/")[0]
        return Document(decode.SCHEMA, self.folder.name, index, address, 0, said, missing)

    def peers(self, order: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, Missing]]:
        """The second round."""
        self._send({"peers": order})
        return self._until("all")

    def ending(self) -> dict[str, Any]:
        """What has moved since."""
        self._send({})
        return {**self._line()["facts"], "offset_seconds": 0.0, "uncertainty_seconds": 0.001}

    def close(self) -> None:
        """It ends with its input."""
        self.process.communicate(timeout=SECONDS)


def collect(
    folders: Collection[Folder], index_of: dict[str, int], known: Iterable[Document], between: Callable[[], None]
) -> dict[str, Document]:
    """The documents of some nodes, in a cluster with those that are known; `between` happens during the run."""
    with ThreadPoolExecutor(2) as pool:
        nodes = list(pool.map(NodeProcess, folders))
        first = dict(
            zip([f.name for f in folders], pool.map(lambda n: n.facts(index_of[n.folder.name]), nodes), strict=True)
        )
        cluster = view.view([*(d for d in known if d.node not in first), *first.values()], "auto")
        asked = neighbours.asked([node.name for node in cluster])

        def rest(node: NodeProcess) -> Document:
            name = node.folder.name
            order = subjects._about_peers(cluster[name], cluster, asked[name])
            return decode.merge(first[name], node.peers(order))

        whole = dict(zip(first, pool.map(rest, nodes), strict=True))
        between()
        for node in nodes:
            ending = node.ending()
            whole[node.folder.name] = decode.merge(whole[node.folder.name], ({"ending": ending}, {}))
            node.close()
    return whole


def recorded(folder: Folder, key: str) -> list[Entry]:
    """What a node records of itself."""
    process = NodeProcess(folder, key=key)
    found: list[Entry] = []
    while line := process.process.stdout.readline():
        found += msgspec.json.decode(line, type=Entries).files
    process.close()
    return found


def nothing() -> None:
    """What happens during a quiet run."""


@dataclass
class Twin:
    """The folders of a cluster and what its healthy nodes say."""

    folders: list[Folder]
    settings: Settings = field(default_factory=Settings)
    healthy: dict[str, Document] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes in their order."""
        return tuple(folder.name for folder in self.folders)

    def __getitem__(self, name: str) -> Folder:
        return next(folder for folder in self.folders if folder.name == name)

    def documents(
        self, changed: Collection[str] | None = None, between: Callable[[], None] = nothing
    ) -> dict[str, Document]:
        """What all nodes say, those named (all without a name) collected anew."""
        index_of = {name: index for index, name in enumerate(self.names)}
        if changed is None or not self.healthy:
            found = collect(self.folders, index_of, (), between)
        else:
            found = collect([self[name] for name in changed], index_of, self.healthy.values(), between)
        return {name: found.get(name) or self.healthy[name] for name in self.names}

    def judge(self, documents: dict[str, Document]) -> list[Finding]:
        """The findings of every check that reads facts."""
        return judge(view.view(documents.values(), "auto"), self.names, self.settings)


@dataclass
class Collected:
    """A source of facts for the judge; no job runs on it."""

    cluster: Cluster
    names: tuple[str, ...]
    failures: dict[str, str] = field(default_factory=dict)
    transports: dict[str, str] = field(default_factory=dict)
    racks: dict[str, str] = field(default_factory=dict)
    logins: dict[str, str] = field(default_factory=dict)
    proof: None = None  # nothing is taken over from an earlier run

    def end(self) -> None:
        """The state at the end is among the facts."""


_CHECKS: dict[str, Any] = {}


def judge(cluster: Cluster, names: tuple[str, ...], settings: Settings) -> list[Finding]:
    """The findings of every check that reads facts, in HOSTS order."""
    if not _CHECKS:
        found = {name: samples.check_of(function) for name, function in samples.checks().items()}
        _CHECKS.update({name: check for name, check in found.items() if not name.startswith(LEFT_OUT)})
    ledger = Ledger()
    for name in _CHECKS:
        ledger.expect(name, names)
    for check in sorted(_CHECKS.values(), key=lambda check: check.kind == "ending"):
        for finding in Judge(Collected(cluster, names), ledger, settings).judge(check):  # type: ignore[arg-type]
            ledger.record(finding)
    return list(ledger.findings)


def notable(findings: Iterable[Finding]) -> list[Finding]:
    """Those that are neither a pass nor a skip."""
    return [finding for finding in findings if finding.verdict not in (Verdict.PASS, Verdict.SKIP)]
