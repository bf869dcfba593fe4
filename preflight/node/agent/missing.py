"""How does a node say that it lacks a fact?"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Union

    Missing = dict[str, str]
    TextOrMissing = Union[str, Missing]


READ_BYTES = 1 << 16


def missing(reason: str, kind: str = "failed") -> Missing:
    """What replaces a value that could not be read; ``kind`` is ``absent``, ``failed`` or ``denied``."""
    return {"missing": reason, "kind": kind}


def in_order(facts: dict[str, Any]) -> Any:
    """A structured fact that may be missing as a whole: its values in their order, or the missing one as it is.

    A list beside an object lets the controller distinguish the two by their JSON type alone.
    """
    return facts if "missing" in facts else list(facts.values())


def missing_because(error: OSError) -> Missing:
    """The missing value for an OSError: denied, absent or failed."""
    reason = error.strerror or str(error)
    if isinstance(error, PermissionError):
        return missing(reason, "denied")
    if isinstance(error, FileNotFoundError):
        return missing(reason, "absent")
    return missing(reason)


def read_text(path: str) -> str:
    """A small file of /proc or /sys without its line end; bytes that are no text are shown as escapes."""
    return decoded(read_bytes(path))


def read_bytes(path: str) -> bytes:
    """All of a small file."""
    # A node reads hundreds of them, and a text file object costs three times what these calls do.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = b""
        while more := os.read(descriptor, READ_BYTES):
            data += more
    finally:
        os.close(descriptor)
    return data


def decoded(data: bytes) -> str:
    """The text without its line end."""
    return data.decode("utf-8", "backslashreplace").strip()


def read_text_or_missing(path: str) -> TextOrMissing:
    """The text of a small file, or why it could not be read."""
    try:
        return read_text(path)
    except OSError as error:
        return missing_because(error)


def read_lines(path: str) -> TextOrMissing:
    """The text of a file whose last line the kernel ends too; one that does not end so was cut short.

    An empty file was lost as well, while an empty line is a value: there is nothing to list.
    """
    try:
        data = read_bytes(path)
    except OSError as error:
        return missing_because(error)
    if not data.endswith(b"\n"):
        return missing(f"{path} was cut short" if data else f"{path} is empty")
    return decoded(data)


def must_read(path: str) -> TextOrMissing:
    """The text of a file that every kernel has; where it is absent or empty, nothing was measured."""
    text = read_lines(path)
    if isinstance(text, dict):
        is_told = text["kind"] == "denied" or text["missing"].startswith(path)
        return text if is_told else missing(f"{path}: {text['missing']}")
    return text or missing(f"{path} is empty")


def entries(folder: str) -> list[str]:
    """The sorted names in a folder, none where it is absent; a folder that we may not read is an error."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
