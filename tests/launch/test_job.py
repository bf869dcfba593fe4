"""Does each launcher start the processes, with the words and variables, that its users would?"""

from __future__ import annotations

import dataclasses
import json
import subprocess

import pytest
import yaml

from preflight.judge.ledger.findings import Where
from preflight.launch.job import Job, Placement, Start, Starting, as_typed
from preflight.launch.launchers import start_job, startable, why_not
from preflight.launch.launchers.accelerate.file import KEYS
from preflight.launch.launchers.accelerate.start import accelerate_yaml


def job(*nodes: str, backend: str = "gloo") -> Job:
    """One rank a node named, in that order."""
    placements = tuple(
        Placement(rank, node, nodes[:rank].count(node), nodes.count(node)) for rank, node in enumerate(nodes)
    )
    return Job("train", {"steps": 3, "backend": backend}, placements, "10.0.0.1", (), 60.0)


FOUR = job("node1", "node1", "node2", "node2")


def processes(launcher: str, node: str, asked: Job = FOUR) -> list[dict]:
    return start_job(launcher, asked, 29511)[node]


@pytest.mark.parametrize("launcher", startable())
def test_every_launcher_hands_the_settings_over(launcher):
    """And no more threads than torchrun would give."""
    for process in processes(launcher, "node2"):
        assert json.loads(process["environment"]["PREFLIGHT_SETTINGS"])["steps"] == 3
        assert process["environment"]["OMP_NUM_THREADS"] == "1"
        assert "{script}" in [*process["argv"], *process.get("shared", {}).values()][-1]


