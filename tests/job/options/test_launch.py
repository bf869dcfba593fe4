"""What do launch files add to the options of a run, and which options contradict them?"""

from __future__ import annotations

import pytest

from preflight.job.options.launch import parse_run, variables, with_files
from preflight.job.options.options import Options
from preflight.launch.job import Starting
from preflight.launch.read import read_texts
from preflight.launch.write import write_files
from preflight.reach.hosts import parse_hosts
from preflight.run.folder import dry_run_text
from preflight.said.errors import UsageError
from tests.launch.nodes import cluster

FILES = {"a.sh": "torchrun --nnodes 2 --node_rank $1 --nproc_per_node 4 --master_addr n1 train.py\n"}


@pytest.mark.parametrize(
    ("texts", "words", "message"),
    [
        (FILES, {"launcher": "accelerate"}, "a.sh:1 starts the job with torchrun"),
        (FILES, {"launcher": "torchrun", "ranks_per_node": "2"}, "start 4 on a node"),
    ],
)
def test_options_that_contradict_the_files_are_refused(texts, words, message):
    """With the line that says otherwise."""
    options = Options(ranks_per_node=words.get("ranks_per_node", "auto"))
    with pytest.raises(UsageError, match=message):
        with_files(options, read_texts(texts), launcher=words["launcher"])


@pytest.mark.parametrize(
    ("launcher", "got"), [(None, "torchrun"), ("torchrun", "torchrun"), ("deepspeed", "deepspeed")]
)
def test_the_launcher_comes_from_the_files(launcher, got):
    """DeepSpeed's engine runs under torchrun's agents too."""
    assert with_files(Options(), read_texts(FILES), launcher=launcher).launcher == got


def test_a_launcher_that_was_asked_for_stands_in_for_files_that_start_nothing_here():
    """A batch script starts nothing here; by name, torchrun does."""
    files = read_texts({"j.sh": "#!/bin/bash\n#SBATCH --nodes=2\nsrun torchrun --nnodes 2 t.py\n"})
    assert with_files(Options(), files, launcher=None).starting.refusal
    assert with_files(Options(), files, launcher="torchrun").starting == Starting()


def test_what_the_files_name_is_looked_for_and_compared_on_every_node():
    """Programs and configurations by their contents, beside what --same names; a folder of data by its presence."""
    words = "--nnodes=2 --nproc_per_node=1 /w/train.py --config /w/c.yaml --data_path /data/set"
    found = with_files(Options(same=("/code",)), read_texts({"a.sh": f"torchrun {words}\n"}), launcher=None)
    assert found.same == ("/code", "/w/train.py", "/w/c.yaml")
    assert found.named == ("/w/train.py", "/w/c.yaml", "/data/set")


def test_the_checks_look_for_rank_0_where_the_files_do():
    """Its address and port are looked at as variables are; one that is only a placeholder is not."""
    assert variables(read_texts(FILES), ()) == {"MASTER_ADDR": "n1", "MASTER_PORT": "29500"}
    assert variables(read_texts({"a.sh": FILES["a.sh"].replace("n1", "MASTER_IP")}), ()) == {"MASTER_PORT": "29500"}


@pytest.mark.parametrize(
    ("hosts", "known"), [("node[1-2]", False), ("train-0-x7k2p,train-1-9b4qd", True), ("train-0,train-1", True)]
)
def test_the_name_of_a_pod_is_looked_for_where_its_job_runs(hosts, known):
    """Machines, and the pods of another job, do not know a name that this job's service will give."""
    files = read_texts({"train.yaml": write_files("k8s", cluster(), folder="/x")["train.yaml"]})
    held = variables(files, parse_hosts(hosts))
    assert held.get("MASTER_ADDR") == ("train-0.train" if known else None)
    assert held["MASTER_PORT"] == "29500"


def test_settings_that_lie_in_the_folder_hold_and_are_said(tmp_path, monkeypatch):
    """preflight.toml is found by itself; a file that was named takes its place."""
    monkeypatch.chdir(tmp_path)
    assert parse_run({}, command=()).found_settings == ""
    (tmp_path / "preflight.toml").write_text("[clock]\nmax_offset_seconds = 0.25\n")
    (tmp_path / "named.toml").write_text("")
    found = parse_run({}, command=())
    assert (found.settings.clock.max_offset_seconds, found.found_settings) == (0.25, "./preflight.toml")
    assert "settings: ./preflight.toml, found in this folder" in dry_run_text(found, ())
    named = parse_run({"settings": "named.toml"}, command=())
    assert (named.settings.clock.max_offset_seconds == 0.25, named.found_settings) == (False, "")


@pytest.mark.parametrize(
    ("first", "second", "python"),
    [
        ("/opt/env/bin/python -m torch.distributed.run", "exec /opt/env/bin/python -m torch.distributed.run", True),
        ("/opt/env/bin/python3.11 -m torch.distributed.run", "/opt/env/bin/python3.10 -m torch.distributed.run", False),
        ("torchrun", "torchrun", False),
        ("docker run img /opt/env/bin/python -m torch.distributed.run", "torchrun", False),
    ],
)
def test_the_nodes_are_asked_with_the_interpreter_that_the_files_start(first, second, python):
    """The one of all files has what the job imports; a container's is not the node's."""
    words = "--nnodes=2 --node_rank={} --nproc_per_node=1 --master_addr=n1 --master_port=29500 t.py\n"
    files = read_texts({"a.sh": f"{first} {words.format(0)}", "b.sh": f"{second} {words.format(1)}"})
    found = with_files(Options(), files, launcher=None)
    assert (found.python, found.found_python) == (("/opt/env/bin/python",) * 2 if python else (None, ""))
    assert with_files(Options(python="/my/python"), files, launcher=None).python == "/my/python"
