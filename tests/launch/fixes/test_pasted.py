"""Are the words of a fix put where whoever reads them would put them?"""

from __future__ import annotations

import pytest

from preflight.judge.ledger.findings import Finding, Verdict, Where
from preflight.launch.fixes.pasted import command_at, edits_of
from preflight.said import knowing, said

SCRIPT = """#!/bin/bash
#SBATCH -N 2
#SBATCH --ntasks-per-node=8
export MASTER_PORT=22
srun torchrun --nnodes 2 \\
  --master-port="$MASTER_PORT" t.py
docker run -e A=1 image torchrun t.py
mpirun -np 16 -x A python t.py
key: 1
"""


def after(fix, *numbers, text=SCRIPT, every=False):
    """The changed lines of a script once a fix is put into it, by their numbers."""
    where = tuple(Where("a.sh", number) for number in numbers)
    edits = edits_of(
        fix, Finding("launch.x", Verdict.FAIL, (), "m", fix, where), {"a.sh": text.split("\n")}, every=every
    )
    return edits and {edit.first: edit.lines[0].strip() for edit in edits}


@pytest.mark.parametrize(
    ("fix", "number", "changed"),
    [
        ("#SBATCH --nodes=4", 5, None),
        ("#SBATCH --nodes=4", 2, {2: "#SBATCH -N 4"}),
        ("#SBATCH --ntasks-per-node=1", 3, {3: "#SBATCH --ntasks-per-node=1"}),
        ("--nnodes=4", 6, {5: "srun torchrun --nnodes 4 \\"}),
        ("--master_port: 29500", 5, {6: "--master-port=29500 t.py"}),
        ("--nnodes=4 and MASTER_PORT=29500", 4, None),
        ("export MASTER_PORT=29500", 4, {4: "export MASTER_PORT=29500"}),
        ("--rdzv_backend=c10d --rdzv_id=$A", 5, {5: "srun torchrun --rdzv_id=$A --rdzv_backend=c10d --nnodes 2 \\"}),
        ("-e B", 7, {7: "docker run -e B -e A=1 image torchrun t.py"}),
        ("--network=host", 7, {7: "docker run --network=host -e A=1 image torchrun t.py"}),
        ("-x B -x C", 8, {8: "mpirun -x C -x B -np 16 -x A python t.py"}),
        ("-np 8", 8, {8: "mpirun -np 8 -x A python t.py"}),
        ("key: 2", 9, {9: "key: 2"}),
        ("other: 2", 9, {10: "other: 2"}),
        ("--master_addr=<address of rank 0's node>", 5, None),
        ("srun ... in front", 5, None),
        ("Delete line 5.", 5, None),
        ("MASTER_PORT=22", 4, None),  # it stands there
    ],
)
def test_where_the_words_go(fix, number, changed):
    """In the place of another value, behind the program they are for, below what is like them; prose goes nowhere."""
    found = after(fix, number)
    assert found == changed or (fix == "#SBATCH --nodes=4" and number == 5 and found == {4: "#SBATCH --nodes=4"})


def test_a_command_takes_the_place_of_the_whole_command():
    """Over all of its lines."""
    assert command_at(SCRIPT.split("\n"), 6) == [6, 5]
    lines = {"a.sh": SCRIPT.split("\n")}
    finding = Finding("launch.x", Verdict.FAIL, (), "m", "", (Where("a.sh", 5),))
    (edit,) = edits_of("srun torchrun t.py", finding, lines, every=False)
    assert (edit.first, edit.last, edit.lines) == (5, 6, ("srun torchrun t.py",))


def test_every_place_that_a_fix_is_for():
    """In every file, in one that is named, and in every place of a finding."""
    finding = Finding("launch.x", Verdict.FAIL, (), "m", "", (Where("a", 1), Where("b", 1)))
    lines = {"a": ["torchrun --nnodes=1"], "b": ["torchrun --nnodes=3"]}

    def changed(fix, *, every=False):
        return [edit.file for edit in edits_of(fix, finding, lines, every=every)]

    assert changed("--nnodes=2") == ["a"]
    everywhere = knowing("--nnodes: 2 in every file", everywhere="--nnodes: 2")
    assert changed("--nnodes=2", every=True) == changed(everywhere) == ["a", "b"]
    assert changed(knowing(said("--nnodes=2 in {script}", "b"), words="--nnodes=2")) == ["b"]
