"""Are containers that are started by hand judged: their network, their memory, the variables that they get?"""

from __future__ import annotations

import pytest

from preflight.launch.containers import run_of
from tests.launch.plans import launch, values
from tests.launch.samples import failed, rules

TORCHRUN = "torchrun --nnodes 2 --nproc_per_node 8 --node_rank 0 --master_addr 10.0.0.1 t.py"
RIGHT = "docker run --gpus all --rm -it --network=host --shm-size=16g --ulimit memlock=-1 image "


def test_the_options_of_docker_run_are_read_up_to_the_image():
    """With = or a blank, flags alone, the same option more than once."""
    words = "docker run --rm -it --net host --ipc=host -e A=1 -e B -v /dev/infiniband:/dev/infiniband image torchrun"
    found = run_of(tuple(words.split()), "n.sh", 3)
    assert (found.network, found.ipc, found.variables, found.has_gpus) == ("host", "host", {"A": "1"}, False)
    assert found.devices == ("/dev/infiniband:/dev/infiniband",)
    assert run_of(("docker", "build", "."), "n.sh", 1) is None
    assert run_of(("srun",), "n.sh", 1) is None


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (RIGHT.replace("--network=host ", ""), "containers_share_the_network"),
        (RIGHT.replace("--network=host ", "-p 29500:29500 "), "containers_share_the_network"),
        (RIGHT.replace("--shm-size=16g ", ""), "containers_have_shared_memory"),
        (RIGHT.replace("--ulimit memlock=-1", "--device=/dev/infiniband"), "containers_lock_memory"),
    ],
)
def test_one_thing_missing_is_told(words, rule):
    """The bridge of Docker, 64 MiB of shared memory, a limit on locked memory."""
    assert rules({"n.sh": f"{words} {TORCHRUN}\n"}) == [rule]


@pytest.mark.parametrize(
    "words",
    [
        RIGHT,
        RIGHT.replace("--shm-size=16g", "--ipc=host"),
        RIGHT.replace("--ulimit memlock=-1", "--privileged --device=/dev/infiniband"),
        RIGHT.replace("--network=host", "--network=overlay1"),
        "docker run $OPTIONS image",
        "docker exec -i trainer",
    ],
)
def test_what_is_enough_is_silent(words):
    """Other ways to the same end, and what cannot be known."""
    assert rules({"n.sh": f"{words} {TORCHRUN}\n"}) == []


def test_one_node_may_stay_behind_the_bridge():
    """Its ranks reach each other there."""
    words = RIGHT.replace("--network=host ", "")
    assert rules({"n.sh": f"{words} torchrun --standalone --nproc_per_node 8 t.py\n"}) == []


def test_variables_enter_a_container_by_dash_e():
    """Those are the job's; what the shell exports outside stays outside."""
    text = f"export NCCL_DEBUG=INFO\n{RIGHT} {TORCHRUN}\n"
    assert rules({"n.sh": text}) == ["containers_get_the_variables"]
    assert rules({"n.sh": text.replace("--rm", "--rm -e NCCL_DEBUG")}) == []
    inside = RIGHT.replace("--rm", "--rm -e RANK=3 -e WORLD_SIZE=4 -e MASTER_ADDR=10.0.0.1 -e NCCL_IB_DISABLE=true")
    assert values(launch(f"{inside} python t.py\n"))["rank"] == 3
    assert "variables_have_values_that_count" in failed({"n.sh": f"{inside} python t.py\n"})


def of(words: str):
    """The container of `docker run` with these options."""
    return run_of(("docker", "run", *words.split(), "image", "torchrun"), "n.sh", 3)


@pytest.mark.parametrize(
    ("words", "locks"),
    [
        ("--ulimit memlock=-1", True),
        ("--ulimit=memlock=-1:-1", True),
        ("--ulimit nofile=1024", False),
        ("--cap-add IPC_LOCK", True),
        ("--cap-add=ALL", True),
        ("--cap-add SYS_PTRACE", False),
        ("", False),
    ],
)
def test_memory_may_be_locked_by_a_limit_or_a_right(words, locks):
    """Docker's own default is 64 KiB."""
    assert of(words).locks_memory is locks


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("--net host", "network", "host"),
        ("--network=none --network host", "network", "host"),
        ("-p 29500:29500", "publishes", True),
        ("--publish=29500:29500", "publishes", True),
        ("", "publishes", False),
        ("--shm-size=16g", "shm", "16g"),
        ("--ipc host", "ipc", "host"),
        ("--privileged", "is_privileged", True),
        ("", "is_privileged", False),
        ("--gpus all", "has_gpus", True),
        ("--runtime=nvidia", "has_gpus", True),
        ("--runtime=runc", "has_gpus", False),
        ("--device /dev/infiniband -v /a:/b --mount type=bind", "devices", ("/dev/infiniband", "/a:/b", "type=bind")),
        ("-e A=1 --env B=2=3", "variables", {"A": "1", "B": "2=3"}),
        ("-e A --env=B", "taken_along", ("A", "B")),
        ("--env-file vars", "is_opaque", True),
        ("-e A=1", "is_opaque", False),
        ("--name x --rm -it", "image", "image"),
    ],
)
def test_each_option_of_docker_run_is_read(words, field, value):
    """With = or a blank; of the network the last one counts."""
    assert getattr(of(words), field) == value


def test_a_command_that_runs_no_image_is_no_container():
    """docker exec, and the word run of another program."""
    assert run_of(("docker", "exec", "box", "torchrun"), "n.sh", 3) is None
    assert run_of(("uv", "run", "torchrun"), "n.sh", 3) is None
    assert run_of(("nvidia-docker", "run", "image"), "n.sh", 3).has_gpus
