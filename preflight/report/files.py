"""How does a file of the report appear whole or not at all?"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from pathlib import Path

from preflight.errors import UsageError


def print_json(document: object, target: str) -> None:
    """A document as JSON: on the screen for ``-``, else into the file. UsageError where that cannot be written."""
    text = json.dumps(document, indent=1, allow_nan=False)
    if target == "-":
        print(text)
        return
    try:
        Path(target).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--json {target}: cannot be written: {error.strerror}") from None


def write_atomically(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step: a reader sees the old file or the new one, also after a power cut.

    The temporary file lies in the same folder, under a name that cannot be guessed, and is never an existing one.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    # 0644 less the umask, as the user's other files.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(descriptor)
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
