"""How does a file of the report appear whole or not at all?"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from preflight.said import said
from preflight.said.errors import UsageError

FEW = 16
SYNCS_AT_ONCE = 32


def print_json(document: object, target: str) -> None:
    """A document as JSON: on the screen for ``-``, else into the file. UsageError where that cannot be written."""
    text = plain_ascii(json.dumps(document, indent=1, allow_nan=False))
    if target == "-":
        print(text)
        return
    try:
        Path(target).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(said("--json {target}: cannot be written: {strerror}", target, error.strerror)) from None


def plain_ascii(text: str) -> str:
    """JSON as json.dumps gives it, the same in meaning, that no terminal and no CI system takes for a command."""
    # DEL is the one control character that JSON leaves as it is; `##` opens a command in the log of some CI systems.
    return re.sub("#(?=#)", r"\\u0023", text.replace("\x7f", "\\u007f"))


def write_atomically(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step: a reader sees the old file or the new one, also after a power cut."""
    write_together({path: data})


def write_together(files: Mapping[Path, bytes], after_first: Callable[[], None] = lambda: None) -> None:
    """Put each of several files at its path, in their order, or on a full disk none of them.

    Each is written, under a name that cannot be guessed and is never an existing one, before the first takes its
    place; `after_first` is called when that has. A reader sees the old file or the new one, also after a power cut.
    """
    temporary: dict[Path, Path] = {}
    try:
        for path, data in files.items():
            temporary[path] = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
            _write_new(temporary[path], data)
        _sync_all(list(temporary.values()))
        for number, (path, new) in enumerate(temporary.items()):
            os.rename(new, path)
            if not number:
                _sync(path.parent)
                after_first()
    finally:
        for new in temporary.values():
            with contextlib.suppress(OSError):
                os.unlink(new)
    for folder in {path.parent for path in files}:
        _sync(folder)


def _write_new(path: Path, data: bytes) -> None:
    # 0644 less the umask, as the user's other files.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with open(descriptor, "wb") as stream:
        stream.write(data)


def _sync_all(paths: list[Path]) -> None:
    """Wait until the disk has them: many at once, for it takes them together, and thousands one by one are minutes."""
    if len(paths) <= FEW:
        for path in paths:
            _sync(path)
        return
    with ThreadPoolExecutor(SYNCS_AT_ONCE) as pool:
        list(pool.map(_sync, paths))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
