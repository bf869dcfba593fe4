"""Is a value that was never filled in told where it has to be real, and there alone?"""

from __future__ import annotations

import pytest

from preflight.launch.rules.check import check_texts

HEAD = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gpus-per-node=8\n"
START = "torchrun --standalone --nproc_per_node=8 train.py\n"


def told(text):
    """The verdicts of the findings about placeholders."""
    found = check_texts({"a.sbatch": text})[0]
    return [str(one.verdict) for one in found if one.check == "launch.placeholders_are_filled_in"]


@pytest.mark.parametrize(
    ("line", "verdicts"),
    [
        ("#SBATCH --account=XXX", ["fail"]),
        ("#SBATCH -p your_partition", ["fail"]),
        ("#SBATCH --chdir=/path/to/job", ["fail"]),
        ("#SBATCH --mail-user=your@email", ["warn"]),
        ("#SBATCH --job-name=your-job-name", []),
        ("#SBATCH --comment=XXX", []),
        ("#SBATCH --account=m1234", []),
    ],
)
def test_a_directive_is_judged_by_what_it_names(line, verdicts):
    """A job's own name may be anything; an account has to be there."""
    assert told(f"{HEAD}{line}\n{START}") == verdicts


@pytest.mark.parametrize(
    ("text", "verdicts"),
    [
        (f"cd /path/to/repo\n{START}", ["fail"]),
        (f"cd /scratch/repo\n{START}", []),
        ("torchrun --standalone --nproc_per_node=8 /path/to/train.py\n", ["fail"]),
        ("torchrun --standalone --nproc_per_node=8 train.py --data /path/to/data\n", ["warn"]),
        ("torchrun --standalone --nproc_per_node=8 train.py --tokens '<pad>' --name your_run\n", []),
        (f"source /path/to/venv/bin/activate\n{START}", ["fail"]),
        (f"source /home/a/todo-app/venv/bin/activate\nmodule load cuda/12.4\n{START}", []),
        (f"module load XXX\n{START}", ["fail"]),
        ("srun --container-image=/path/to/image.sqsh python train.py\n", ["fail"]),
    ],
)
def test_folders_programs_and_images_are_real(text, verdicts):
    """What the program itself is given it may do without; a name of its own may be anything."""
    assert told(HEAD + text) == verdicts
