"""Scripts that start each other."""

from __future__ import annotations

import pytest

from preflight.judge.ledger.findings import Where
from preflight.launch.field import value_of
from preflight.launch.read import read_texts
from tests.launch.samples import judged


def test_a_script_that_another_one_starts_is_read_with_what_it_gets():
    """Its arguments and variables are known then; one that nobody gave is named."""
    job = "#!/bin/bash\n#SBATCH -N 2\nexport EACH=4\nsrun bash node.sh 2\n"
    texts = {"node.sh": "torchrun --nnodes=$1 --nproc_per_node=$EACH t.py\n", "job.sbatch": job}
    files = read_texts(texts)
    (plan,) = files.plans
    assert (plan.where.file, value_of(plan.nodes), value_of(plan.processes_per_node)) == ("node.sh", 2, 4)
    assert "srun" in plan.wraps
    assert plan.slurm is not None
    assert files.skips == ()
    del texts["node.sh"]
    (skip,) = [skip for skip in read_texts(texts).skips if skip.file == "job.sbatch"]
    assert skip.reason.endswith("; node.sh is not given")


def test_a_script_started_twice_is_read_twice():
    """Each start has its own arguments; a variable is told where it was set."""
    loop = "export MASTER_ADDR=node0\nfor n in 0 1; do bash node.sh $n & done\n"
    node = "torchrun --nnodes=2 --node_rank=$1 --master_addr=$MASTER_ADDR t.py\n"
    files = read_texts({"all.sh": loop, "node.sh": node})
    assert [value_of(plan.node_rank) for plan in files.plans] == [0, 1]
    assert {plan.environment["MASTER_ADDR"].where for plan in files.plans} == {Where("all.sh", 1)}


def test_scripts_that_start_each_other_are_each_read_once():
    """A script that starts itself again does not go on forever."""
    texts = {"a.sh": "bash b.sh 1\ntorchrun a.py\n", "b.sh": "bash a.sh 2\ntorchrun b.py\n"}
    assert len(read_texts(texts).plans) == 2


OF_A_TEXT = """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:8
export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
export LAUNCHER="torchrun --nnodes 2 --nproc_per_node 8 {end}
    --rdzv_backend c10d --rdzv_id 1 --rdzv_endpoint $MASTER_ADDR:29500"
srun bash -c {quote}$LAUNCHER train.py{quote}
"""


@pytest.mark.parametrize("end", ["", "\\ "])
def test_a_line_break_in_a_text_that_a_shell_runs_ends_the_command(end):
    """Within '...' the inner shell takes it for a blank; a backslash takes it away."""
    (found,) = judged({"run.sbatch": OF_A_TEXT.format(end=end, quote='"')})
    assert (found.check, "--rdzv_backend" in found.message) == ("launch.commands_are_continued", True)
    assert not judged({"run.sbatch": OF_A_TEXT.format(end="\\", quote='"')})
    assert not judged({"run.sbatch": OF_A_TEXT.format(end="", quote="'")})


def test_eval_runs_a_text_as_its_lines_are():
    """A command that a blank line cuts in the script itself is none of them."""
    text = 'OPTS="--nnodes 2 --nproc_per_node 8{end}\n --rdzv_backend c10d --rdzv_id 1 --rdzv_endpoint n1:29500"\n'
    text += 'CMD="torchrun $OPTS train.py"\neval "$CMD"\n'
    (found,) = judged({"run.sh": text.replace("{end}", "")})
    assert (found.check, "eval" in found.message) == ("launch.commands_are_continued", True)
    assert not judged({"run.sh": text.replace("{end}", " \\")})
