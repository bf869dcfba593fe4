"""Which variables does each version of NCCL read, as its own sources say?

    git clone https://github.com/NVIDIA/nccl && python -m tests.bench.nccl_names nccl

prints the first and the last of the versions (2.18 to 2.30) that read each name, and what the table of
``preflight.knowledge.variables.names`` lacks, or says otherwise. A name is read where a source file has it in NCCL_PARAM,
or as text in a call of ``ncclGetEnv``, ``getenv``, ``ncclLoadParam`` or ``DEFINE_NCCL_PARAM``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping

from preflight.knowledge.variables.names import ROWS
from preflight.knowledge.versions import is_within

OLDEST, NEWEST = "2.18", "2.30"
TAG = re.compile(r"v(2\.\d+)\.\d+-\d+")
PARAMETER = re.compile(r'\b(?:NCCL_PARAM|NCCL_OBSERVE_PARAM)\s*\(\s*\w+\s*,\s*"(\w+)"')
TEXT = re.compile(r'"(NCCL_[A-Z0-9_]*[A-Z0-9])"')
READS = re.compile(r"(?i)env|param|^[^A-Za-z]*\"NCCL_")  # a call may have its name on a line of its own
# Texts in sources that name no variable.
NO_VARIABLE = re.compile(
    r"NCCL_(VERSION_CODE|ALGO_\w+|PROTO_\w+|OFI_\w+|TESTS_\w+|BUILD_\w+|\w+_INITIALIZER|GIN_CONNECTION_RAIL)$"
)


def names_in(source: str) -> set[str]:
    """The variables that one source file reads."""
    found = {f"NCCL_{name}" for name in PARAMETER.findall(source)}
    for line in source.splitlines():
        if READS.search(line):
            found |= {name for name in TEXT.findall(line) if not NO_VARIABLE.match(name)}
    return found


def newest_tags(tags: Iterable[str]) -> dict[str, str]:
    """The last release of each minor version between OLDEST and NEWEST; `tags` come in the order of versions."""
    found = {match[1]: tag for tag in tags if (match := TAG.fullmatch(tag))}
    return {
        version: tag
        for version, tag in found.items()
        if is_within(version, f">={OLDEST}") and is_within(version, f"<={NEWEST}")
    }


def names_of(repository: str, tag: str) -> set[str]:
    """The variables that a release reads."""
    grep = ["git", "-C", repository, "grep", "-hE", r'NCCL_PARAM|"NCCL_[A-Z0-9_]+"', tag, "--", "src"]
    return names_in(subprocess.run(grep, capture_output=True, text=True, check=True).stdout)


def spans(names: Mapping[str, set[str]]) -> dict[str, tuple[str, str]]:
    """The first and the last version that reads each name; `names` are in the order of versions."""
    found: dict[str, tuple[str, str]] = {}
    for version, held in names.items():
        for name in held:
            first, _ = found.get(name, (version, version))
            found[name] = (first, version)
    return found


def disagreements(found: Mapping[str, tuple[str, str]]) -> list[str]:
    """What the table says otherwise than the sources, a line each."""
    lines = []
    for name, (first, last) in sorted(found.items()):
        row = ROWS.get(name)
        if row is None:
            lines.append(f"{name}: read by {first} to {last}, and not in the table")
        elif row.since and first != OLDEST and not row.since.startswith(first):
            lines.append(f"{name}: read since {first}, and the table says {row.since}")
    return lines


def main() -> None:
    """Print the table and the disagreements."""
    repository = sys.argv[1]
    listed = subprocess.run(
        ["git", "-C", repository, "tag", "--sort=version:refname"], capture_output=True, text=True, check=True
    )
    tags = newest_tags(listed.stdout.split())
    found = spans({version: names_of(repository, tag) for version, tag in tags.items()})
    for name, (first, last) in sorted(found.items()):
        print(f"{name:45} {first:6} {last}")
    print("\n".join(disagreements(found)) or "the table agrees")


if __name__ == "__main__":
    main()
