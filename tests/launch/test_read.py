"""Files of every kind, alone and named by each other."""

from __future__ import annotations

import pytest

from preflight.errors import UsageError
from preflight.launch.field import value_of
from preflight.launch.read import read_files, read_texts
from preflight.launch.rules.check import check_files
from preflight.ledger.findings import Where
from tests.launch.samples import config, judged


def test_a_script_brings_its_configuration(tmp_path):
    """--config_file beside the script is read though it was not given, and options of the command win."""
    (tmp_path / "c.yaml").write_text(config(num_processes="15"))
    script = tmp_path / "n.sh"
    script.write_text("accelerate launch --config_file c.yaml --num_machines 3 t.py\n")
    files = read_files([str(script)])
    assert check_files(files) == ()
    assert files.plans[0].processes_per_node.value == 5
    assert files.plans[0].world_size.file.endswith("c.yaml")


def test_globs_and_files_that_are_not_there(tmp_path):
    """A pattern that fits nothing is a usage error."""
    (tmp_path / "n0.yaml").write_text(config(0))
    (tmp_path / "n1.yaml").write_text(config(0))
    files = read_files([str(tmp_path / "n*.yaml")])
    assert len(files.files) == 2
    assert [found.check for found in check_files(files)] == ["launch.ranks_are_distinct"]
    for bad in ("missing.sh", "none*.yaml", ""):
        with pytest.raises(UsageError):
            read_files([str(tmp_path / bad)])


def test_what_is_no_launch_file_is_skipped_with_a_reason():
    """Python, an empty file, foreign YAML."""
    for name, text in (("a.py", "x=1\n"), ("a.sh", "\n"), ("a.yaml", "on: push\n"), ("a.sh", "ls\n")):
        (found,) = judged({name: text})
        assert (found.check, str(found.verdict)) == ("launch.file_is_judged", "skip")


OF_NO_LAUNCH = {
    "plain.conf": "a = 1\nb = 2\n",
    "plain.txt": "a = 1\n",
    "plain": "key=value\n",
    "plain.ini": "[x]\na = 1\n",
    "plain.cfg": "a = 1\n",
    "plain.env": "A=1\nB=2\n",
    ".deepspeed_env": "A=1\n",
    "nccl.conf": "# nothing yet\n",
    "plain.json": '{"a": 1}\n',
    "ds.json": '{"optimizer": {"type": "Adam"}, "fp16": {"enabled": true}}\n',
    "plain.yaml": "a: 1\n",
    "list.yaml": "- a\n- b\n",
    "map.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {A: '1'}\n",
    "pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: a, image: b}]}\n",
    "compose.yaml": "services:\n  a:\n    image: x\n",
    "plain.toml": "a = 1\n",
    "plain.sh": "export A=1\nB=2\n",
    "echo.sh": "echo hello\n",
    "comment.sh": "#!/bin/bash\n# nothing\n",
    "script.py": "a = 1\n",
    "README.md": "torchrun train.py\n",
    "Dockerfile": "FROM python\nENV A=1\n",
    "empty.conf": "",
    "hosts": "127.0.0.1 localhost\n",
}


@pytest.mark.parametrize("name", OF_NO_LAUNCH)
def test_a_file_from_which_no_launch_value_came_was_not_judged(name):
    """Whatever its form: it says so with its line, and by itself it is no file with nothing wrong in it."""
    files = read_texts({name: OF_NO_LAUNCH[name]})
    assert not files.are_judged or files.are_open
    assert [skip.file for skip in files.skips] == [name]
    assert all(skip.line >= 1 and skip.reason for skip in files.skips)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.conf", "a = 1\nNCCL_DEBUG=INFO\n"),
        ("a.env", "PET_NNODES=2\n"),
        ("a.env", "MASTER_ADDR=node1\n"),
        ("a.env", "NCCL_NO_SUCH=1\n"),
        ("a.sh", "export LD_LIBRARY_PATH=/opt/nccl\n"),
        ("ds.json", '{"train_batch_size": 8}'),
        ("hostfile", "node1 slots=8\n"),
    ],
)
def test_one_value_of_a_job_is_enough_to_be_judged(name, text):
    """The others beside it are nobody's business."""
    files = read_texts({name: text})
    assert files.are_judged
    assert files.skips == ()


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
