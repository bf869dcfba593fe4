"""Is what a program says to Lightning read as if it were given as options?"""

from __future__ import annotations

import pytest

from preflight.launch.field import value_of
from preflight.launch.read import read_files, read_texts
from preflight.launch.reading import trainer

LIGHTNING = "import pytorch_lightning as pl\nt = pl.Trainer({})\n"
STEP = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\nsrun python train.py {}\n"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("devices=4, num_nodes=2", {"devices": (4, 2), "num_nodes": (2, 2)}),
        ("gpus=[0, 1], num_nodes='2'", {"devices": (2, 2), "num_nodes": (2, 2)}),
        ("devices=4", {"devices": (4, 2), "num_nodes": (1, 2)}),
        ("devices=-1, num_nodes=2", {}),
        ("devices=args.devices, num_nodes=2", {}),
        ("devices=4, **more", {}),
        ("devices=4, accelerator='cpu'", {}),
        ("devices=4, plugins=[SLURMEnvironment()]", {}),
    ],
)
def test_constants_of_the_one_trainer_count(words, found):
    """What comes from elsewhere, or is chosen by hand, is not known."""
    assert trainer.counts(LIGHTNING.format(words)) == found


def test_two_trainers_or_another_library_say_nothing():
    """transformers has a Trainer too."""
    assert trainer.counts(LIGHTNING.format("devices=4") + "pl.Trainer(devices=1)\n") == {}
    assert trainer.counts("from transformers import Trainer\nTrainer(devices=4)\n") == {}


def test_options_of_the_command_win():
    """The program may hand them to its Trainer."""
    texts = {"a.sbatch": STEP.format("--devices 8"), "train.py": LIGHTNING.format("devices=4, num_nodes=2")}
    (plan,) = read_texts(texts).plans
    assert [value_of(word) for word in plan.arguments] == ["--devices", "8", "--trainer.num_nodes=2"]


def test_a_program_beside_its_script_is_read(tmp_path):
    """Whoever gives the script alone is told of both; a program that is not there is nothing."""
    script = tmp_path / "a.sbatch"
    script.write_text(STEP.format(""))
    assert read_files([str(script)]).programs == {}
    (tmp_path / "train.py").write_text(LIGHTNING.format("devices=2, num_nodes=2"))
    files = read_files([str(script)])
    assert list(files.programs) == [str(tmp_path / "train.py")]
    assert [value_of(word) for word in files.plans[0].arguments] == ["--trainer.devices=2", "--trainer.num_nodes=2"]
