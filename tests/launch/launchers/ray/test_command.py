"""What Ray's commands ask for."""

from __future__ import annotations

from tests.launch.plans import launch, values

HEAD = "ray start --head --node-ip-address=10.0.0.1 --port=6380 --num-gpus 8\n"


def test_the_head_and_a_node_that_joins_it_are_read():
    """Where the head listens, and where the others look for it; 6379 where nothing is said."""
    assert values(launch(HEAD))["master_address"] == "10.0.0.1"
    assert values(launch("ray start --head\n"))["master_port"] == 6379
    found = values(launch("ray start --address=10.0.0.1:6380 --block\n"))
    assert (found["master_address"], found["master_port"]) == ("10.0.0.1", 6380)


def test_a_submitted_program_is_read_with_its_arguments():
    """Behind --, whatever interpreter stands there."""
    text = "ray job submit --address=http://127.0.0.1:8265 --runtime-env-json='{}' -- python3 train.py --nodes 2\n"
    assert values(launch(text))["program"] == "train.py"
