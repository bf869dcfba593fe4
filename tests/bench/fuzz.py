"""Can anything that a node, its tools or a job's logs say break what reads it? ``python -m tests.bench.fuzz``.

Each parser of PARSERS gets ``--count`` inputs (10,000): real ones, changed by every seed in another way. Each must give a
value or the error that is its own, within 0.1 s of CPU time, and the process must not grow by more than 64 MiB. The
parsers run in processes of their own, one after the other; ``--only frames`` takes those of that name.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from preflight import diagnose
from preflight.diagnose import recorder
from preflight.facts import decode, racks
from preflight.facts.decode import Document
from preflight.job.measure.nccl_log import parse_nccl_log
from preflight.job.start import records, symptoms, words
from preflight.judge.unreached import losses
from preflight.launch.job import Job, Placement
from preflight.node.agent import frames, strict
from preflight.node.sources import amd, gpu_links, gpu_values, qos, rdma_text
from preflight.node.sources.kernel import events
from preflight.node.subjects import gpu
from preflight.reach.hosts import parse_hosts
from preflight.reach.session import quick, replies
from preflight.reach.transport import pods, reach
from preflight.report.document import from_document
from preflight.report.printable import printable
from preflight.said import redact
from preflight.said.errors import BadReply, PreflightError, UsageError
from preflight.testing import healthy, roce

COUNT = 10_000
SECONDS = 0.1
GROWTH_BYTES = 64 << 20
LONGEST = 20_000  # letters of an input; a few inputs are as long
DATA = Path(__file__).parents[1]
MARKER = b"0123456789abcdef0123456789abcdef"
PIECES = (
    *("\x00", "\x1b[31m", "\r", "\n", "\n\n", "\t", " " * 50, "\u202e", "\ud800", "\ufeff", "\x85", "é"),
    *('"', "'", "\\", "`", "${", "$(", "[", "]", "{", "}", "(", "<", ">", "&", ";", "|", "#", "%", ":", "=", ","),
    *("0", "-1", "1e999", "NaN", "null", "true", "9" * 40, "0x", "-", "--", "..", "/", "://a:b@", "[0-99999999]"),
    *("NCCL INFO ", "NCCL WARN ", "Rank 0: ", "Traceback (most recent call last):\n", "TOKEN=", "_pwd", " ["),
)
ODD = (
    *(None, True, False, 0, -1, 2**63, -(2**70), 1e308, -0.0, "", "x", "x" * 5000, "\x00", "\ud800", [], {}, [[]]),
    *({"": {}}, [None] * 300, {"a": [{"b": [{}]}]}, "9" * 400, "NaN", [1, "1", 1.0], {"missing": 7}),
)


@dataclass(frozen=True)
class Parser:
    """What reads something, real inputs of it, and the errors that are its own."""

    read: Callable[[Any], object]
    samples: Callable[[], Iterable[Any]]
    declared: tuple[type[Exception], ...] = ()


def changed(sample: Any, chance: random.Random) -> Any:
    """An input made of a real one: of bytes, of text, or of a value as JSON has them."""
    if isinstance(sample, bytes):
        text = changed(sample.decode("latin-1"), chance)
        return text.encode("latin-1", "replace")
    return _text(sample, chance) if isinstance(sample, str) else _value(sample, chance)


def _text(text: str, chance: random.Random) -> str:
    for _ in range(chance.choice((0, 1, 1, 2, 4, 16))):
        begin = chance.randint(0, len(text))
        end = min(len(text), begin + chance.choice((0, 1, 3, 20, 200)))
        piece = text[begin:end]
        put = chance.choice((chance.choice(PIECES), piece * chance.choice((0, 2, 30)), chr(chance.randrange(0xD7FF))))
        if chance.random() < 0.2:  # lines change places
            lines = text.split("\n")
            chance.shuffle(lines)
            text = "\n".join(lines)
        text = (text[:begin] + put + text[end:])[:LONGEST]
    if chance.random() < 0.02:  # one thing over and over
        unit = chance.choice((chance.choice(PIECES), chance.choice(PIECES) + chance.choice(PIECES), text[:40] or "a"))
        text = (unit * LONGEST)[:LONGEST]
    return text if chance.random() < 0.9 else text[: chance.randint(0, len(text))]


def _value(value: Any, chance: random.Random) -> Any:
    if chance.random() < 0.06:
        return chance.choice(ODD)
    if isinstance(value, dict):
        made = {key: _value(held, chance) if chance.random() < 0.5 else held for key, held in value.items()}
        if made and chance.random() < 0.1:
            del made[chance.choice(sorted(made))]
        if chance.random() < 0.1:
            made[chance.choice(("x", "", "record", "result", "missing", "rank", *made))] = chance.choice(ODD)
        return made
    if isinstance(value, list):
        made_list = [_value(held, chance) if chance.random() < 0.5 else held for held in value]
        return made_list * chance.choice((1, 1, 1, 1, 0, 3))
    if isinstance(value, str) and chance.random() < 0.3:
        return _text(value, chance)
    return value


def whole(call: Callable[[Any], object]) -> Callable[[Any], object]:
    """A parser of values, of which only those arrive that have been JSON."""

    def read(value: Any) -> object:
        try:
            text = frames.json_text(value).encode()
        except (ValueError, RecursionError):  # no node could have said it
            return None
        return call(json.loads(text))

    return read


def lines_of(*names: str) -> Callable[[], list[str]]:
    """Files of the tests' data, and the pieces of the longer ones."""

    def samples() -> list[str]:
        texts = [
            path.read_text("utf-8", "replace") for name in names for path in sorted(DATA.glob(name)) if path.is_file()
        ]
        return [part for text in texts for part in (text[:4000], text[-4000:], *_parts(text)) if part]

    return cache(samples)


