"""Are accelerate's commands read over the file that they name, and are those that are written right?"""

from __future__ import annotations

import pytest
import yaml

from preflight.errors import UsageError
from preflight.launch.write import write_files
from tests.launch.nodes import cluster, cluster_of, node
from tests.launch.plans import launch, launches, values
from tests.launch.samples import config

COMMAND = "accelerate launch --config_file c.yaml {} t.py --lr 1\n"


def test_a_file_by_itself_is_a_start_on_each_machine():
    """With the processes that accelerate gives to each."""
    found = launch(config(1), name="n.yaml")
    assert (found["launcher"], found["nodes"]["line"]) == ("accelerate", 11)
    assert values(found) == {
        "nodes": 2,
        "node_rank": 1,
        "processes_per_node": 8,
        "world_size": 16,
        "master_address": "10.0.0.1",
        "master_port": 29500,
        "rendezvous": "static",
        "device_ids": "all",
        "mixed_precision": "bf16",
    }


@pytest.mark.parametrize(
    ("words", "field", "value", "file"),
    [
        ("", "node_rank", 1, "c.yaml"),
        ("--machine_rank 0", "node_rank", 0, "n.sh"),
        ("--num_processes=8", "processes_per_node", 4, "n.sh"),
        ("--main_process_ip n7", "master_address", "n7", "n.sh"),
        ("--rdzv_backend c10d", "rendezvous", "c10d", "n.sh"),
        ("--mixed_precision no", "mixed_precision", "no", "n.sh"),
    ],
)
def test_an_option_of_the_command_wins_over_the_file(words, field, value, file):
    """And the finding will point at the one that counts."""
    found = launch(COMMAND.format(words), **{"c.yaml": config(1)})
    assert (found[field]["value"], found[field]["file"]) == (value, file)
    assert found["program"]["value"] == "t.py"


def test_the_rendezvous_of_the_file_is_not_read():
    """accelerate's own parser has a default for it, which wins over the file."""
    found = launch(COMMAND.format(""), **{"c.yaml": config(1, rdzv_backend="c10d")})
    assert found["rendezvous"] == {"value": "static", "file": "n.sh", "line": 1, "origin": "tool"}


def test_a_file_that_was_not_given_leaves_everything_open():
    """No default is taken for what it may say; the rendezvous is the command line's alone."""
    assert values(launch(COMMAND.format(""))) == {"program": "t.py", "rendezvous": "static"}


def test_options_are_not_abbreviated():
    """accelerate takes --num_proc for the program's: the first word behind it is the program."""
    assert values(launch("accelerate launch --num_proc 2 t.py\n"))["program"] == "2"


@pytest.mark.parametrize(("kind", "world"), [("NO", 1), ("MULTI_GPU", None)])
def test_a_number_of_processes_that_is_not_given_follows_from_the_kind(kind, world):
    """One without distribution; else as many as there are GPUs, which the file does not tell."""
    found = values(launch(config(distributed_type=f"'{kind}'", num_processes=None), name="n.yaml"))
    assert found.get("world_size") == world


def test_processes_are_divided_as_accelerate_divides():
    """Rounded down, and over no machine at all not told."""
    assert values(launch(config(num_processes="15"), name="n.yaml"))["processes_per_node"] == 7
    assert "processes_per_node" not in values(launch(config(num_machines="0"), name="n.yaml"))


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
