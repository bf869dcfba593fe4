"""What do tests/data/said/started.txt list: which reports of ranks are taken, and who is to blame for a failed job?"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from preflight.diagnose.causes import SUBJECTS
from preflight.facts.results import RING
from preflight.job.options.options import Options
from preflight.job.start import words
from preflight.job.start.contradiction import contradiction, unheard
from preflight.job.start.outcome import RankStory, conclude, take_exit
from preflight.job.start.patience import STAGES, Patience
from preflight.job.start.placement import JobNodes
from preflight.job.start.records import KINDS, checked_event
from preflight.job.start.rehearsal import over
from preflight.job.start.rehearsal.story import NodeStory
from preflight.job.start.symptoms import ENDED_BY, symptom
from preflight.judge.ledger.findings import Where
from preflight.launch.job import Job, Placement, Start, Starting
from preflight.launch.launchers import LAUNCHERS
from preflight.said.errors import BadReply, NotMeasured
from preflight.testing import FakeRun, healthy, roce
from tests import found
from tests.diagnose.causes import examples
from tests.job.measure.rehearsal import broken as rehearsals
from tests.job.measure.rehearsal.stories import rank as rank_of
from tests.job.start import followed

NODES = ("node1", "node2", "node3")
GROUPS = [[{"name": "a", "ranks": [0, 1]}, {"name": "b", "ranks": [2]}]]
SETTINGS = {"operations": ["all_reduce", "reduce"], "dtype": "float32", "holds_to_ring": True, "pairs": [[[0, 1]]]}
RATES = ("busbw_gbytes_per_s", "busbw_low_gbytes_per_s", "busbw_high_gbytes_per_s")
TIMES = ("seconds_median", "seconds_p5", "seconds_p95", "seconds_low", "seconds_high")
COUNTS = {
    "record": "result",
    "op": "all_reduce",
    "bytes": 1 << 20,
    "iterations": 6,
    "wrong": 0,
    "group": "",
    "ranks": 3,
}
RESULT = COUNTS | dict.fromkeys(TIMES, 1e-3) | dict.fromkeys(RATES, 1.4)
RESULT |= {"algbw_gbytes_per_s": 1.048576, "seconds_first": 0.1, "cv": 0.1, "dtype": "float32", "wrong_ranks": []}
OWN = {"bytes": 1 << 30, "seconds": 0.5, "gbytes_per_s": 2 * 1.073741824}
RECORDS: tuple[dict[str, Any], ...] = (
    {"record": "stage", "stage": "running"},
    {"record": "failed", "error": "x"},
    {"record": "done"},
    {"record": "progress", "op": "reduce", "bytes": 8, "iterations": 2, "seconds_left": 3.0},
    {"record": "matrix", "op": "reduce", "bytes": 8, "seconds": [0.1, 0.2], "group": "a"},
    {"record": "pair", "rank": 1, "source": 0, "round": 0, **OWN},
    {"record": "sent", "rank": 0, "target": 1, "round": 0, **OWN},
    RESULT,
    {"record": "joined", "device": "cpu", "import_seconds": 1.0, "init_seconds": 1.0, "nccl": ""},
    {"record": "losses", "losses": [1.0], "tokens_per_s": 5.0, "begin": 0, "gradient_bytes": 4, "samples_missing": 0},
    {"record": "left_out", "op": "reduce", "bytes": 9, "room_bytes": 8},
    {"record": "no_device", "device": "cuda:0", "model": "x", "free_bytes": 1, "memory_bytes": 2, "wanted_bytes": 3},
    {"record": "nccl_log", "lines": ["a"], "topo": ["b"], "graph": []},
)
# In the place of each value of a record.
OTHERS: tuple[Any, ...] = (None, -1, 0, 2, 5, 1e6, 1e19, 1e-3, 0.9, "x", "b", RING, [1], [-1], [9], True)
TOGETHER: tuple[dict[str, Any], ...] = (
    {"rank": 1},
    {"rank": 2, "group": "b", "ranks": 1},
    {"rank": 2, "group": "a", "ranks": 2},
    {"group": "a", "ranks": 2},
    {"group": RING, "ranks": 3},
    {"group": RING, "ranks": 2},
    {"bytes": 2 << 20, "algbw_gbytes_per_s": 2 * 1.048576},
    {"bytes": 1 << 19, "algbw_gbytes_per_s": 0.524288, "busbw_gbytes_per_s": 1.0},
    {"bytes": 4 << 20, "algbw_gbytes_per_s": 4 * 1.048576},
    {"bytes": 1 << 18, "algbw_gbytes_per_s": 0.262144, "busbw_gbytes_per_s": 0.5},
    {"algbw_gbytes_per_s": 1.06},
    {"algbw_gbytes_per_s": 1.08},
    {"busbw_gbytes_per_s": 2.13},
    {"busbw_gbytes_per_s": 2.15},
)


SINCE = (0.0, 0.9, 1.1, 4.9, 5.1, 29.0, 31.0, 44.0, 46.0)  # seconds


def of_reports() -> Iterator[str]:
    """Each record of a rank with other values in it: whether it is taken, or why it is not."""
    places = tuple(Placement(rank, NODES[rank], 0, 1) for rank in range(3))
    asked = Job("collectives", {**SETTINGS, "sizes": [1 << 20], "rounds": GROUPS}, places, "10.0.0.1", (), 60.0)
    for record in RECORDS:
        whole = {"rank": 0, **record}
        yield f"=== {record['record']}"
        for name in whole:
            told = [f"{value!r} {taken({**whole, name: value}, asked)}" for value in OTHERS]
            missing = {key: value for key, value in whole.items() if key != name}
            yield f"{name}: without {taken(missing, asked)}, {', '.join(told)}"
    yield from (f"{more}: {taken({'rank': 0, **RESULT, **more}, asked)}" for more in TOGETHER)
    for event in ({"name": "rank0", "exit": "1", "log": "x"}, {"file": "nccl", "rank": 0, "text": "x"}):
        for name in event:
            told = [f"{value!r} {taken_event({**event, name: value}, asked)}" for value in (None, "x", 1, 0, "trace")]
            yield f"event {name}: {', '.join(told)}"
    yield from sorted(KINDS)


def taken(record: dict[str, Any], asked: Job) -> str:
    return taken_event({"record": record}, asked)


def taken_event(event: dict[str, Any], asked: Job) -> str:
    """Yes, or the values of the reason."""
    try:
        return "yes" if checked_event(event, "node1", asked) == event else "changed"
    except BadReply as error:
        words_of = [word for word in str(error).removeprefix("node1:").split() if any(map(str.isdigit, word))]
        return " ".join(["no", *words_of])[:40]


# What a rank of a failed job may have left behind: its stage, error, exit, log and files.
PEER, STRANGE = "RuntimeError: Connection closed by peer [10.0.0.2]:4711", "ImportError: libcudnn.so.9"
LEFT: dict[str, dict[str, Any]] = {
    "done": {"stage": "done", "exit": "0"},
    "left": {"stage": "running", "exit": "0", "log": "one\ntwo\n"},
    "killed": {"stage": "running", "exit": "-9", "log": "step 3\n"},
    "lost": {"stage": "running", "exit": "1", "error": PEER},
    "lost early": {
        "stage": "rendezvous",
        "exit": "1",
        "error": "DistStoreError: Timed out after 31 s waiting for clients",
    },
    "own": {"stage": "import", "exit": "1", "error": STRANGE},
    "silent": {"stage": "running", "exit": "stopped"},
    "late": {"stage": "import", "exit": "time limit", "kept_waiting": True},
    "apart": {"stage": "communicator", "exit": "1", "error": "RuntimeError: connect: Network is unreachable"},
    "aborted in a shell": {"stage": "running", "exit": "134", "log": "Watchdog caught collective operation timeout\n"},
    "aborted": {"stage": "running", "exit": "-6", "log": "Watchdog caught collective operation timeout\n"},
}


def of_failures() -> Iterator[str]:
    """Who is named, of two and of three ranks that each ended in one way, and where a node was lost besides."""
    for count in (1, 2, 3):
        for kinds in itertools.combinations_with_replacement(LEFT, count):
            for nodes in (NODES[:count], NODES[:1] * count) if count == 2 else (NODES[:count],):
                for lost in ({}, {nodes[-1]: "gone"}, dict.fromkeys(nodes, "out of time"))[: 1 if count == 3 else 3]:
                    yield f"{', '.join(kinds)} on {' '.join(nodes)} {lost or ''}: {ended(nodes, kinds, lost)}"


def of_many() -> Iterator[str]:
    """Jobs of more ranks than are told by name."""
    for count, kind in itertools.product((3, 4, 5, 6), LEFT):
        nodes = tuple(f"n{number}" for number in range(count + 1))
        lost = dict.fromkeys(nodes, "out of time")
        for others in ("done", "lost early"):
            told = (kind,) * count + (others,)
            yield f"{count} {kind}, {others}: {ended(nodes, told, {})} || {ended(nodes, told, lost)}"
        stories = tuple(RankStory(Placement(rank, node, 0, 1), stage="done") for rank, node in enumerate(nodes))
        if kind == "done":
            for silent in (("joined",), ("trained",)):
                why, guilty = unheard(stories[:count], silent)
                yield f"{count} silent: {' '.join(found.values(why))} | {' '.join(guilty)}"


def ended(nodes: tuple[str, ...], kinds: tuple[str, ...], lost: dict[str, str]) -> str:
    """The end of a job whose ranks ended so."""
    places = tuple(
        Placement(rank, node, nodes[:rank].count(node), nodes.count(node)) for rank, node in enumerate(nodes)
    )
    job = Job("train", {}, places, "10.0.0.1", (), 60.0)
    stories = {place.rank: RankStory(place, **LEFT[kind]) for place, kind in zip(places, kinds, strict=True)}
    for story in stories.values():
        story.files = {
            "nccl": f"n:1:1 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.{story.placement.rank + 1}<0>\n",
            "trace": f'{{"pg_status": {{"0": {{"last_enqueued_collective": {3 + story.placement.rank // 2}}}}}}}',
        }
    end = conclude(job, stories, lost, 1.0)
    named = [
        ",".join(end.guilty) or "nobody",
        *["proven"] * end.is_proven,
        *(str(s.placement.rank) for s in end.culprits),
    ]
    told = [*named, "|", *found.values(end.failure), "|", called(end.why.cause), *found.values(end.why.fix)]
    return " ".join(told)


@cache
def causes() -> dict[str, str]:
    """What each cause means -> its name."""
    return {cause.meaning: cause.name for some in SUBJECTS.values() for cause in some}


def called(meaning: str) -> str:
    """The name of a cause."""
    return causes().get(meaning, "another" if meaning else "none")


def of_ends() -> Iterator[str]:
    """When the rehearsals that went wrong are over, second by second since the last word."""
    for some in rehearsals.BROKEN.values():
        for name, make in some.items():
            story, cast = make()
            moved = max(node.moved for node in story.nodes.values())
            told = [over.why_over(story, cast, moved + after) or "-" for after in SINCE]
            yield f"{name}: {' '.join(told)}"


def of_notes() -> Iterator[str]:
    """What a node says of a rehearsal, one word of it another: what is taken of it, and what is its fault."""
    arrived = {"record": "arrived", "at": 1.0, **msgspec.to_builtins(rank_of(1, "node2").arrived)}
    events: tuple[dict[str, Any], ...] = (
        arrived,
        *({"record": "stage", "stage": name, "at": 2.0} for name in ("import", "rendezvous", "done", "odd")),
        {"record": "done", "at": 3.0},
        {"record": "failed", "error": "no torch", "stage": "import", "at": 3.0},
        {"record": "numbered", "chosen": ["MASTER_ADDR"], "rank": 7, "at": 1.5},
        {"record": "meets", "place": "a:1", "addresses": ["10.0.0.1"], "own": True, "error": "", "at": 1.6},
    )
    for event in events:
        yield f"=== {event['record']} {event.get('stage', '')}"
        yield taken_note(arrived, event)
        for name in event:
            for value in (None, "x", 5, [], ["LOCAL_RANK"], ["RANK", "WORLD_SIZE"], -1.0, True):
                if value != event[name]:
                    yield f"{name} {value!r}: {taken_note(arrived, {**event, name: value})}"

    whole: tuple[dict[str, Any], ...] = (
        {"began": {"path": "/a.sh", "folder": "/", "differs": True, "at": 1.0}},
        {"rows": [[0, 7, 0, 1.0, 2, "/srv/run.sh"], [1, 7, 127, 2.0, 3, "/srv/run.sh"]]},
        {"notes": [["launcher-5", {"launcher": ["torchrun", "t.py"], "pid": 5, "parent": 1, "at": 1.0}]]},
        {"notes": [["launcher-5", {"made": "/tmp/torchelastic_x"}]]},
        {"ended": 3, "shell": 7, "at": 4.0},
        {"processes": [{"pid": 5, "parent": 1, "state": "S", "words": "python", "sockets": []}]},
        {"stray": "python train.py"},
        {"output": {"out": "a", "err": "b", "out_before": "c", "err_before": "d", "has_begun": True}},
    )
    for event in whole:
        yield f"=== {event}"
        yield of_node(event)
        for name, value in product_of_one(event):
            yield f"{name} {value!r}: {of_node({**event, name: value})}"


def product_of_one(event: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Other values for each part of an event."""
    return itertools.product(event, (None, "x", 5, [], [[0, "7"]], {"at": 1.0}, True))


