"""What do tests/data/said/gathered.txt list of rehearsals: what each node is told, when, and when it is over?"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from preflight.job.measure.rehearsal import judged, launchers, scripts, whole
from preflight.job.start.rehearsal import pods, run
from preflight.job.start.rehearsal.story import Story
from preflight.launch.cast import Cast, Script
from preflight.launch.manifests.rehearsal import MARK
from preflight.reach.host import Host
from preflight.reach.hosts import parse_hosts
from preflight.said.errors import NotMeasured
from preflight.testing import healthy
from tests import found
from tests.clock import Clock
from tests.house import ROOT
from tests.instead import entries, instead
from tests.job.collect import nodes as asking
from tests.job.figures import figures
from tests.job.measure.rehearsal.stories import PATH, cast, node, rank, story

BEGAN = {"began": {"path": "/srv/run.sh", "folder": "/srv", "differs": False, "at": 100.0}}
LAUNCHER = {"launcher": ["torchrun"], "pid": 5, "parent": 1, "at": 100.5}
ENDED = {"ended": 0, "shell": 7, "at": 120.0}
ARRIVED = {
    "record": "arrived",
    "host": "n",
    "pid": 10,
    "parent": 1,
    "user": 0,
    "argv": ["python", "train.py"],
    "names": ["RANK", "WORLD_SIZE", "LOCAL_RANK"],
    "interpreter": "/opt/python",
    "python": "3.11.7",
    "limits": {},
    "shm_bytes": 1,
    "cgroup": "",
    "folder": "/srv",
    "caches": [],
    "began": 101.0,
    "at": 101.0,
}


def notes(*some: dict[str, Any], rank: int = 0) -> dict[str, Any]:
    """What a rank, or a launcher, wrote down."""
    return {"notes": [[f"rank{rank}", note] for note in some]}


def arrived(rank: int, *, world: int = 2) -> dict[str, Any]:
    """A rank came."""
    return notes(ARRIVED | {"variables": {"RANK": str(rank), "WORLD_SIZE": str(world)}}, rank=rank)


def going(rank: int, *more: Any) -> list[Any]:
    """The script of a node begins and starts a rank, and what follows."""
    return [0.1, {"ready": True}, 0.5, BEGAN, 1.0, notes(LAUNCHER, rank=rank), 2.0, arrived(rank), *more]


def done(rank: int) -> dict[str, Any]:
    """A rank has trained."""
    return notes({"record": "done", "at": 110.0}, rank=rank)


TRIED = {"peer": "10.0.0.1:1", "state": "tried"}
LEFT = {
    "processes": [{"pid": 7, "parent": 1, "state": "S", "command": "python", "sockets": [TRIED]}],
    "output": {"out": "a", "err": "b", "out_before": "c", "err_before": "d", "has_begun": True},
}
NUMBERED = {"record": "numbered", "rank": 3, "chosen": ["MASTER_ADDR"], "at": 102.0}
MEETS = {"record": "meets", "place": "a:1", "addresses": ["10.0.0.1"], "own": True, "error": "", "at": 102.5}
LOADED = {"record": "loaded", "torch": "2.8", "torch_file": "/t", "cuda": "", "nccl": "", "devices": [], "at": 103.0}
MADE = {"made": "/tmp/torchelastic_x"}
STEP = {"record": "step", "seconds": 0.5}
STAGE = {"record": "stage", "stage": "rendezvous", "at": 103.0}
# What both nodes say, and when.
FOLLOWED: dict[str, tuple[list[Any], list[Any]]] = {
    "all well": (going(0, 3.0, done(0), 0.5, ENDED, 30.0), going(1, 3.0, done(1), 0.7, ENDED, 30.0)),
    "one ends with 1": (going(0, 90.0), going(1, 1.0, ENDED | {"ended": 1}, 90.0)),
    "one is stray": (going(0, 90.0), [0.1, {"ready": True}, 3.0, {"stray": "python train.py"}, 90.0]),
    "ranks wait for ever": (going(0, notes(STAGE), 300.0), going(1, notes(STAGE, rank=1), 300.0)),
    "it goes on and on": (going(0, *[9.0, arrived(0)] * 30), going(1, *[9.0, arrived(1)] * 30)),
    "one is never ready": (going(0, 90.0), [300.0]),
    "what is left is told": (
        going(0, 3.0, done(0), ENDED, LEFT, 30.0),
        going(1, 3.0, notes({"record": "failed", "error": "x", "at": 9.0}, rank=1), ENDED | {"ended": 1}, LEFT, 30.0),
    ),
    "ranks that say all": (
        going(0, notes(NUMBERED, MEETS, LOADED, MADE), 3.0, done(0), ENDED, 30.0),
        going(1, notes(NUMBERED, STEP, rank=1), 3.0, notes(NUMBERED | {"rank": "x"}, rank=1), 90.0),
    ),
    "words that are none": (going(0, 90.0), [0.1, {"ready": True}, {"stray": 7}, 90.0]),
    "one is lost": (going(0, 90.0), [0.1, {"ready": True}, 5.0, asking.LOST]),
    "one cannot be told": (going(0, 90.0), [asking.LOST]),
}


class Node(asking.Node):
    """One that notes when it is asked."""

    clock = Clock()

    def note(self, line: str) -> None:
        """What it was asked or told."""
        super().note(f"{self.clock.passed:.1f} {line}")


def of_rehearsals() -> Iterator[str]:
    """What nodes are told while they rehearse, when it is over and why, and how far it is said to have come."""
    for (title, both), seconds in itertools.product(FOLLOWED.items(), (90.0, 30.0)):
        nodes = {
            f"node{number}": Node(f"node{number}", free_port=[{"port": 4711}], rehearse=script)
            for number, script in enumerate(both, 1)
        }
        yield from followed(f"{title}, {seconds:g} s", nodes, cast(), seconds=seconds)
    lost = {
        "node1": Node("node1"),
        "node2": Node("node2", free_port=[{"port": 4711}], rehearse=FOLLOWED["all well"][1]),
    }
    yield from followed("the first has no port", lost, cast(), seconds=40.0)
    one = {name: Node(name, free_port=[{"port": 1024}], rehearse=going(0, 9.0)) for name in ("node1", "node2")}
    yield from followed("one script for both", one, cast(scripts=("node1",)), seconds=40.0)
    for title, lines in {"at another line": (2, 5), "at its launch": (2, 4)}.items():
        rows = {"rows": [[0, 7, 0, 100.0 + line, line, PATH] for line in lines]}
        first, second = [0.1, {"ready": True}, BEGAN, rows], [0.1, {"ready": True}, arrived(0), notes(STAGE)]
        endings = {"goes on": [], "ends": [0.5, ENDED], "fails": [0.5, ENDED | {"ended": 2}]}
        for ends, left in endings.items():
            some = {"node1": [*first, *left, 90.0], "node2": [*second, 90.0]}
            both = {name: Node(name, free_port=[{"port": 1024}], rehearse=script) for name, script in some.items()}
            yield from followed(f"it {ends} {title}", both, cast(scripts=("node1",)), seconds=80.0)


def followed(title: str, nodes: dict[str, Node], whole_cast: Cast, *, seconds: float) -> Iterator[str]:
    """One rehearsal."""
    said: list[str] = []
    clock = Clock()
    for one in nodes.values():
        one.clock = clock
    followed_to = clock.run(
        run.rehearse(
            nodes,  # type: ignore[arg-type]
            whole_cast,
            layers=(("--env", {"A": "1"}),),
            backend="auto",
            address="10.0.0.1",
            is_login={"node1": True, "node2": False},
            drop={"node1": (), "node2": ("RANK",)},
            job="7",
            seconds=seconds,
            say=lambda text: said.append(f"{clock.passed:.1f} {' '.join(found.values(text))}"),
        )
    )
    yield f"=== {title}"
    yield from (f"{name}: {' | '.join(one.told)}" for name, one in nodes.items())
    yield f"says {' | '.join(said)}"
    yield ended(followed_to)


def ended(heard: Story) -> str:
    """How it ended, and how each node did."""
    nodes = []
    for one in heard.nodes.values():
        why = " ".join(found.values(one.failure)) or one.failure
        ranks = []
        for each in one.ranks.values():
            met = f"{figures(each.loaded)} {figures(each.meets)} {each.chosen} {each.times}"
            ranks.append(f"{each.rank} {each.stage} {each.error} {figures(each.records)} {met}")
        told = f"{figures(one.processes)} {figures(one.output)} {ranks}"
        nodes.append(f"{one.node} {one.code} {one.stray} {why} {told}")
    return f"{heard.why_over} after {heard.seconds:.1f} s: {', '.join(nodes)}"


def of_preparations() -> Iterator[str]:
    """How a rehearsal is prepared from the options: what it is to inherit and to drop, and for how long it may run."""
    variables = {"SLURM_JOB_ID": "7", "SRUN_DEBUG": "3", "PATH": "/bin"}
    of_slurm = tuple(replace(host, transport="slurm") for host in parse_hosts("node[1-2]"))
    hosts = {"ssh": parse_hosts("node[1-2]"), "local": parse_hosts("local"), "slurm": of_slurm}
    texts = ("torchrun train.py", "mpirun -x A -np 2 python train.py")
    for (kind, reached), (text, job, wrap) in itertools.product(
        hosts.items(), ((texts[0], "", ""), (texts[1], "8", "nice"))
    ):
        yield f"=== {kind}, {text}, {job or 'by hand'}, {wrap or 'plain'}"
        script = Script("run.sh", "/srv/run.sh", f"{text}\n", ("bash",))
        names = tuple(host.name for host in reached)
        with entries("os.environ", variables | ({whole.SUBMITTED: job} if job else {}), clear=True):
            yield prepared(Cast(dict.fromkeys(names, script), names), reached, wrap=wrap)
    yield "=== without a script, and without time"
    yield prepared(None, ())
    yield from (prepared(cast(), hosts["ssh"], seconds=seconds) for seconds in (4.9, 5.0))


def prepared(given: Cast | None, hosts: tuple[Host, ...], *, wrap: str = "", seconds: float = 60.0) -> str:
    """What the nodes would be asked, or why they are not."""
    heard: list[str] = []

    async def rehearsed(sessions: Any, given: Cast, *, say: Any, **more: Any) -> Story:
        heard.append(
            asking.shown({"of": list(sessions), "scripts": list(given.scripts), **more, "tells": say is print})
        )
        return story(*(node(name, rank(number, name)) for number, name in enumerate(given.nodes)))

    layers = (("/etc/nccl.conf", {"B": "2"}), ("--env", {"A": "1"}))
    options: Any = SimpleNamespace(cast=given, hosts=hosts, wrap=wrap, layers=layers, backend="gloo")
    sessions: Any = {"node1": None}
    with instead(whole, "run", rehearsed):
        try:
            found_there, logs = asyncio.run(
                whole.rehearse(sessions, healthy(2).cluster, options, print, seconds=seconds)
            )
        except NotMeasured as error:
            return f"not measured: {len(str(error).split())} words"
    return f"{' '.join(heard)} | {figures(found_there.causes)} {logs}"


START = "torchrun --nnodes=2 --node_rank=0 --nproc_per_node=1 --master_addr=node1 train.py"
# What stands before or in a start, and takes our hook away from it or not.
STARTS = (
    *("docker run img {}", "docker run -e PYTHONPATH img {}", "podman container exec c {}", "nerdctl exec c {}"),
    *("apptainer exec --cleanenv i.sif {}", "singularity exec --containall i.sif {}", "apptainer exec i.sif {}"),
    *("srun --export=NONE {}", "srun --export ALL {}", "env -i PATH=/bin {}", "env -i PYTHONPATH=$PYTHONPATH {}"),
    *("sudo {}", "sudo -E {}", "python -I -m torch.distributed.run --nproc_per_node=1 t.py", "PYTHONPATH=/x {}"),
    *("PYTHONPATH=/x:$PYTHONPATH {}", "mpirun -x A -np 2 python t.py", "mpirun -x PYTHONPATH -np 2 python t.py"),
    *("mpirun -np 2 python t.py", "ssh node2 '{}'", "ssh node2 PYTHONPATH=$PYTHONPATH '{}'", "kubectl exec p -- {}"),
    *("export PYTHONPATH=/x\n{}", "  PYTHONPATH=$PYTHONPATH:/x\n{}", "unset PYTHONPATH\n{}", "# ssh node2\n{}", "{}"),
    *("docker run \\\n  img \\\n  {}", "srun \\\n  --export=NONE \\\n  {}", "ssh node1 date\n{}"),
)


OF_LAUNCHERS = (
    *("torchrun --nnodes=2 --node_rank 1 train.py --lr 3", "torchrun --standalone t.py", "torchrun --rdzv-id= x.py"),
    *("python -m torch.distributed.run --nnodes 2 -- train.py", "accelerate launch --multi_gpu --machine_rank=0 t.py"),
    *("torchrun --max-restarts --tee 3 t.py --node_rank=9", "torchrun --nnodes", "--nnodes=2", ""),
    *("torchrun --Nnodes=2 -x --a_b=c=d --e f --e g", "torchrun --role train.py --x=1", "run.py --a=b t.py --c=d"),
)


def of_refusals() -> Iterator[str]:
    """Whether a script is not run at all, and what is to be added where; and where our hook may not come."""
    for start in STARTS:
        text = f"#!/bin/bash\ncd /srv\n{start.format(START)}\nwait\n"
        whole_cast = cast(text, nodes=("node1",))
        yield f"=== {start!r}"
        yield from (f"{figures(cause)}" for cause in scripts.refused(whole_cast))
        told = scripts.hidden(whole_cast.scripts["node1"])
        yield f"hidden {told and told[0]} {' '.join(found.values(told[1])) if told else ''}"
    yield from (f"{line}: {launchers.options(line.split())}" for line in OF_LAUNCHERS)
    refusal = judged.not_run(cast(f"env -i {START}\n"))
    yield f"not run {figures(refusal)} {judged.not_run(cast())}"


POD = Script("job.yaml", "/srv/job.yaml", "", ("sh",))
LOGS = {
    "all well": [
        f"[pod/a/main] {MARK} rank0 {json.dumps(arrived(0)['notes'][0][1])}",
        "[pod/b/main] a word of its own",
        f"[pod/b/main] {MARK} rank1 {json.dumps(arrived(1)['notes'][0][1] | {'began': 99.0})}",
        f"[pod/a/main] {MARK} launcher {json.dumps(LAUNCHER | {'at': 98.0})}",
        f"[pod/a/main] {MARK} ended 0 21",
        f"[pod/b/main] {MARK} ended 0 20",
    ],
    "of two containers one failed": [f"[pod/a/one] {MARK} ended 3 5", f"[pod/a/two] {MARK} ended 0 6", "[pod/a/two]"],
    "one goes on": [f"[pod/a/main] {MARK} ended 0 x", "[pod/b/main]   and goes on"],
    "no prefix, and lines that were cut": [f"{MARK} ended - 7", f"{MARK} rank0 {{", f"{MARK} rank0 [1]", "x" * 70000],
    "nothing": [],
}


def of_pods() -> Iterator[str]:
    """What the logs of pods tell, and what pods carry."""
    for title, lines in LOGS.items():
        heard, whole_cast = pods.heard(lines, POD, ())
        yield f"=== {title}"
        yield f"{ended(heard)} {list(whole_cast.scripts)} {whole_cast.nodes}"
        for one in heard.nodes.values():
            output = (one.output.out, one.output.err, one.output.has_begun) if one.output else ()
            told = [f"{part[:40]!r} of {len(part)}" if isinstance(part, str) else str(part) for part in output]
            yield f"  {one.node}: {figures(one.began)} {told} {len(one.ranks)} ranks"
    yield "=== carried"
    held = pods.carried(["train.py"], seconds=30.0)
    yield f"{held['settings.json']} {sorted(held)} {['def ' in text for text in held.values()]}"
    made = pods.script_of_manifest(str(ROOT / "LICENSE"))
    yield f"{made.name == made.path} {len(made.text) > 100} {made.shell} {made.words}"
