"""Is it right which script starts where, by which shell, and which program is exchanged?"""

from __future__ import annotations

import pytest

from preflight.launch.cast import cast, read_scripts, scripts_of, writing_lines
from preflight.said.errors import UsageError

NODES = ("node1", "node2")
TORCHRUN = "torchrun --nnodes=2 --nproc_per_node=4 --node_rank=$1 --master_addr=node1 train.py\n"


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A folder with scripts, and what is cast from words."""
    monkeypatch.chdir(tmp_path)

    def write(**texts):
        for name, text in texts.items():
            (tmp_path / f"{name}.sh").write_text(text)

        def made(*words):
            scripts = scripts_of(words)
            return cast(scripts, read_scripts(scripts), NODES)

        return made

    return write


def test_one_script_starts_on_every_node(written):
    """Its ranks and its program are those of its start."""
    found = written(run=TORCHRUN)("run.sh")
    assert tuple(found.scripts) == NODES
    assert (found.programs, found.ranks) == (("train.py",), 8)
    assert found.scripts["node1"].shell == ("bash",)


def test_each_node_may_have_its_own_words_or_its_own_file(written):
    """In HOSTS order."""
    found = written(run=TORCHRUN, one=TORCHRUN)("run.sh 0", "run.sh 1")
    assert [script.words for script in found.scripts.values()] == [("0",), ("1",)]
    with pytest.raises(UsageError, match="3 files for 2 nodes"):
        written(run=TORCHRUN)("run.sh 0", "run.sh 1", "run.sh 2")
    with pytest.raises(UsageError, match="is not a file"):
        written()("none.sh")


@pytest.mark.parametrize(
    "text",
    [
        "mpirun -np 2 -H node1,node2 python train.py\n",
        "deepspeed --hostfile hosts train.py\n",
        "srun torchrun --nnodes=2 train.py\n",
        "#!/bin/bash\n#SBATCH --nodes=2\npython train.py\n",
        "for host in node1 node2; do ssh $host torchrun --nnodes=2 train.py & done; wait\n",
    ],
)
def test_a_script_that_starts_all_nodes_runs_on_the_first(written, text):
    """The others have the hook and no script."""
    found = written(run=text)("run.sh")
    assert (tuple(found.scripts), found.nodes) == (("node1",), NODES)


def test_a_batch_script_is_started_by_its_first_line(written):
    """Any other as people type it."""
    made = written(
        job="#!/bin/bash -l\n#SBATCH -N 2\n", hand="#!/bin/sh\ntorchrun train.py\n", py="#!/usr/bin/python3\n"
    )
    assert [script.shell for script in scripts_of(["job.sh", "hand.sh", "py.sh"])] == [
        ("/bin/bash", "-l"),
        ("bash",),
        ("/usr/bin/python3",),
    ]
    assert made


def test_lines_that_change_something_outside_are_listed(written):
    """Comments and words in a text are none."""
    written(run="rm -rf out\n# git pull\necho rm\nif true; then pip install x; fi\nwandb login\npython train.py\n")
    (script,) = scripts_of(["run.sh"])
    assert [number for number, _ in writing_lines(script)] == [1, 4, 5]
