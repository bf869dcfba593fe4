"""Which files were given or found so far, and which file does a name in one of them mean?"""

from __future__ import annotations

import glob
import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Field
from preflight.launch.plan import BatchConfig, Hostfile, Plan, ScriptFile, Skip
from preflight.launch.text import letters
from preflight.launch.text.located import Located
from preflight.launch.text.marks import clean, plain
from preflight.said import said
from preflight.said.errors import UsageError

FILE_LIMIT_BYTES = 4 << 20

FILES_LIMIT = 4096


@dataclass
class Bundle:
    """The files read so far, by the name they were given with or found under."""

    texts: dict[str, str] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)  # before anything was put right in them
    configs: dict[str, dict[str, Field[Any]]] = field(default_factory=dict)
    config_lines: dict[str, Where] = field(default_factory=dict)
    used_configs: set[str] = field(default_factory=set)
    hostfiles: dict[str, Hostfile] = field(default_factory=dict)
    hostfile_problems: dict[str, list[Finding]] = field(default_factory=dict)  # to DeepSpeed
    batches: dict[str, BatchConfig] = field(default_factory=dict)
    variables: dict[str, Mapping[str, Field[str]]] = field(default_factory=dict)
    trainings: dict[str, Located] = field(default_factory=dict)  # of LLaMA-Factory
    plans: list[Plan] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    problems: list[Finding] = field(default_factory=list)
    scripts: list[ScriptFile] = field(default_factory=list)


def meant(bundle: Bundle, name: str, text: str) -> str:
    """The text with plain letters for those that only look like them, which are a problem each."""
    is_json = name.endswith(".json")
    if text.isascii() or (is_json and letters.LOST not in text):
        return text
    is_yaml = is_json or name.endswith((".yaml", ".yml"))
    bundle.problems.extend(letters.problems(text, name, is_yaml=is_yaml))
    bundle.texts[name] = letters.as_meant(text, is_yaml=is_yaml)
    return bundle.texts[name]


def resolved(bundle: Bundle, script: str, path: str) -> str | None:
    """The name under which a path that a script names was given: as written, beside the script, or by its end."""
    path = plain(path)
    candidates = (path, os.path.join(os.path.dirname(script), path), os.path.normpath(path))
    for candidate in candidates:
        if candidate in bundle.texts:
            return candidate
    ends = [name for name in bundle.texts if os.path.basename(name) == os.path.basename(path)]
    return ends[0] if len(ends) == 1 else None


def beside(bundle: Bundle, script: str, path: str, *, look_beside: bool) -> str | None:
    """The text of a file that a script names, given, or found beside it or from here."""
    found = resolved(bundle, script, path)
    if found is not None:
        return bundle.texts[found]
    next_to_it = os.path.join(os.path.dirname(script), path)
    is_ours = path.endswith((".yaml", ".yml", ".json", ".sh", ".env", ".py")) or "host" in os.path.basename(path)
    for candidate in (next_to_it, path) if look_beside and is_ours else ():
        if os.path.isfile(candidate):
            bundle.texts[candidate] = clean(read_file(candidate)).replace("\r\n", "\n")
            meant(bundle, candidate, bundle.texts[candidate])
            return bundle.texts[candidate]
    return None


def expanded(patterns: Iterable[str]) -> list[str]:
    """The files that names and patterns stand for, each once."""
    files: list[str] = []
    for pattern in patterns:
        is_glob = any(letter in pattern for letter in "*?[") and not os.path.exists(pattern)
        if os.path.isdir(pattern):
            meant = shlex.quote(os.path.join(pattern, "*"))
            raise UsageError(said("{pattern!r} is a folder: name its files, as {meant}", pattern, meant))
        found = sorted(path for path in glob.glob(pattern) if os.path.isfile(path)) if is_glob else [pattern]
        if not found:
            raise UsageError(said("{pattern!r} matches no file", pattern))
        files.extend(found)
    if len(files) > FILES_LIMIT:
        raise UsageError(said("{files} launch files; wanted at most {FILES_LIMIT}", len(files), FILES_LIMIT))
    return list(dict.fromkeys(files))


def read_file(name: str) -> str:
    """The text of a file, if its size is sensible."""
    try:
        if not os.path.isfile(name):
            raise UsageError(said("{name!r} is not a file that can be read", name))
        with open(name, "rb") as stream:
            data = stream.read(FILE_LIMIT_BYTES + 1)
    except OSError as error:
        raise UsageError(said("{name!r} cannot be read: {reason}", name, error.strerror)) from None
    if len(data) > FILE_LIMIT_BYTES:
        raise UsageError(said("{name!r} has more than {FILE_LIMIT_BYTES} MiB", name, FILE_LIMIT_BYTES >> 20))
    if b"\0" in data:
        raise UsageError(said("{name!r} is not a text file", name))
    return data.decode("utf-8-sig", "replace")
