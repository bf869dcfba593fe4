"""Are the data and models that a plan names really there, and not the pointers that git-lfs left in their place?"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from preflight.findings import Finding, Where
from preflight.launch.plan import LaunchFiles, Plan, Sourced, fail

POINTER = b"version https://git-lfs.github.com/spec/"
POINTER_LIMIT_BYTES = 1024
FILES_LIMIT = 4000
OPTION = re.compile(
    r"--?[\w.-]*(data|model|path|dir|config|ckpt|checkpoint|file|tokenizer|weights|meta)[\w.-]*", re.IGNORECASE
)
OUTPUT = re.compile(r"out|save|log|cache|work_dir|export", re.IGNORECASE)
QUOTED_PATH = re.compile(r'"(/[^"\s]+)"')


def paths_of(plan: Plan) -> tuple[Sourced[str], ...]:
    """The paths that the program of a plan is told to read; what it writes is left out."""
    found: list[Sourced[str]] = []
    before = ""
    for argument in plan.arguments:
        if not isinstance(argument, Sourced):
            before = ""
            continue
        option, equals, value = argument.value.partition("=")
        name = option if equals or option.startswith("-") else before
        text = value if equals else "" if option.startswith("-") else option
        if text and OPTION.fullmatch(name) and not OUTPUT.search(name):
            pieces = QUOTED_PATH.findall(text) if text.lstrip().startswith("[") else [text]
            found.extend(Sourced(piece, argument.file, argument.line) for piece in pieces if "/" in piece)
        before = option if option.startswith("-") and not equals else ""
    return tuple(found)


def no_pointers(files: LaunchFiles, folder: str) -> Iterable[Finding]:
    """A clone without git-lfs holds text files of a few hundred bytes where data and weights should be."""
    for plan in files.plans:
        for path in paths_of(plan):
            bad = _pointers(os.path.join(folder, path.value))
            if bad:
                message = f"{path.value}: {len(bad)} files are git-lfs pointers, not data; the first is {bad[0]}"
                yield fail(
                    "data_is_no_lfs_pointer",
                    message,
                    Where(path.file, path.line),
                    fix="git lfs install && git lfs pull",
                )


def _pointers(path: str) -> list[str]:
    if os.path.isfile(path):
        return [path] if _is_pointer(path) else []
    found: list[str] = []
    seen = 0
    for root, _, names in os.walk(path):
        for name in sorted(names):
            seen += 1
            if seen > FILES_LIMIT:
                return found
            if _is_pointer(os.path.join(root, name)):
                found.append(os.path.join(root, name))
    return found


def _is_pointer(path: str) -> bool:
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > POINTER_LIMIT_BYTES:
            return False
        with open(path, "rb") as stream:
            return stream.read(len(POINTER)) == POINTER
    except OSError:
        return False
