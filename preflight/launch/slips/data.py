"""Are the data and models that a plan names really there, and not the pointers that git-lfs left in their place?"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable

from preflight.facts.cluster import Cluster
from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Sourced
from preflight.launch.plan import LaunchFiles, Plan, fail
from preflight.reach.hosts import fold
from preflight.said import said
from preflight.said.errors import FactMissing

POINTER = b"version https://git-lfs.github.com/spec/"
POINTER_LIMIT_BYTES = 1024
FILES_LIMIT = 4000
PATHS_LIMIT = 64
OPTION = re.compile(
    r"--?[\w.-]*(data|model|path|dir|config|ckpt|checkpoint|file|tokenizer|weights|meta)[\w.-]*", re.IGNORECASE
)
OUTPUT = re.compile(r"out|save|log|cache|work_dir|export", re.IGNORECASE)
# Files that a program reads and never writes, and that no node has a version of its own of.
ALIKE = re.compile(r".*\.(py|ya?ml|json|toml|ini|cfg|csv|tsv|jsonl|txt|model|vocab)")
QUOTED_PATH = re.compile(r'"(/[^"\s]+)"')


def paths_of(plan: Plan) -> tuple[Sourced[str], ...]:
    """The paths that the program of a plan is to read; what it writes is left out."""
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
                message = said(
                    "{value} holds git-lfs pointers instead of data: {bad} file{s}, first {bad2}",
                    path.value,
                    len(bad),
                    "s" * (len(bad) != 1),
                    bad[0],
                )
                yield fail(
                    "data_is_no_lfs_pointer",
                    message,
                    Where(path.file, path.line),
                    fix=_pulled(path.value),
                )


def paths_on_nodes(files: LaunchFiles) -> tuple[str, ...]:
    """The paths that the files name, the program's own included: what every node must have.

    In full, or from a folder that the script enters before.
    """
    named = [path.value for plan in files.plans for path in _full_paths(plan)]
    return tuple(dict.fromkeys(named))[:PATHS_LIMIT]


def alike_on_nodes(files: LaunchFiles) -> tuple[str, ...]:
    """The full paths of files that must have one content on every node: programs, configurations, lists of data."""
    return tuple(path for path in paths_on_nodes(files) if ALIKE.fullmatch(path))


def _full_paths(plan: Plan) -> list[Sourced[str]]:
    program = [plan.program] if isinstance(plan.program, Sourced) else []
    found = []
    for path in (*program, *paths_of(plan)):
        text = path.value
        if plan.folder and (text.startswith(("./", "../")) or ALIKE.fullmatch(text)):  # "org/model" is a name of a hub
            text = os.path.normpath(os.path.join(plan.folder, text))
        if text.startswith("/") and "\0" not in text:
            found.append(Sourced(text, path.file, path.line))
    return found


def paths_are_on_every_node(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """What the program reads is on every node, and is not a git-lfs pointer."""
    places = {path.value: path.where for plan in files.plans for path in _full_paths(plan)}
    lacking: dict[tuple[str, str], list[str]] = {}
    pointing: dict[tuple[str, str], list[str]] = {}
    for node in cluster:
        try:
            held = [named for named in node.files.named if named.path in places]
        except FactMissing:
            continue
        for named in held:
            if named.trouble:
                lacking.setdefault((named.path, named.trouble), []).append(node.name)
            if named.pointers:
                pointing.setdefault((named.path, named.pointers[0]), []).append(node.name)
    for (path, trouble), nodes in lacking.items():
        message = said("{path}: {trouble} on {nodes}", path, trouble, fold(nodes))
        fix = "The same path on every node: copy it there (`rsync -a`), or mount what holds it."
        yield fail("paths_are_on_every_node", message, places[path], fix=fix, nodes=tuple(nodes))
    for (path, first), nodes in pointing.items():
        message = said("{path}: git-lfs pointers, not data, on {nodes}; the first is {first}", path, fold(nodes), first)
        fix = said("on {nodes}: {pulled}", fold(nodes), _pulled(path))
        yield fail("data_is_no_lfs_pointer", message, places[path], fix=fix, nodes=tuple(nodes))


def _pulled(path: str) -> str:
    """What brings the data itself: from git, or from the hub that the clone is of."""
    place = shlex.quote(os.path.dirname(path) if os.path.splitext(path)[1] else path)
    return said(
        "`git lfs install && git -C {place} lfs pull`; where it is no clone, `modelscope download` "
        "or `hf download` with --local_dir (--local-dir) {place}",
        place,
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
