"""Is each check and setting that the code speaks of by its name one that there is? Nothing would ever be of another."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from preflight.judge.settings import Settings
from preflight.knowledge.variables.names import ROWS
from tests.checks.samples import checks
from tests.house import ROOT

SUBJECTS = tuple({name.partition(".")[0] for name in checks()})
NAME = re.compile(r"(\w+)\.(\w*_\w+)")
SYSCTLS = {"kernel.numa_balancing", "kernel.unprivileged_userns_clone"}
FILES = sorted((ROOT / "preflight" / "judge").glob("**/*.py"))


def is_known(name: str) -> bool:
    """Is it a check, a setting, or one of the kernel's own?"""
    subject, _, key = name.partition(".")
    return name in checks() or name in SYSCTLS or hasattr(getattr(Settings(), subject, None), key)


def named(file: Path) -> list[tuple[int, str]]:
    """Line and name of what the texts of a file call like a check."""
    texts = (one for one in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(one, ast.Constant))
    return [
        (text.lineno, found[0])
        for text in texts
        if isinstance(text.value, str)
        for found in NAME.finditer(text.value)
        if found[1].endswith(SUBJECTS)
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT / "preflight" / "judge")))
def test_names_of_checks_and_settings_are_there(file: Path):
    """What blocks another, what a command is given for, and what may not be above something else."""
    assert [(line, name) for line, name in named(file) if not is_known(name)] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT / "preflight" / "judge")))
def test_variables_of_nccl_are_those_that_it_reads(file: Path):
    """One that is misspelt here would be taken for one that nobody has set."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    texts = [one.value for one in ast.walk(tree) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    read = [text for text in texts if re.fullmatch(r"\w*NCCL_\w*[A-Z0-9]", text)]
    assert [name for name in read if name not in ROWS] == []


def test_most_names_are_found():
    """The code speaks of half of them: a walk that finds none would pass as well."""
    assert len({name for file in FILES for _, name in named(file)}) > len(checks()) // 2
