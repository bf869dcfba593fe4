"""Which commands of a script launch training, and through which launcher?"""

from __future__ import annotations

import pytest

from preflight.launch.read import read_texts
from tests.launch.plans import launch, launches, values
from tests.launch.samples import failed


@pytest.mark.parametrize(
    ("line", "launcher"),
    [
        ("torchrun t.py", "torchrun"),
        ("/opt/conda/bin/torchrun t.py", "torchrun"),
        ("python -m torch.distributed.run t.py", "torchrun"),
        ("python3.11 -u -m torch.distributed.launch t.py", "torchrun"),
        ("accelerate launch t.py", "accelerate"),
        ("accelerate-launch t.py", "accelerate"),
        ("python -m accelerate.commands.launch t.py", "accelerate"),
        ("deepspeed t.py", "deepspeed"),
        ("python -m deepspeed.launcher.runner t.py", "deepspeed"),
        ("llamafactory-cli train x.yaml", "llamafactory"),
        ("RANK=0 WORLD_SIZE=2 python t.py", "env"),
        ("srun -N 2 python t.py", "srun"),
    ],
)
def test_every_launcher_is_known_by_its_command(line, launcher):
    """By its program or its module, wherever it is installed."""
    assert launch(f"{line}\n")["launcher"] == launcher


@pytest.mark.parametrize(
    "wrapper",
    ["sudo -E", "nohup", "env A=1", "conda run -n x", "uv run", "docker run --rm image", "numactl -N 0", "time"],
)
def test_a_launcher_is_found_behind_the_words_around_it(wrapper):
    """Whatever starts it there."""
    assert launch(f"{wrapper} torchrun --nnodes 2 t.py\n")["launcher"] == "torchrun"


@pytest.mark.parametrize(
    "line",
    [
        "pip install deepspeed torchrun",
        "sudo pip install torchrun",
        "sudo apt-get install accelerate launch",
        "uv pip install accelerate launch",
        "conda install torchrun x",
        "env pip install accelerate launch",
        "echo torchrun t.py",
        "which torchrun",
        "pkill -f torchrun t.py",
        "accelerate config",
        "accelerate env",
        "llamafactory-cli webui",
        "deepspeed",
        "python train.py torchrun t.py",
        "python -m pytest torchrun",
        "python t.py",
        "RANK=0 python -c pass",
        "RANK=0 python -m pip list",
    ],
)
def test_a_command_that_only_names_a_launcher_launches_nothing(line):
    """Installing, looking for or ending one is no start of a job; nor is a python that no rank is told to."""
    assert launches({"n.sh": f"{line}\n"}) == []


def test_every_start_of_a_script_is_read_in_its_order():
    """Two stages one after the other are two starts."""
    found = launches({"n.sh": "torchrun a.py\naccelerate launch b.py\n"})
    assert [(start["launcher"], start["line"], start["program"]["value"]) for start in found] == [
        ("torchrun", 1, "a.py"),
        ("accelerate", 2, "b.py"),
    ]


def test_what_is_wrong_with_a_command_is_kept_with_its_line():
    """A number that is none is told once, also where the command stands in a loop."""
    text = "#!/bin/bash\nfor i in 1 2; do\n  torchrun --nnodes=two t.py\ndone\n"
    assert failed({"n.sh": text}) == ["numbers_are_numbers"]
    (problem,) = read_texts({"n.sh": text}).problems
    assert problem.where[0].line == 3


def test_a_torn_command_is_not_taken_at_its_word():
    """The grammar gave up inside it: an option that seems to be missing may stand in the rest."""
    whole = "torchrun --nnodes=2 --nproc_per_node=8 t.py"
    assert failed({"n.sh": f"{whole}\n"}) != []
    (plan,) = read_texts({"n.sh": f"{whole} <<(\n"}).plans
    assert plan.is_opaque


@pytest.mark.parametrize(
    ("line", "is_read"),
    [
        ("oumi distributed torchrun -m oumi train -c x.yaml", False),
        ("oumi distributed torchrun --nproc_per_node=8 t.py", True),
        ("numactl -N 0 torchrun t.py", True),
        ("./with_lock.sh torchrun --standalone t.py", True),
    ],
)
def test_a_program_that_fills_in_the_counts_is_not_taken_for_a_wrapper(line, is_read):
    """What it gives to torchrun is not known; torchrun's own default of one process is not what it starts."""
    assert bool(launches({"n.sh": f"{line}\n"})) is is_read


def test_options_of_a_debugger_end_at_two_dashes():
    """Its port is no program of torchrun's."""
    text = "debugpy-run -m torch.distributed.run -p 5678 -- --nproc_per_node 2 --nnodes 1 train.py\n"
    assert values(launch(text))["processes_per_node"] == 2
