"""Processes, machines, devices and samples."""

from __future__ import annotations

import pytest

from preflight.launch.read import read_files
from preflight.launch.rules.check import check_files
from tests.launch.samples import BATCHES, DEEPSPEED, HOSTFILE, config, failed, judged, rules, torchrun


def test_processes_that_do_not_divide():
    """accelerate starts the floor and waits for the rest."""
    (found,) = judged({"n.yaml": config(num_processes="15")})
    assert found.check == "launch.num_processes_divides"
    assert "starts 7 on each machine, 14 in all" in found.message
    assert found.fix == "num_processes: 14"


def test_devices_against_processes():
    """Fewer devices than processes fail, more warn, `all` is silent."""
    assert failed({"n.yaml": config(gpu_ids="0,1,2,3")}) == ["processes_match_devices"]
    ten = "'0,1,2,3,4,5,6,7,8,9'"
    assert [str(found.verdict) for found in judged({"n.yaml": config(gpu_ids=ten)})] == ["warn"]
    assert failed({"n.sh": "export CUDA_VISIBLE_DEVICES=0,1\n" + torchrun()}) == ["processes_match_devices"]
    assert rules({"n.yaml": config(gpu_ids="all")}) == []


@pytest.mark.parametrize("changes", [{"use_cpu": "true"}, {"distributed_type": "MULTI_CPU"}])
def test_cpu_ranks_that_become_worlds_of_one(changes):
    """use_cpu and MULTI_CPU start one plain process; with mpirun they are right."""
    assert failed({"n.yaml": config(**changes)}) == ["cpu_ranks_form_one_world"]
    assert failed({"n.yaml": config(**changes) + "mpirun_config:\n  mpirun_hostfile: hosts\n"}) == []


def test_the_cpu_option_of_the_command():
    """`accelerate launch --cpu --num_processes 2` runs one process."""
    assert failed({"n.sh": "accelerate launch --cpu --num_processes 2 t.py\n"}) == ["cpu_ranks_form_one_world"]
    assert rules({"n.sh": "accelerate launch --cpu --num_processes 1 t.py\n"}) == []


def test_a_file_for_several_machines_counts_them():
    """Without num_machines accelerate takes 1."""
    assert failed({"n.yaml": config(num_machines=None)}) == ["num_machines_is_given"]
    single = config(num_machines=None, main_process_ip=None, main_process_port=None)
    assert rules({"n.yaml": single}) == []


def test_a_command_over_a_file_without_processes():
    """accelerate refuses to start; the command line may name them."""
    files = {"c.yaml": config(num_processes=None)}
    assert failed({**files, "n.sh": "accelerate launch --config_file c.yaml t.py\n"}) == ["num_processes_is_given"]
    assert rules({**files, "n.sh": "accelerate launch --config_file c.yaml --num_processes 16 t.py\n"}) == []


def test_parallelism_multiplies_to_the_processes():
    """2 x 2 x 4 is 16, 2 x 2 x 2 is not."""
    section = (
        "parallelism_config:\n  parallelism_config_dp_replicate_size: 2\n "
        " parallelism_config_dp_shard_size: 2\n  parallelism_config_tp_size: {}\n"
    )
    assert rules({"n.yaml": config(distributed_type="FSDP") + section.format(4)}) == []
    assert failed({"n.yaml": config(distributed_type="FSDP") + section.format(2)}) == ["parallelism_fits_num_processes"]


def test_deepspeed_over_several_machines_wants_a_launcher():
    """The default is pdsh over a hostfile; "standard" needs none."""
    kind = config(distributed_type="DEEPSPEED") + "deepspeed_config:\n  zero_stage: 2\n"
    assert failed({"n.yaml": kind}) == ["deepspeed_reaches_every_machine"]
    assert rules({"n.yaml": kind + "  deepspeed_multinode_launcher: standard\n"}) == []


def test_batches_multiply():
    """64 = 4 x 1 x 16; 256 is not 1 x 3 x anything."""
    files = {"hostfile": HOSTFILE, "run.sh": DEEPSPEED, "ds.json": BATCHES}
    assert rules(files) == []
    assert failed({**files, "ds.json": BATCHES.replace("64", "60")}) == ["batch_sizes_multiply"]
    odd = '{"train_batch_size": 256, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": "auto"}'
    three = torchrun(nodes=3, program="t.py --deepspeed ds.json").replace("--nproc_per_node=8", "--nproc_per_node=1")
    assert failed({"ds.json": odd, "n.sh": three}) == ["batch_sizes_multiply"]