def of_node(event: dict[str, Any]) -> str:
    """What a node is known to have done after an event."""
    story = NodeStory("node2")
    try:
        story.take(event)
    except (BadReply, KeyError) as error:
        return f"no {type(error).__name__} {' '.join(word for word in str(error).split() if '$' in word)}"
    return " ".join(f"{name}={held}" for name, held in vars(story).items() if held and name not in ("moved", "node"))


def taken_note(*notes: dict[str, Any]) -> str:
    """How far a rank came by these notes of its node."""
    story = NodeStory("node2")
    try:
        story.take({"notes": [["rank-1", note] for note in notes]})
    except BadReply as error:
        return f"no {' '.join(found.values(error.reason))[:40]}"
    came = [f"{one.rank} of {one.world_size} at {one.stage} {sorted(one.times)}" for one in story.ranks.values()]
    more = [f"{one.is_over} {one.error} {one.chosen} {one.meets}" for one in story.ranks.values()]
    return " ".join([*came, *more])


def of_agents() -> Iterator[str]:
    """What each launcher's agents say of a rank that failed, as its story takes it."""
    log = (
        "agent: starting\n[default0]:zero\n[default1]:one\n[0]: a\n[1]: b\nnode1: c\n"
        "failed (exitcode: -9) local_rank: 1 (pid: 7)\n  rank      : 1 (local_rank: 1)\n  exitcode  : -9 (pid: 7)\n"
    )
    for name, row in LAUNCHERS.items():
        for event in (
            {"name": "node1", "exit": "1"},
            {"name": "rank0", "exit": "0"},
            {"name": "all ranks", "exit": "2"},
        ):
            places = [Placement(rank, "node1" if rank < 2 else "node2", rank % 2, 2) for rank in range(3)]
            stories = {place.rank: RankStory(place) for place in places}
            told = take_exit({**event, "log": log}, "node1", stories, row.blames)
            of_ranks = [f"{s.placement.rank} {s.exit} {len(s.log)} {' / '.join(s.last_lines)}" for s in told]
            yield f"{name} {event['name']}: {'; '.join(of_ranks)}"


