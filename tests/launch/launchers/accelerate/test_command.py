"""What an `accelerate launch` command and its file ask for."""

from __future__ import annotations

import pytest

from tests.launch.plans import launch, values
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