CONFIG = '{"train_batch_size": 256, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 4}'


@pytest.mark.parametrize("option", ["--deepspeed ", "--deepspeed_config ", "--deepspeed=", "--deepspeed_config="])
def test_the_configuration_that_a_script_names_is_multiplied_with_its_world(option, tmp_path, monkeypatch):
    """Found beside the script, as the program will find it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ds.json").write_text(CONFIG)
    for count, found in ((8, []), (4, ["launch.batch_sizes_multiply"])):
        text = f"torchrun --nnodes=2 --node_rank=0 --master_addr=10.0.0.1 --nproc_per_node={count} t.py {option}ds.json"
        (tmp_path / "n.sh").write_text(text + "\n")
        told = check_files(read_files(["n.sh"]))
        assert [finding.check for finding in told] == found


def test_the_trainer_says_the_same_as_the_configuration():
    """transformers refuses two figures for one thing."""
    text = "torchrun --nproc_per_node=8 t.py --deepspeed ds.json --per_device_train_batch_size {}\n"
    config = '{"train_micro_batch_size_per_gpu": 4}'
    assert rules({"n.sh": text.format(4), "ds.json": config}) == []
    assert rules({"n.sh": text.format(2), "ds.json": config}) == ["batch_sizes_multiply"]
    assert rules({"n.sh": text.format(2), "ds.json": config.replace("4", '"auto"')}) == []


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("--tensor-model-parallel-size 4 --pipeline-model-parallel-size 2", []),
        ("--tensor-model-parallel-size 8 --pipeline-model-parallel-size 4", ["model_parallelism_fits"]),
        ("--tensor-model-parallel-size 4 --global-batch-size 256 --micro-batch-size 2", []),
        ("--tensor-model-parallel-size 4 --global-batch-size 10 --micro-batch-size 4", ["batch_sizes_multiply"]),
        ("--tensor-model-parallel-size 4 --global-batch-size 10 --micro-batch-size 4 $MORE", []),
        ("--global-batch-size 64 --micro-batch-size 4", []),
        ("--global-batch-size 100 --micro-batch-size 4", ["batch_sizes_multiply"]),
        ("--global-batch-size 28 --micro-batch-size 4 --ds-sequence-parallel-size 8", ["batch_sizes_multiply"]),
        ("--global-batch-size 32 --micro-batch-size 4 --ds-sequence-parallel-size 8", []),
        ("--global-batch-size 100 --micro-batch-size 4 --use-checkpoint-args", []),
        ("model.tensor_model_parallel_size=3", ["model_parallelism_fits"]),
    ],
)
def test_the_parts_of_a_megatron_model_make_up_the_world(words, found):
    """Tensor x pipeline x context x data parallel; nothing is said where a size hides behind a variable."""
    text = "torchrun --nnodes=2 --node_rank=0 --master_addr=10.0.0.1 --nproc_per_node=8 pretrain_gpt.py"
    assert rules({"n.sh": f"{text} {words}\n"}) == found


def test_a_branch_for_one_node_is_no_statement_about_the_model():
    """An interactive branch beside the batch job has fewer processes than the model needs."""
    text = "if [ $BATCH -eq 0 ]; then\n  torchrun --nproc_per_node 8 t.py --tensor-model-parallel-size 16\nfi\n"
    assert rules({"n.sh": text}) == []


@pytest.mark.parametrize(
    ("words", "is_told"),
    [
        ("--world_size=16 --n_nodes 2", False),
        ("--world-size 8", True),
        ("--n_nodes=4", True),
        ("trainer.num_nodes=4", True),
        ("--num_nodes 5000", False),
    ],
)
def test_what_a_program_is_told_is_what_is_started(words, is_told):
    """Nodes and processes; --num_nodes alone may be those of a graph."""
    command = "torchrun --nnodes=2 --nproc_per_node=8 --node_rank=0 --master_addr=10.0.0.1 train.py"
    found = rules({"node0.sh": f"{command} {words}\n"})
    assert ("program_counts_what_is_started" in found) == is_told