def of_words() -> Iterator[str]:
    """Each line by which a cause is known: as people read it, and whether it speaks of another rank."""
    for _, line in examples.examples():
        traits = [name for name in ("speaks_of_a_peer", "was_aborted") if getattr(words, name)(line)]
        told = [*traits, *sorted(words.accused(line)), words.own_address(line), *found.values(words.warned(line))]
        if any(told):
            yield " ".join([*filter(None, told), "|", line[:60]])
    for code in ("", "stopped", "time limit", "0", "1", *ENDED_BY):
        for text in ("", "x", "CUDA out of memory"):
            found_so = symptom(text=text, exited=code)
            yield f"{code} {text}: {called(found_so.cause)} | {' '.join(found.values(found_so.fix))}"


def of_contradictions() -> Iterator[str]:
    """Reports of one operation by three ranks that differ in their times, and who is doubted."""
    for op, median, own in itertools.product(
        ("all_reduce", "reduce"),
        (0.05, 0.088, 0.09, 0.1, 0.11, 0.112, 0.3),
        ((0.1, 0.1), (0.05, 0.1), (0.1, 0.45), (0.01, 0.04)),
    ):
        stories = []
        for rank, seconds in enumerate((own[0], own[0], own[1])):
            story = RankStory(Placement(rank, NODES[rank], 0, 1), stage="done")
            story.records = [{"record": "matrix", "op": op, "bytes": 8, "seconds": [seconds] * 3, "group": ""}]
            stories.append(story)
        result = {"record": "result", "op": op, "bytes": 8, "seconds_median": median, "iterations": 3, "ranks": 3}
        stories[0].records.append(result)
        why, nodes = contradiction(tuple(stories))
        yield f"{op} {median} of {own}: {' '.join(found.values(why))} | {' '.join(nodes)}"
        if op == "reduce":
            why, nodes = unheard(tuple(stories[: int(median * 20)]), ("matrix", "trained"))
            yield f"  unheard: {' '.join(found.values(why))} | {' '.join(nodes)}"


