"""Rehearsals of two nodes in which one thing went wrong, by name."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from preflight.job.start.rehearsal.story import Loaded, Meets, Process, Socket, Story
from preflight.launch.cast import Cast
from tests.job.measure.rehearsal.stories import LIMITS, TEXT, cache, cast, node, rank, story, torchrun

Broken = Callable[[], tuple[Story, Cast]]
OF_SLURM = {"SLURM_JOB_ID": "7"}


def first(**more):
    """node1 with rank 0, as it came to its end."""
    return node("node1", rank(0, "node1", **more), words=torchrun(0))


def second(**more):
    """node2 with rank 1."""
    return node("node2", rank(1, "node2", **more), words=torchrun(1))


def both(*, text=TEXT, why="ended", **more):
    """Rank 1 came otherwise than rank 0."""
    return story(first(), second(**more), why=why), cast(text)


def stopped(*, text=TEXT, code=1, lines=((2, 0), (3, 0)), err="", **more):
    """The script of node2 ended so, and rank 0 waits."""
    waits = node("node1", rank(0, "node1", stage="rendezvous"), code=None, words=torchrun(0))
    return story(waits, node("node2", code=code, lines=lines, err=err, **more), why="failed"), cast(text)


def waiting(*, meets=(), stage="rendezvous", why="still", **more):
    """Both ranks are still on their way to each other; what each says of the place."""
    ranks = [rank(number, f"node{number + 1}", stage=stage, **more) for number in range(2)]
    for each, met in zip(ranks, meets, strict=False):
        each.meets = Meets(*met)
    return story(*(node(each.node, each, code=None, words=torchrun(each.rank)) for each in ranks), why=why), cast()


def failed(error, *, stage="communicator", other="", **more):
    """Rank 1 failed, and rank 0 with it or before it."""
    ranks = (rank(0, "node1", stage=stage, error=other), rank(1, "node2", stage=stage, error=error, **more))
    return story(*(node(each.node, each, code=1, words=torchrun(each.rank)) for each in ranks), why="failed"), cast()


def twice(*interfaces):
    """A job to prepare the data, and the training: which interface the second node has in each."""
    programs = ("prepare.py", "train.py")
    of_first = (rank(0, "node1", argv=("python", program)) for program in programs)
    of_second = (
        rank(1, "node2", argv=("python", program), variables={"NCCL_SOCKET_IFNAME": interface})
        for program, interface in zip(programs, interfaces, strict=True)
    )
    return story(node("node1", *of_first), node("node2", *of_second)), cast()


def devices(*each):
    """Two ranks of node1 that see these devices."""
    ranks = [
        rank(number, "node1", variables={"LOCAL_RANK": local, "CUDA_VISIBLE_DEVICES": visible})
        for number, (local, visible, _) in enumerate(each)
    ]
    for one, (_, _, seen) in zip(ranks, each, strict=True):
        one.loaded = Loaded("2.8.0", "/opt/torch", "12.4", "2.21", seen)
    text = TEXT.replace("cd /srv", "export CUDA_VISIBLE_DEVICES=0")
    return story(node("node1", *ranks, words=torchrun(0)), node("node2")), cast(text, nodes=("node1",))


def lacking(**changes):
    """The script of node2 is not what it is here."""
    other = second()
    assert other.began is not None
    other.began = msgspec.structs.replace(other.began, **changes)
    return story(first(), other), cast()


def silent(text=TEXT, *, code: int | None = 0, launched=False):
    """No rank came of either script."""
    words = torchrun(0) if launched else ()
    return story(*(node(name, code=code, words=words) for name in ("node1", "node2")), why="still"), cast(text)


def calling(state="connecting"):
    """The launcher of node1 holds a connection; node2 starts nothing."""
    waits = node("node1", code=None, words=torchrun(0))
    peers = tuple(Socket(f"10.0.0.{last}:29500", state) for last in (9, 9, 8))
    waits.processes = (Process(5, 1, "S", "/opt/bin/python torchrun --token=s3cr3t a b c d e f", peers),)
    return story(waits, node("node2", code=None, lines=((2, 0),)), why="still"), cast()


def straying():
    """A real program ran on node2."""
    other = second()
    other.stray = "python train.py"
    return story(first(), other), cast()


def unheard():
    """Nothing more was heard of node2."""
    other = node("node2", code=None)
    other.failure = "the connection is gone"
    return story(first(), other), cast()


def slow(stage, at):
    """A stage of rank 1 took long."""
    other = rank(1, "node2")
    other.times[stage] = at
    return story(first(), node("node2", other, words=torchrun(1))), cast()


def numbered(*numbers, world=2, per_node=1, names=("RANK", "WORLD_SIZE", "LOCAL_RANK"), text=TEXT, **more):
    """Ranks of these numbers, so many on each node one after the other."""
    ranks = [
        rank(number, f"node{1 + place // per_node}", world=world, names=names, **more)
        for place, number in enumerate(numbers)
    ]
    held = {name: [each for each in ranks if each.node == name] for name in ("node1", "node2")}
    nodes = (node(name, *some, words=torchrun(place)) for place, (name, some) in enumerate(held.items()))
    return story(*nodes), cast(text)


def launched(*words):
    """Nodes whose agents were started with these."""
    nodes = [
        node(f"node{number + 1}", rank(number, f"node{number + 1}"), words=each) for number, each in enumerate(words)
    ]
    return story(*nodes), cast()


HERE = ("node1:29500", ("10.0.0.1",), True, "")
ELSEWHERE = ("10.0.0.9:29500", ("10.0.0.9", "10.0.1.9"), False, "")
AWAY = ("node1:29500", ("10.0.0.1",), False, "there is no way to 10.0.0.1 (node1): unreachable")
SIX = "torchrun --nnodes=2 --nproc_per_node=8 --node_rank=$R --master_addr=node1 train.py\n"

BROKEN: dict[str, dict[str, Broken]] = {
    "scripts": {
        "a command that is not found": lambda: stopped(code=127, err="/srv/run.sh: line 3: conda: command not found\n"),
        "a command that may not be run": lambda: stopped(code=126, err="/srv/run.sh: line 3: ./x: Permission denied\n"),
        "killed": lambda: stopped(code=137),
        "a command that ends with 1": lambda: stopped(code=5, lines=((2, 0), (3, 1)), err="/srv/run.sh: line 3: odd\n"),
        "a word of the command": lambda: stopped(
            code=1, lines=((2, 0), (4, 1)), err="/srv/run.sh: line 4: --master_addr nproc --nnodes train.py\n"
        ),
        "before its first line": lambda: stopped(code=3, lines=(), err="license expired\n", has_begun=False),
        "ended before the launch": lambda: stopped(code=0, lines=((2, 0),)),
        "hidden": lambda: stopped(text=TEXT.replace("cd /srv", "set +e; conda activate x || true"), code=0),
        "a command in a script that goes on": lambda: (
            story(first(), node("node2", rank(1, "node2"), lines=((2, 0), (3, 127), (4, 0)), words=torchrun(1))),
            cast(),
        ),
        "what follows the training": lambda: (
            story(first(), node("node2", rank(1, "node2"), code=1, words=torchrun(1))),
            cast(),
        ),
        "another text": lambda: lacking(differs=True),
        "no text": lambda: lacking(path="/dev/shm/preflight-1/run.sh"),
        "a real program": straying,
        "nothing heard": unheard,
        "no rank": silent,
        "no rank, and still there": lambda: silent(code=None),
        "no rank of what was launched": lambda: silent(launched=True),
        "no rank of what was launched, and still there": lambda: silent(code=None, launched=True),
        "actors": lambda: silent("ray start --head\npython serve.py\n"),
        "a login refused": lambda: stopped(code=None, err="node2: Permission denied (publickey).\n"),
    },
    "ranks": {
        "a world of one each": lambda: numbered(0, 0, world=1),
        "twice on two nodes": lambda: numbered(0, 0),
        "twice on one node": lambda: numbered(0, 0, 1, 1, world=4, per_node=2),
        "several twice": lambda: numbered(0, 1, 0, 1, world=4, per_node=2),
        "one missing": lambda: (story(first(), node("node2", code=1, lines=((2, 0),))), cast()),
        "many missing": lambda: numbered(0, 1, world=16, text=SIX),
        "more promised": lambda: numbered(0, 1, text=SIX),
        "one without a number": lambda: (
            story(first(), node("node2", rank(1, "node2", names=(), variables={"RANK": ""}), words=torchrun(1))),
            cast(),
        ),
        "no number": lambda: numbered(0, 1, names=()),
        "by accelerate": lambda: numbered(0, 1, names=(), variables={"ACCELERATE_MIXED_PRECISION": "no"}),
        "a number that is none": lambda: numbered(0, 1, names=(), variables={"RANK": "0\r"}),
        "of the batch shell, without numbers": lambda: numbered(0, 1, names=(), variables={"RANK": "", **OF_SLURM}),
        "of the batch shell": lambda: (
            story(node("node1", rank(0, "node1", stage="rendezvous", variables=OF_SLURM)), node("node2", code=None)),
            cast(),
        ),
    },
    "alike": {
        "a variable is lost": lambda: both(variables={"NCCL_SOCKET_IFNAME": ""}),
        "another value": lambda: both(variables={"NCCL_SOCKET_IFNAME": "eth1"}),
        "another torch": lambda: both(torch="2.7.0"),
        "another interpreter": lambda: both(interpreter="/usr/bin/python3"),
        "another program": lambda: both(argv=("python", "other.py")),
        "with an endpoint": lambda: both(variables={"MASTER_ADDR": "node1", "MASTER_PORT": "29500"}),
        "one number, and one by itself": lambda: launched(torchrun(0), torchrun(0, standalone="1")),
        "two jobs, of which the first differs": lambda: twice("eth1", "eth0"),
        "two jobs, of which the second differs": lambda: twice("eth0", "eth1"),
        "two jobs that both differ": lambda: twice("eth1", "eth2"),
        "the same number twice": lambda: launched(torchrun(0), torchrun(0)),
        "one by itself": lambda: launched(torchrun(0, standalone="1"), torchrun(1)),
        "each by itself": lambda: launched(torchrun(0, standalone="1"), torchrun(1, standalone="1")),
        "another id": lambda: launched(torchrun(0, rdzv_id="31"), torchrun(1, rdzv_id="7")),
        "another number of nodes": lambda: launched(torchrun(0, nnodes="2"), torchrun(1, nnodes="3")),
        "another address": lambda: launched(torchrun(0), torchrun(1, master_addr="node7")),
        "another port on one of three": lambda: launched(torchrun(0), torchrun(1), torchrun(2, master_port="1")),
        "the same number on two of three": lambda: launched(torchrun(0), torchrun(1), torchrun(1)),
        "localhost on rank 0": lambda: launched(torchrun(0, master_addr="localhost"), torchrun(1)),
        "another port": lambda: launched(torchrun(0, master_port="1234"), torchrun(1, master_port="1235")),
    },
    "limits": {
        "few files": lambda: both(text=TEXT + "ulimit -n 1024\n", limits={**LIMITS, "nofile": 1024}),
        "many files": lambda: both(limits={**LIMITS, "nofile": 65535}),
        "little locked memory": lambda: both(limits={**LIMITS, "memlock": 8 << 20}),
        "few processes": lambda: both(limits={**LIMITS, "nproc": 100}),
        "a lock": lambda: both(caches=(cache(locks=("/c/fused_adam/lock",)),)),
        "a folder that takes nothing": lambda: both(caches=(cache(can_write=False),)),
        "a full folder": lambda: both(caches=(cache(free_bytes=(1 << 30) - 1),)),
        "a folder without room": lambda: both(caches=(cache(free_bytes=0),)),
        "a folder that says nothing of its room": lambda: both(caches=(cache(free_bytes=-1),)),
        "a folder with room": lambda: both(caches=(cache(free_bytes=1 << 30),)),
        "a folder on a file server": lambda: both(caches=(cache(kind="nfs4"),)),
    },
    "training": {
        "a module is missing": lambda: failed("ModuleNotFoundError: No module named 'x'", stage="import"),
        "no address": lambda: failed("ValueError: environment variable MASTER_ADDR expected", stage="arrived"),
        "the peer is lost": lambda: failed("RuntimeError: boom", other="RuntimeError: Connection closed by peer [1]:1"),
        "a value is named": lambda: failed("RuntimeError: no socket interface eth0 found"),
        "a port is named": lambda: failed("RuntimeError: connect to 29511", variables={"MASTER_PORT": "29511"}),
        "a port is named before it is numbered": lambda: failed(
            "ValueError: MASTER_PORT", stage="arrived", variables={"MASTER_PORT": "29511", "WORLD_SIZE": ""}
        ),
        "it fails once it is numbered": lambda: failed("ValueError: odd", stage="numbered", other="ValueError: odd"),
        "they wait": waiting,
        "they wait before they are numbered": lambda: waiting(stage="arrived"),
        "they wait with numbers": lambda: waiting(stage="numbered"),
        "they wait in their import": lambda: waiting(stage="import"),
        "they wait for the communicator": lambda: waiting(stage="communicator"),
        "no way": lambda: waiting(meets=(HERE, AWAY)),
        "the address of another": lambda: waiting(meets=(ELSEWHERE, ELSEWHERE)),
        "a network of their own": lambda: waiting(meets=(HERE, HERE), own_network=True),
        "a network of their own, without a way": lambda: waiting(meets=(AWAY, AWAY), own_network=True),
        "nobody answers": calling,
        "all are connected": lambda: calling("established"),
        "one device": lambda: devices(("0", "0", ("GPU-a",)), ("0", "0", ("GPU-a",))),
        "no such device": lambda: devices(("0", "0", ("GPU-a",)), ("1", "0", ("GPU-a",))),
        "no device": lambda: devices(("0", "0", ()), ("0", "0", ())),
    },
    "pace": {
        "import": lambda: slow("rendezvous", 150.0),
        "not slow enough": lambda: slow("rendezvous", 108.0),
        "the first step": lambda: slow("first_step", 140.0),
    },
}
