"""How do a node's raw files become a folder that a test can lay over another machine?"""

from __future__ import annotations

import base64
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

from preflight.job.collect.record import Entry
from preflight.said import said
from preflight.said.errors import UsageError


def write(entries: Iterable[Entry], folder: Path) -> None:
    """Write files, folders and links below a new folder. Raises UsageError where it holds something already.

    Links come last, so that nothing is written through one, wherever a node says that it leads.
    """
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(said("{folder}: there is a recording already; name another folder", folder))
    held = list(entries)
    for entry in held:
        place = folder / entry.path
        if entry.folder:
            place.mkdir(parents=True, exist_ok=True)
        elif entry.link is None and not place.is_dir():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(base64.b64decode(entry.base64) if entry.base64 else (entry.text or "").encode())
    links = [(folder / entry.path, entry.link) for entry in held if entry.link is not None]
    for place, _ in links:
        place.parent.mkdir(parents=True, exist_ok=True)
    for place, target in links:
        if not place.exists() and not place.is_symlink():
            place.symlink_to(target)


def prepare(folder: Path) -> None:
    """Make the folder that recordings go to, before a node is asked. Raises UsageError where that is not possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        words = said("{folder} cannot be written: {strerror}", folder, error.strerror or error)
        raise UsageError(said("--record: {words}; name another with --record=DIR", words)) from None


def folder_name(node: str) -> str:
    """A node's name as that of a folder."""
    return re.sub(r"[^\w.@:-]", "_", node).strip(".") or "node"
