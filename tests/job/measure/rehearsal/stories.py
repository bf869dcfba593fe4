"""A rehearsal on two nodes that went well, and how to break one thing of it."""

from __future__ import annotations

from preflight.job.start.rehearsal.story import (
    Arrived,
    Began,
    Cache,
    Launched,
    Loaded,
    NodeStory,
    Output,
    RankStory,
    Row,
    Story,
)
from preflight.launch.cast import Cast, Script
from preflight.launch.read import read_texts

TEXT = """#!/bin/bash
cd /srv
export NCCL_SOCKET_IFNAME=eth0
torchrun --nnodes=2 --nproc_per_node=1 --node_rank=$R --master_addr=node1 --master_port=29500 train.py
"""
PATH = "/srv/run.sh"
LIMITS = {"nofile": 65536, "memlock": -1, "nproc": -1}


def cast(text=TEXT, nodes=("node1", "node2"), scripts=None):
    """The script on every node."""
    script = Script("run.sh", PATH, text, ("bash",))
    return Cast(dict.fromkeys(scripts or nodes, script), tuple(nodes), read_texts({"run.sh": text}).plans)


def rows(*lines, shell=7):
    """(line, status of the command before it) of a script's own shell, each."""
    return [Row(status, shell, 0, 100.0 + number, line, PATH) for number, (line, status) in enumerate(lines)]


def rank(number, node, *, world=2, stage="done", error="", names=("RANK", "WORLD_SIZE", "LOCAL_RANK"), **more):
    """A rank that came so far."""
    variables = {"RANK": str(number), "WORLD_SIZE": str(world), "LOCAL_RANK": "0", "NCCL_SOCKET_IFNAME": "eth0"}
    fields = {"interpreter": "/opt/bin/python", "limits": LIMITS, "caches": (), "argv": ("python", "-u", "train.py")}
    variables |= more.pop("variables", {})
    torch = more.pop("torch", "2.8.0")
    fields |= more
    arrived = Arrived(
        host=node,
        pid=10 + number,
        parent=1,
        user=0,
        names=names,
        python="3.11.7",
        variables={name: value for name, value in variables.items() if value},
        shm_bytes=1 << 30,
        cgroup="",
        folder="/srv",
        began=101.0,
        **fields,
    )
    times = {"began": 101.0, "numbered": 101.5, "rendezvous": 104.0, "communicator": 104.5, "first_step": 105.0}
    story = RankStory(node, arrived, number if names else -1, stage=stage, times={**times, "running": 106.0})
    story.error = error
    story.loaded = Loaded(torch, "/opt/torch", "", "", ()) if torch else None
    return story


def cache(**fields):
    """A cache in which all is well."""
    usual = {"variable": "TORCH_EXTENSIONS_DIR", "path": "/c", "can_write": True, "kind": "ext4", "free_bytes": 1 << 40}
    return Cache(**{**usual, "locks": (), **fields})


def node(name, *ranks, code=0, lines=((2, 0), (3, 0), (4, 0)), err="", words=(), has_begun=True):
    """A node with its script and its ranks."""
    story = NodeStory(name, began=Began(PATH, "/srv", False, 100.0), code=code, rows=rows(*lines))
    story.ranks = {f"{name}-{number}": each for number, each in enumerate(ranks)}
    story.output = Output("", err, "", "" if has_begun else err, has_begun)
    if words:
        story.launched = [Launched(tuple(words), 5, 1, 100.5)]
    return story


def torchrun(number, **options):
    """The words of an agent as they arrived on a node."""
    given = {"nnodes": "2", "node_rank": str(number), "master_addr": "node1", **options}
    return ("python", "torchrun", *(f"--{name}={value}" for name, value in given.items()), "train.py")


def story(*nodes, why="ended"):
    """The whole of it; without nodes one that went well."""
    found = nodes or tuple(
        node(f"node{number + 1}", rank(number, f"node{number + 1}"), words=torchrun(number)) for number in range(2)
    )
    return Story({each.node: each for each in found}, seconds=20.0, why_over=why)