def of_patience() -> Iterator[str]:
    """Who is late, second by second, where one rank stays at each stage and the others go on."""
    for agents, stage in itertools.product((False, True), STAGES):
        patience = Patience(has_agents=agents)
        patience.late(dict.fromkeys(range(3), "start"), 0.0)
        told = [patience.late({0: "rendezvous", 1: stage, 2: "rendezvous"}, now) for now in (5, 36, 40, 79, 81, 90)]
        yield f"{stage} {'with agents' if agents else ''}: {told}"


def of_placements() -> Iterator[str]:
    """The ranks on nodes with and without GPUs, as options and launch files ask for them."""
    gpus = roce(2)
    runs: dict[str, FakeRun] = {
        "GPUs": gpus,
        "no GPUs": healthy(3),
        "one": healthy(1),
        "few": gpus.with_variables("node2", CUDA_VISIBLE_DEVICES="0,1"),
        "none": gpus.with_variables(CUDA_VISIBLE_DEVICES=""),
    }
    starts = {
        "": Starting(),
        "2 by 4": Starting((Start("torchrun", Where("a.sh", 1), 4), Start("torchrun", Where("b.sh", 1), 4))),
        "backwards": Starting(tuple(Start("torchrun", Where("a.sh", 1), 2, ranks=two) for two in ((2, 3), (0, 1)))),
        "a template": Starting((Start("torchrun", Where("a.sh", 1), 0, 2, rendezvous="c10d"),)),
    }
    for (name, run), asked, (words_of, starting) in itertools.product(runs.items(), ("auto", "1", "9"), starts.items()):
        for backend in ("auto", "gloo", "nccl"):
            options = Options(ranks_per_node=asked, backend=backend, starting=starting, env=("A=1", "MASTER_PORT=1"))
            nodes = JobNodes(run.cluster, tuple(run.names), options)
            try:
                job = nodes.job("train", {}, seconds=9.0)
                planned = nodes.planned()
                ranks = " ".join(f"{p.rank}:{p.node}:{p.local_rank}/{p.local_world_size}" for p in job.placements)
                told = f"{job.master_address} {job.environment} {len(planned)} {ranks}"
                yield f"{name} {asked} {backend} {words_of}: {told}"
            except NotMeasured as error:
                yield f"{name} {asked} {backend} {words_of}: not, {' '.join(found.values(error.args[0]))}"


def sections() -> found.Sections:
    """Everything."""
    return {
        "reports": of_reports,
        "failures": of_failures,
        "many": of_many,
        "ends": of_ends,
        "notes": of_notes,
        "agents": of_agents,
        "words": of_words,
        "contradictions": of_contradictions,
        "patience": of_patience,
        "placements": of_placements,
        "jobs": followed.of_jobs,
    }