def _parts(text: str) -> list[str]:
    lines = text.splitlines(keepends=True)
    return ["".join(lines[at : at + 12]) for at in range(0, len(lines), max(12, len(lines) // 40))]


JOB = Job(
    "collectives",
    {"operations": ["all_reduce"], "sizes": [1 << 28], "dtype": "float32"},
    tuple(Placement(rank, f"node{rank + 1}", 0, 1) for rank in range(4)),
    "10.0.0.1",
    (),
    60.0,
)
EVENTS = (
    {"record": {"record": "joined", "rank": 1, "device": "cuda:0", "import_seconds": 2.0, "init_seconds": 0.1}},
    {"record": {"record": "trained", "rank": 2, "device": "cpu", "step_seconds_median": 0.1, "finite": True}},
    {
        "record": {
            "record": "result",
            "rank": 0,
            "ranks": 4,
            "op": "all_reduce",
            "dtype": "float32",
            "size_bytes": 1 << 28,
            "times_s": [0.1, 0.1],
            "wrong": 0,
        }
    },
    {"exit": 0, "name": "rank1", "log": "done"},
    {"file": "nccl.log", "name": "rank1", "text": "NCCL INFO"},
)


@cache
def said_of_subjects() -> list[Any]:
    """What healthy nodes say of each subject."""
    return [
        {name: json.loads(msgspec.json.encode(facts))}
        for run in (healthy(), roce())
        for name, facts in run.subjects["node1"].items()
    ]


@cache
def reports() -> list[Any]:
    """A report of a run, as JSON."""
    from preflight.judge.ledger.findings import Finding, Verdict
    from preflight.report.document import Counts, NodeInfo, RunInfo, RunReport, to_document

    run = healthy()
    report = RunReport(
        finished=True,
        run=RunInfo(id="x", started="2030-01-02T03:04:05+00:00", seconds=1.0, command=("pytest",), version="0"),
        verdict=Verdict.PASS,
        exit_code=0,
        nodes={name: NodeInfo(host=name, address="10.0.0.1", reached=True) for name in run.names},
        ledger=Counts(expected=1, judged=1, not_asked=0),
        findings=(Finding("a.b", Verdict.PASS, (run.names[0],), "fine"),),
        mesh=run.mesh(),
        bench=run.bench(),
        training=run.training(),
    )
    return [json.loads(json.dumps(to_document(report)))]


def feed(data: bytes) -> object:
    """A stream of a node: decoded in two pieces."""
    decoder = frames.Decoder(MARKER, strict.strict_json)
    return decoder.feed(data[: len(data) // 2]), decoder.feed(data[len(data) // 2 :]), decoder.text()


STREAM = [
    b"Welcome\r\n" + frames.encode(MARKER, {"call": 1, "event": {"subject": {"a": [1, 2.5, None]}}}),
    frames.encode(MARKER, {"call": 2, "result": {"text": "a\nb"}}, b"blob\n" * 20) + frames.encode(MARKER, {"pong": 1}),
]
MESSAGES = (
    {"call": 1, "event": {"record": {"rank": 1}}},
    {"call": 1, "result": {}},
    {"call": 1, "error": "no"},
    {"opened": "x", "removed": ["a"], "others": []},
    {"busy": "y"},
    {"pong": 3, "time": 1.5e9},
    {"reason": "lease", "residue": ["1"]},
    {"python": "3.11.7", "magic": "a70d0d0a", "suffix": ".so", "machine": "x86_64", "lacks": [], "reached": ["::1"], "pid": 7},
)  # fmt: skip
STDERR = (
    "ssh: connect to host node3 port 22: Connection refused",
    "Warning: Permanently added 'node3'\nnode3: Permission denied (publickey,password).",
    "kex_exchange_identification: read: Connection reset by peer\r\nConnection reset by 10.0.0.3 port 22",
    "bash: python3: command not found",
)
TOPOLOGY = (
    "SwitchName=s0 Nodes=node[1-4]\nSwitchName=s1 Nodes=node[5-8]\nSwitchName=top Switches=s[0-1]\n",
    "- topology: a\n  tree:\n    switches:\n      - switch: s0\n        nodes: node[1-4]\n",
    "r7: node[01-16] # left\nr8: node17, node18\n",
)
POD = {
    "metadata": {"name": "train-0", "labels": {"batch.kubernetes.io/job-completion-index": "0"}},
    "spec": {"nodeName": "node1", "containers": [{"name": "main"}]},
    "status": {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [{"name": "main", "state": {}}]},
}
LOGS = lines_of("diagnose/logs/*.txt")
OF_A_TOOL = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OSError,
)  # the agent files them as why a fact is missing

PARSERS: dict[str, Parser] = {
    "frames": Parser(feed, lambda: STREAM, (frames.FrameError,)),
    "json": Parser(strict.strict_json, lambda: [frames.json_text(m).encode() for m in MESSAGES], (frames.FrameError,)),
    "quick json": Parser(
        lambda text: quick.message(text, quick.outline(text)),
        lambda: [frames.json_text(message).encode() for message in MESSAGES],
        (frames.FrameError,),
    ),
    "messages": Parser(
        whole(
            lambda value: [
                _or_bad(kind, value)
                for kind in (replies.Greeting, replies.Opened, replies.Pong, replies.End, replies.Reply)
            ]
        ),
        lambda: MESSAGES,
    ),
    "listeners": Parser(
        whole(lambda value: replies.listening("n", value, asked="10.0.0.1")), lambda: [["10.0.0.1", 4000]], (BadReply,)
    ),
    "facts": Parser(
        whole(
            lambda said: decode.decode(
                Document(decode.SCHEMA, "n", 0, "::1", 8, said if type(said) is dict else {}, {})
            )
        ),
        said_of_subjects,
    ),
    "events of ranks": Parser(
        whole(lambda event: records.checked_event(event, "node2", JOB) if isinstance(event, dict) else None),
        lambda: EVENTS,
        (BadReply,),
    ),
    "reports": Parser(whole(from_document), reports, (UsageError, PreflightError, ValueError)),
    "ssh": Parser(lambda text: (reach.last_line(text, "x"), losses({"a": text, "b": text}, {})), lambda: STDERR),
    "topology": Parser(racks.parse_topology, lambda: TOPOLOGY, (UsageError,)),
    "labels": Parser(
        lambda text: racks.parse_labels(text, ["node1"]),
        lambda: ['node1\t{"topology.kubernetes.io/rack": "r1"}\nnode2\t{"topology.kubernetes.io/rack": "r2"}\n'],
        (UsageError,),
    ),
    "pods": Parser(
        whole(lambda value: pods.in_order(pods.read_pods(value))), lambda: [{"items": [POD, POD]}], (ValueError,)
    ),
    "hosts": Parser(
        parse_hosts, lambda: ["node[1-4],user@node7:2222", "[fd00::1]:22,10.0.0.1", "local"], (UsageError,)
    ),
    "nccl": Parser(lambda text: parse_nccl_log(text.splitlines()), LOGS),
    "words of ranks": Parser(
        lambda text: (
            *(words.in_one_line(text), words.particular(text), words.speaks_of_a_peer(text), words.was_aborted(text)),
            *(words.warned(text), words.last_entered(text), symptoms.symptom(text=text, exited="1")),
        ),
        LOGS,
    ),
    "diagnosis": Parser(lambda text: diagnose.diagnose(text.splitlines()), LOGS),
    "flight recorder": Parser(
        lambda data: recorder.read("rank3", data),
        lambda: [
            (
                b'{"version": "2.4", "pg_status": {}, "entries": [{"process_group": ["0", "x"], "collective_seq_id": 1, '
                b'"profiling_name": "nccl:all_reduce", "input_sizes": [[3]], "state": "scheduled"}], "rank": 1}'
            ),
            b"\x80\x02}q\x00(X\x07\x00\x00\x00versionq\x01X\x03\x00\x00\x002.4q\x02X\x07\x00\x00\x00entriesq\x03]q\x04u.",
        ],
        (UsageError,),
    ),
    "secrets": Parser(
        lambda text: (redact.without_secrets(text), redact.words_without_secrets(text.split(" "))),
        lambda: [
            "export HF_TOKEN=abc --api-key x https://u:p@h/x?sig=1",
            "-e A_PWD x",
            "mysql -u me -pabc",
            *LOGS()[:40],
        ],
    ),
    "printable": Parser(lambda text: (printable(text), printable(text, keep_newlines=True)), LOGS),
    "nvidia-smi": Parser(lambda text: gpu.parse(text, is_text=True), lines_of("data/nvidia-smi/*"), OF_A_TOOL),
    "nvidia-smi XML": Parser(gpu.parse, lines_of("data/nvidia-smi/*.xml"), OF_A_TOOL),
    "links of GPUs": Parser(
        lambda text: (gpu_links.nvlinks(text), gpu_links.errors(text), gpu_links.topology(text)),
        lines_of("data/nvidia-smi/*"),
        OF_A_TOOL,
    ),
    "blocks of nvidia-smi": Parser(
        lambda text: (gpu_values.blocks(text), gpu_values.corrupted_inforoms(text)),
        lines_of("data/nvidia-smi/*"),
        OF_A_TOOL,
    ),
    "amd-smi": Parser(amd.parse_amd_smi, lambda: ['{"gpu_data": [{"gpu": 0, "asic": {}}]}'], OF_A_TOOL),
    "rocm-smi": Parser(amd.parse_rocm_smi, lambda: ['{"card0": {"GPU ID": "0x1"}}'], OF_A_TOOL),
    "ibstat": Parser(
        lambda text: (rdma_text.ibstat(text), rdma_text.show_gids(text), rdma_text.active_mtus(text)),
        lines_of("data/rdma/*", "data/rdma/*/*"),
        OF_A_TOOL,
    ),
    "mlnx_qos": Parser(
        lambda text: (qos.mlnx_qos(text), qos.dcb(text)), lines_of("data/rdma/*", "data/rdma/*/*"), OF_A_TOOL
    ),
    "kernel log": Parser(
        lambda text: events.parse(text.splitlines(), now_s=100.0),
        lambda: [
            (
                "6,1,5000000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
                "4,2,6000000,-;Out of memory: Killed process 7 (python)\n SUBSYSTEM=pci\n"
            )
        ],
        OF_A_TOOL,
    ),
}


def _or_bad(kind: Any, value: Any) -> object:
    try:
        return replies.read("node3", kind, value, "it")
    except BadReply:
        return None


def fault(name: str, seed: int) -> str:
    """What is wrong with how a parser takes the input of a seed; "" where nothing is."""
    parser = PARSERS[name]
    chance = random.Random(f"{name} {seed}")
    samples = list(parser.samples())
    given = changed(chance.choice(samples), chance)
    seconds = 1e9
    for _ in range(3):  # whatever else the machine does is no fault
        begun = time.process_time()
        try:
            parser.read(given)
        except parser.declared:
            pass
        except Exception:
            return f"{name}, seed {seed}: {given!r:.300}\n{traceback.format_exc()[-1200:]}"
        seconds = min(seconds, time.process_time() - begun)
        if seconds < SECONDS:
            return ""
    return f"{name}, seed {seed}: {seconds:.3f} s of {len(given) if hasattr(given, '__len__') else 0}: {given!r:.200}"


def run(name: str, count: int) -> int:
    """All inputs of one parser, in this process; how many of them were taken wrongly."""
    wrong = 0
    fault(name, 0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    begun = time.process_time()
    for seed in range(count):
        words_of_it = fault(name, seed)
        wrong += bool(words_of_it)
        if words_of_it and wrong <= 3:
            print(words_of_it, flush=True)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    if grown > GROWTH_BYTES:
        print(f"{name}: the process grew by {grown >> 20} MiB")
        wrong += 1
    seconds = time.process_time() - begun
    print(f"{name:22} {count} inputs, {wrong} wrong, {seconds:.0f} s, {grown >> 20} MiB more", flush=True)
    return wrong


def main() -> int:
    """All parsers; 1 where one took an input wrongly."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=COUNT)
    arguments.add_argument("--only", default="", help="parsers whose name holds this")
    given = arguments.parse_args()
    names = [name for name in PARSERS if given.only in name]
    failed = 0
    for name in names:
        pid = os.fork()
        if not pid:
            signal.alarm(3600)
            code = 1
            try:
                code = min(run(name, given.count), 1)
            finally:
                sys.stdout.flush()
                os._exit(code)
        failed += os.waitpid(pid, 0)[1] != 0
    print(f"{len(names)} parsers, {given.count} inputs each: {failed} parsers took one wrongly")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
