"""Which raw sources has a node, what can become of each, and is what was lost ever taken for well?

The sources are the files of its folder: each kind of them once (the state of any port stands for that of every port).
A source that is gone, empty, cut short or closed must not leave every verdict as it was, unless the facts are the same
without it: nobody reads it, or what was lost says nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from preflight.facts.decode import Document
from preflight.ledger.findings import Finding, Verdict

from . import node
from .folder import Folder
from .platform import Platform
from .twin import Twin

OTHER_USER = 1000
# What stands for system calls, for the interpreter and for programs' own work is no source of the node.
NO_SOURCE = re.compile(
    r"opt/twin/(kernel\.json|env/(bin|pyvenv|lib/[^/]+/site-packages/(twin|__pycache__)))|usr/local/bin/|etc/nsswitch"
)
# Measured anew at each look.
VOLATILE = ("clock", "age_seconds", "reverse_seconds", "seconds", "ephemeral_in_use", "listeners", "leftovers")


def removed(folder: Folder, name: str) -> None:
    """It is not there."""
    folder.remove(name)


def emptied(folder: Folder, name: str) -> None:
    """It is there, and says nothing."""
    folder.write(name, b"")


def truncated(folder: Folder, name: str) -> None:
    """It ends in the middle."""
    data = folder.path(name).read_bytes()
    folder.write(name, data[: len(data) // 2])


def denied(folder: Folder, name: str) -> None:
    """It is for root only, and we are another user."""
    folder.deny(name)


CHANGES: dict[str, Callable[[Folder, str], None]] = {
    "removed": removed,
    "empty": emptied,
    "truncated": truncated,
    "denied": denied,
}


def kind_of(name: str) -> str:
    """What a file is, whichever port, device or bus it is of."""
    name = re.sub(r"[0-9a-f]{4}:[0-9a-f]{2}(:[0-9a-f]{2}\.[0-9a-f])?", "PCI", name)
    name = re.sub(r"(PCI/)+", "PCI/", re.sub(r"\d+", "#", name))
    name = re.sub(r"class/(infiniband|net)/[^/]+", r"class/\1/NAME", name)
    return re.sub(r"(counters|hw_counters)/\w+", r"\1/NAME", name)


def sources(folder: Folder) -> dict[str, str]:
    """Kind of source -> one file of it."""
    found: dict[str, str] = {}
    for path in sorted(folder.root.rglob("*")):
        name = str(path.relative_to(folder.root))
        if path.is_file() and not path.is_symlink() and path.stat().st_size and not NO_SOURCE.match(name):
            found.setdefault(kind_of(name), name)
    return found


def cells(findings: Iterable[Finding]) -> dict[tuple[str, str], tuple[Verdict, str]]:
    """Check and node -> the worst verdict there, and its words."""
    found: dict[tuple[str, str], tuple[Verdict, str]] = {}
    for finding in findings:
        for name in finding.nodes:
            if (finding.check, name) not in found or finding.verdict is not Verdict.PASS:
                found[finding.check, name] = (finding.verdict, finding.message)
    return found


def steady(value: Any) -> Any:
    """Facts without what is another at each look."""
    if isinstance(value, dict):
        kept = {key: steady(inner) for key, inner in value.items() if key not in VOLATILE}
        return {key: inner.partition(":")[0] if key == "boot_id" else inner for key, inner in kept.items()}
    return [steady(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def facts_of(document: Document) -> str:
    """What a node said, as a text to compare."""
    missing = {name: reason.missing for name, reason in document.missing.items()}
    # The kernel makes link-local addresses of its own choice.
    return re.sub(r'"fe80::[^"]*"', '"fe80::"', json.dumps([steady(document.subjects), missing], sort_keys=True))


@dataclass(frozen=True)
class Lost:
    """What came of a source that was changed."""

    kind: str
    change: str
    where: str  # "node3" or "all"
    is_read: bool  # whether the facts are others without it
    is_noticed: bool  # whether a verdict is another


def try_source(twin: Twin, kind: str, name: str, change: str, names: tuple[str, ...]) -> Lost:
    """Change a source on these nodes, judge, and put it back."""
    try:
        for each in names:
            if twin[each].path(name).exists():
                CHANGES[change](twin[each], name)
        documents = twin.documents(names)
    finally:
        for each in names:
            twin[each].restore()
    is_read = any(facts_of(documents[each]) != facts_of(twin.healthy[each]) for each in names)
    before, after = cells(twin.judge(twin.healthy)), cells(twin.judge(documents))
    passed = {cell for cell, (verdict, _) in before.items() if verdict is Verdict.PASS}
    is_noticed = any(after.get(cell, (Verdict.PASS, ""))[0] is not Verdict.PASS for cell in passed)
    return Lost(kind, change, names[0] if len(names) == 1 else "all", is_read, is_noticed)


def try_all(
    platform: Platform, under: Path, *, only: Callable[[str], bool] = lambda _kind: True, user_id: int | None = None
) -> Iterator[Lost]:
    """Every source of a platform that is read, changed in every way, on one node and on all."""
    user = platform.user_id if user_id is None else user_id
    twin = Twin(node.make(replace(platform, user_id=user), 2, under))
    twin.healthy = twin.documents()
    for kind, name in sources(twin["node2"]).items():
        if not only(kind):
            continue
        first = try_source(twin, kind, name, "removed", ("node2",))
        if not first.is_read:  # nobody asks for it
            continue
        if user == OTHER_USER:
            yield from (try_source(twin, kind, name, "denied", names) for names in (("node2",), twin.names))
            continue
        yield first
        yield try_source(twin, kind, name, "removed", twin.names)
        for change in ("empty", "truncated"):
            yield from (try_source(twin, kind, name, change, names) for names in (("node2",), twin.names))
