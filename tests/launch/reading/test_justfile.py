"""Are the recipes of a justfile read, line by line, each with what it is called with?"""

from __future__ import annotations

import pytest

from preflight.launch.reading.justfile import as_script, is_justfile, of_each_recipe

TEXT = """set shell := ["bash", "-uc"]
master-addr := "10.3.1.1"
export port := env_var_or_default("PORT", "29500")
head := env("HEAD")
# one node
@train rank nodes="4" *more:
    @torchrun --nnodes={{nodes}} --node_rank={{ rank }} --master_addr={{master-addr}} {{uppercase(rank)}} t.py

clean: train
    rm -rf out
"""


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("justfile", True), ("a/Justfile", True), (".justfile", True), ("x.just", True), ("just", False)],
)
def test_a_justfile_is_known_by_its_name(name, is_one):
    """As just itself looks for it."""
    assert is_justfile(name) is is_one


def test_lines_keep_their_numbers():
    """So that a finding names the line of the file."""
    assert len(as_script(TEXT).split("\n")) == len(TEXT.split("\n"))


@pytest.mark.parametrize(
    ("line", "script"),
    [
        (2, 'master_addr="10.3.1.1"'),
        (3, "export port=${PORT:-29500}"),
        (4, "head=${HEAD}"),
        (5, ""),
        (6, 'rank="$1"; nodes="${2:-4}"; more="$*"'),
        (
            7,
            "torchrun --nnodes=${nodes} --node_rank=${rank} --master_addr=${master_addr} $(just --evaluate) t.py",
        ),
        (9, ""),
        (10, "rm -rf out"),
    ],
)
def test_every_line_is_one_of_bash(line, script):
    """Variables, parameters and commands; what just alone can work out is a command's output."""
    assert as_script(TEXT).split("\n")[line - 1] == script


def test_each_recipe_is_a_script_with_the_variables():
    """The commands of another recipe are not in it."""
    train, clean = of_each_recipe(TEXT, as_script(TEXT), 9)
    held = [[word in part for word in ("torchrun", "rm -rf", "master_addr=")] for part in (train, clean)]
    assert held == [[True, False, True], [False, True, True]]
