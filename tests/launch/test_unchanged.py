"""Does a line that changes nothing about a job leave every finding on its files?"""

from __future__ import annotations

import re
from collections import Counter

import pytest

from preflight.launch.launchers.slurm import read_directives
from preflight.launch.rules.check import check_texts
from tests.launch import truth
from tests.shares import shares

CASES = [case for case in truth.cases() if any("#SBATCH" in text for text in case.texts.values())]


def with_line(text: str, form: str) -> str:
    """The script with one more line, or one more option, below its first #SBATCH line."""
    slurm = read_directives(text, "job.sbatch")
    if slurm is None:
        return text
    asked = re.search(r"(?:--nodes[= ]|-N ?)([1-9]\d{0,2})\b", text)
    count = asked[1] if asked else "1"
    lines = text.split("\n")
    place = next(at for at, line in enumerate(lines) if line.startswith("#SBATCH"))
    lines.insert(place + 1, form.format(hosts=f"gpu[1-{count}]"))
    return "\n".join(lines)


def told(texts):
    """The findings, without the places that one more line moves."""
    return Counter((one.check, str(one.verdict)) for one in check_texts(texts)[0])


@pytest.mark.parametrize(
    "form", ["#SBATCH --nodelist={hosts}", "#SBATCH -w {hosts}", "#SBATCH -w{hosts}", "# nodelist={hosts}", ""]
)
@pytest.mark.parametrize("share", shares(8))
def test_a_nodelist_that_fits_changes_no_finding(form, share):
    """The batch job's own list of nodes is not a step's; nor does a comment or an empty line change anything."""
    assert len([case for case in CASES if case.musts]) > 60
    changes = {}
    for case in share.of(CASES):
        changed = {name: with_line(text, form) for name, text in case.texts.items()}
        before, after = told(case.texts), told(changed)
        if before != after:
            changes[f"{case.source}: {case.name}"] = {"lost": dict(before - after), "new": dict(after - before)}
    assert changes == {}


@pytest.mark.parametrize(
    ("step", "is_told"),
    [
        ("srun", True),
        ("srun -w gpu[1-2]", True),
        ("srun --nodelist=gpu1,gpu2", True),
        ('srun --nodelist="$SLURM_JOB_NODELIST"', True),
        ("srun -w gpu1", False),
        ("srun -N1 -n1 -w $head", False),
        ("srun --nodelist=./hosts", False),
    ],
)
def test_a_step_is_one_of_several_where_it_names_some_of_the_nodes(step, is_told):
    """A step on all nodes that gives each of them rank 0 is told; one on some of them may be rank 0's."""
    text = (
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n"
        f"{step} torchrun --nnodes=2 --node_rank=0 --nproc_per_node=8 --master_addr=10.0.0.1 t.py\n"
    )
    found = {one.check for one in check_texts({"job.sbatch": text})[0]}
    assert ("launch.static_rendezvous_has_node_ranks" in found) is is_told
