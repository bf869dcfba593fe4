"""Are scripts told apart that sbatch reads otherwise than they were meant?"""

from __future__ import annotations

import pytest

from preflight.launch.schedulers import sbatch
from preflight.launch.text import grammar
from tests.launch.samples import judged

HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n"
RUN = "torchrun --nnodes 2 --nproc_per_node 8 train.py\n"


def told(text):
    """The rule, first line and message of each problem."""
    return [
        (found.check.removeprefix("launch."), found.where[0].line, found.message)
        for found in sbatch.problems(text, "x.sh", grammar.read(text))
    ]


def fixed(text):
    """The text with the edits of all problems."""
    lines = text.split("\n")
    edits = [edit for found in sbatch.problems(text, "x.sh", grammar.read(text)) for edit in found.edits]
    for edit in sorted(edits, key=lambda edit: edit.first, reverse=True):
        lines[edit.first - 1 : edit.last] = edit.lines
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "line", "repaired"),
    [
        ("\n" + HEAD + RUN, 2, HEAD.replace("\n", "\n\n", 1) + RUN),
        ("#SBATCH --nodes=2\n" + RUN, 1, HEAD + RUN),
        ("#!/bin/bash\nset -e\n#SBATCH --nodes=2\n" + RUN, 3, HEAD + "set -e\n" + RUN),
    ],
)
def test_what_sbatch_does_not_read_is_told_and_mended(text, line, repaired):
    """A #! below the first line, none at all, and #SBATCH lines below a command."""
    ((rule, at, _),) = told(text)
    assert (rule, at) == ("batch_script_is_read", line)
    assert fixed(text) == repaired


def test_a_hole_in_a_line_for_sbatch_is_told():
    """In #SBATCH lines, which no shell reads."""
    text = "#!/bin/bash\n#SBATCH --account=<account>\ntorchrun --master_addr <ADDRESS> t.py\n"
    rules = [(rule, line) for rule, line, _ in told(text)]
    assert rules == [("placeholders_are_filled_in", 2)]


@pytest.mark.parametrize(
    ("option", "verdict"),
    [("--nodes=$N", "fail"), ("-N ${N}", "fail"), ("--output=$HOME/%j.out", "warn"), ("--output=%x-%j.out", "")],
)
def test_a_variable_in_an_sbatch_line_stays_its_name(option, verdict):
    """No shell reads the line: a count is refused, a file is called so."""
    text = f"#!/bin/bash\n#SBATCH {option}\nsrun python train.py\n"
    found = [str(one.verdict) for one in judged({"j.sbatch": text}) if one.check == "launch.batch_script_is_read"]
    assert found == ([verdict] if verdict else [])


@pytest.mark.parametrize(
    ("line", "is_told"),
    [
        ("# SBATCH --nodes=2", True),
        ("#  SBATCH --gres=gpu:8", True),
        ("# SBATCH --mail-user=me", False),
        ("## SBATCH --nodes=2", False),
        ("#SBATCH --nodes=2\n# SBATCH --nodes=4", False),
    ],
)
def test_a_blank_behind_the_sign_makes_a_comment_of_a_line_for_sbatch(line, is_told):
    """A warning where nothing else asks for the nodes or devices, with the line as sbatch reads it."""
    text = f"#!/bin/bash\n#SBATCH --job-name=x\n{line}\nsrun x\n"
    assert [rule for rule, _, _ in told(text)] == ["batch_script_is_read"] * is_told
    if is_told:
        assert fixed(text) == text.replace("#  SBATCH", "#SBATCH").replace("# SBATCH", "#SBATCH")
