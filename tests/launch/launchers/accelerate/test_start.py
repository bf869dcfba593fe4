"""The files that accelerate starts a job from."""

from __future__ import annotations

import pytest
import yaml

from preflight.launch.write import write_files
from preflight.said.errors import UsageError
from tests.launch.nodes import cluster, cluster_of, node
from tests.launch.plans import launches, values


def test_what_is_written_is_read_as_it_was_meant():
    """A YAML and a script for each node, which name each other; the same number of processes on all."""
    texts = write_files("accelerate", cluster_of(node(0), node(1, gpus=2)), folder="/shared/out")
    assert sorted(texts) == ["node1.sh", "node1.yaml", "node2.sh", "node2.yaml"]
    found = [values(start) for start in launches({f"/shared/out/{name}": text for name, text in texts.items()})]
    assert [start["node_rank"] for start in found] == [0, 1]
    assert {(start["nodes"], start["world_size"], start["processes_per_node"]) for start in found} == {(2, 4, 2)}


def test_on_processors_the_script_says_so_and_the_file_does_not():
    """With use_cpu in the file every rank would become a world of one."""
    texts = write_files("accelerate", cluster(gpus=0), folder="/x")
    assert "export ACCELERATE_USE_CPU=true" in texts["node1.sh"]
    assert yaml.safe_load(texts["node1.yaml"])["use_cpu"] is False


@pytest.mark.parametrize("like", ["- a\n", "just words\n", "", "# nothing\n"])
def test_a_file_to_keep_settings_of_is_a_configuration(like):
    """An empty one keeps nothing and is taken for none given; any other that is no mapping is refused."""
    if like:
        with pytest.raises(UsageError, match="--like: not an accelerate configuration"):
            write_files("accelerate", cluster(), folder="/x", like=like)
    else:
        assert write_files("accelerate", cluster(), folder="/x", like=like)


def test_a_written_file_says_all_that_accelerate_would_ask_for():
    """One world of two machines, static, with a number for each; nothing that another launcher would start."""
    texts = write_files("accelerate", cluster(), folder="/x")
    first, second = (yaml.safe_load(texts[f"node{number}.yaml"]) for number in (1, 2))
    assert first == {
        "compute_environment": "LOCAL_MACHINE",
        "debug": False,
        "distributed_type": "MULTI_GPU",
        "machine_rank": 0,
        "main_process_ip": "10.0.0.1",
        "main_process_port": 29500,
        "main_training_function": "main",
        "mixed_precision": "no",
        "num_machines": 2,
        "num_processes": 16,
        "rdzv_backend": "static",
        "same_network": False,
        "use_cpu": False,
    }
    assert second == {**first, "machine_rank": 1}


def kept(**settings):
    """What is written for the first of two nodes where the user's own file has these settings."""
    texts = write_files("accelerate", cluster(), folder="/x", like=yaml.safe_dump(settings))
    return yaml.safe_load(texts["node1.yaml"])


@pytest.mark.parametrize(
    ("port", "written"),
    [(1, 1), (65535, 65535), (0, 29500), (65536, 29500), (True, 29500), ("29501", 29500)],
)
def test_the_port_of_the_users_file_is_kept_where_it_can_be_listened_on(port, written):
    """A number from 1 to 65535, and no truth or text."""
    assert kept(main_process_port=port)["main_process_port"] == written


@pytest.mark.parametrize("kind", [False, "NO", "MULTI_CPU"])
def test_a_kind_that_would_make_every_rank_alone_becomes_one_of_many_gpus(kind):
    """And so does the use of processors; another kind stays."""
    assert kept(distributed_type=kind)["distributed_type"] == "MULTI_GPU"
    held = kept(distributed_type="FSDP", use_cpu=True)
    assert (held["distributed_type"], held["use_cpu"]) == ("MULTI_GPU", False)
    assert kept(distributed_type="FSDP")["distributed_type"] == "FSDP"


def test_settings_of_one_machine_are_opened_to_all():
    """All GPUs, a precision that is a word, and DeepSpeed started by each machine itself; the rest is the user's."""
    held = kept(gpu_ids="0,1", mixed_precision=False, deepspeed_config={"zero_stage": 3}, debug=True)
    assert (held["gpu_ids"], held["mixed_precision"], held["debug"]) == ("all", "no", True)
    assert held["deepspeed_config"] == {"zero_stage": 3, "deepspeed_multinode_launcher": "standard"}
    assert "gpu_ids" not in kept(debug=True)
    assert kept(mixed_precision="bf16")["mixed_precision"] == "bf16"