def test_env_exports_in_a_shell_as_a_person_would():
    """The shell becomes the program, so its pid and its signals are the rank's; any path is one word."""
    (_, second) = processes("env", "node1")
    assert second["name"] == "rank1"
    assert "RANK" not in second["environment"]
    argv = [word.replace("{python}", "env").replace("{script}", "a b") for word in second["argv"]]
    shown = subprocess.run(
        [*argv[:-2], "sh", "-c", 'echo "$RANK $MASTER_ADDR:$MASTER_PORT $1"', "sh", "a b"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == "1 10.0.0.1:29511 a b\n"


def test_torchrun_is_one_agent_a_node():
    """Named after the node, numbered in HOSTS order, with the ranks of this node."""
    (agent,) = processes("torchrun", "node2")
    assert agent["name"] == "node2"
    assert agent["argv"][:3] == ["{python}", "-m", "torch.distributed.run"]
    words = {"--nnodes=2", "--node-rank=1", "--nproc-per-node=2", "--master-addr=10.0.0.1", "--master-port=29511"}
    assert words | {"--rdzv-backend=static", "--max-restarts=0"} <= set(agent["argv"])


def test_torchrun_that_may_restart_meets_by_c10d():
    """The static rendezvous cannot bring agents together twice; rank 0's node holds the store."""
    asked = dataclasses.replace(FOUR, restarts=1)
    (first,), (second,) = processes("torchrun", "node1", asked), processes("torchrun", "node2", asked)
    assert {"--max-restarts=1", "--rdzv-backend=c10d", "--rdzv-endpoint=10.0.0.1:29511"} <= set(second["argv"])
    assert [word[-1] for agent in (first, second) for word in agent["argv"] if "is_host" in word] == ["1", "0"]
    assert second["environment"]["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"


def test_accelerate_has_a_yaml_for_each_machine():
    """They differ in machine_rank only, and hold keys that accelerate knows."""
    (first,), (second,) = processes("accelerate", "node1"), processes("accelerate", "node2")
    assert "--config_file={file:accelerate.yaml}" in first["argv"]
    ours, theirs = (yaml.safe_load(agent["files"]["accelerate.yaml"]) for agent in (first, second))
    assert (ours.pop("machine_rank"), theirs.pop("machine_rank")) == (0, 1)
    assert ours == theirs
    assert (ours["num_machines"], ours["num_processes"], ours["main_process_ip"]) == (2, 4, "10.0.0.1")
    assert ours["main_process_port"] == 29511
    assert ours["use_cpu"] is False
    assert set(ours) <= set(KEYS)


def test_accelerate_on_a_cpu_is_told_by_a_variable():
    """With use_cpu in the YAML every rank would become a world of one, in silence."""
    (on_cpu,) = processes("accelerate", "node1")
    (on_gpu,) = processes("accelerate", "node1", job("node1", "node1", backend="nccl"))
    assert on_cpu["environment"]["ACCELERATE_USE_CPU"] == "true"
    assert "ACCELERATE_USE_CPU" not in on_gpu["environment"]
    assert "distributed_type: MULTI_GPU\n" in accelerate_yaml(FOUR, "node1", 1)


@pytest.mark.parametrize(
    ("launcher", "asked", "packages", "words"),
    [
        ("accelerate", FOUR, {"node1": {"accelerate": "1"}, "node2": {}}, "accelerate is not installed on node2"),
        ("deepspeed", FOUR, {"node1": {}, "node2": {}}, "deepspeed is not installed on node[1-2]"),
        ("accelerate", job("node1", "node1", "node2"), {}, "2 on node1, 1 on node2"),
        ("accelerate", job("node1"), {}, "two ranks or more"),
        ("torchrun", job("node1", "node1", "node2"), {"node1": {}, "node2": {}}, ""),
        ("accelerate", FOUR, {"node1": {"accelerate": "1"}, "node2": {"accelerate": "1"}}, ""),
    ],
)
def test_what_a_launcher_cannot_start_is_said_before(launcher, asked, packages, words):
    """In one line that names the nodes; nothing where it can."""
    told = why_not(launcher, asked, packages)
    assert words in told
    assert bool(told) is bool(words)


def from_files(**fields) -> Job:
    """The job of four with what a file says of every node."""
    start = Start(fields.pop("launcher"), Where("f.sh", 1), **fields)
    return dataclasses.replace(FOUR, starting=Starting((start,)))


def test_torchrun_starts_as_the_users_file_does():
    """Its address, id and options; the port is ours, and each node must recognise itself as it will have to."""
    asked = from_files(
        launcher="torchrun",
        address="n1",
        rendezvous="c10d",
        rendezvous_id="j1",
        options=("--rdzv-conf=join_timeout=9",),
    )
    (agent,) = processes("torchrun", "node1", asked)
    assert {"--rdzv-backend=c10d", "--rdzv-id=j1", "--rdzv-endpoint=n1:29511"} <= set(agent["argv"])
    assert [word for word in agent["argv"] if "rdzv-conf" in word][-1] == "--rdzv-conf=join_timeout=9"
    assert not any("is_host" in word for word in agent["argv"])
    assert asked.numbers_freely


def test_the_users_accelerate_file_is_not_rewritten():
    """Only the port is ours, by a word that wins over the file; a template gets its machine_rank too."""
    asked = from_files(launcher="accelerate", config="num_machines: 2\n", address="n1", has_node_rank=True)
    (agent,) = processes("accelerate", "node2", asked)
    assert agent["files"] == {"accelerate.yaml": "num_machines: 2\n"}
    assert "--main_process_port=29511" in agent["argv"]
    assert not any("machine_rank" in word or "main_process_ip" in word for word in agent["argv"])
    (agent,) = processes("accelerate", "node2", from_files(launcher="accelerate", config="num_machines: 2\n"))
    assert {"--machine_rank=1", "--main_process_ip=10.0.0.1"} <= set(agent["argv"])


def test_variables_are_those_that_the_users_file_exports():
    """The world size that it sets, even a wrong one; its threads."""
    asked = from_files(launcher="env", address="n1", world_size=2, environment={"OMP_NUM_THREADS": "6"})
    process = processes("env", "node2", asked)[0]
    assert "export WORLD_SIZE=2; " in process["argv"][2]
    assert "export MASTER_ADDR=n1; " in process["argv"][2]
    assert process["environment"]["OMP_NUM_THREADS"] == "6"


def test_what_was_started_is_told_without_secrets():
    """Commands, variables and files as a person would type them."""
    process = {"argv": ["run", "a b", "--token=x1"], "environment": {"API_KEY": "x2"}, "files": {"c.yaml": "a: 1"}}
    assert as_typed([process]) == "API_KEY=[hidden] run 'a b' --token=[hidden]\nc.yaml:\na: 1\n"
