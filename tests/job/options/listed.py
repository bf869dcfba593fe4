"""What do tests/data/said/options.txt list: every option of every verb, what values become, and what files add?"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

from preflight.job.collect.trust import called
from preflight.job.options.launch import parse_run, started_by, with_files
from preflight.job.options.options import OPTIONS, Options
from preflight.job.options.parse import parse_options
from preflight.job.options.table import add_options, words_of
from preflight.launch.read import read_texts
from preflight.reach.hosts import parse_hosts
from preflight.said.errors import UsageError
from tests import found
from tests.launch import truth

EACH = 8  # of so many launch files one is looked at
HOSTS = parse_hosts("n[0-1],train-0-a,node[1-2]")
# Of one field after the other; those that cannot be beside those that are the last that can.
VALUES: dict[str, tuple[Any, ...]] = {
    "hosts": ("local", "node[1-3]", "", " ", "a,a", "node[1-"),
    "python": ("/opt/py", "-c"),
    "wrap": ("docker exec -i 'a b'", "-x", "a 'b"),
    "ssh_option": ("-F cfg", "-p 22 x", "-vp 22", "--", "x"),
    "env": (["A=1", "B=x=y"], ["A"], ["1A=x"], ["_=\0"], ["_A1="]),
    "backend": ("gloo", "mpi"),
    "ranks_per_node": ("1", "9999", "10000", "0", "08", "auto"),
    "profile": ("quick", "full", "fast"),
    "deadline": (5.0, 4.9, 86400.0, 86401.0),
    "shared": (["/a/", "/"], ["a"], ["/a\0"]),
    "same": (["/a", "/b/"], ["~/b"]),
    "vendor_tests": ("dcgmi", "dcgmi:3, rvs", "dcgmi,dcgmi:1", "agfhc", "agfhc:2", "rvs:1", "x", ",nvbandwidth,"),
    "reuse": ("6h", "7d", "8d", "90s", "30m", "0h", "999999s"),
    "need": (1, 0, 2),
    "notify": ("https://a/b", "http://a:1", "ftp://a", "https://a:0", "https:///x", "https://a/ b", "https://a/\x7f"),
    "bench_op": ("all", "reduce,reduce,broadcast", "x", ","),
    "bench_begin": ("8", "1K", "2kib", "3MB", "1G", "1024G", "1025G", "0", "1T"),
    "bench_iters": ("6", "5", "999999", "1000000", "x"),
    "bench_warmup": ("1", "0"),
    "bench_dtype": ("int8", "int4"),
    "bench_mode": ("pipelined", "x"),
    "bench_scope": ("intra", "inter", "rails", "racks", "x"),
    "launcher": ("torchrun", "deepspeed", "slurm", "x"),
    "model": ("medium", "x"),
    "strategy": ("fsdp", "x"),
    "precision": ("bf16", "x"),
    "accumulate": ("2", "4", "3"),
    "checkpoint_dir": ("/a/", "a"),
    "lang": ("zh", "de"),
    "json": ("-", "a.json"),
    "settings": ("nowhere.toml",),
    "report_dir": ("/nowhere/x", "/etc/passwd"),
    "from_run": ("/nowhere/x", "/etc/passwd", ""),
}
# What follows from several.
TOGETHER: tuple[dict[str, Any], ...] = (
    {"bench_begin": "1M", "bench_end": "8M"},
    {"bench_begin": "1M", "bench_end": "9M", "bench_factor": "3"},
    {"bench_begin": "8", "bench_end": "8"},
    {"bench_begin": "9", "bench_end": "8"},
    {"bench_begin": "8", "bench_end": "8G", "bench_factor": "1"},
    {"bench_end": "4K", "bench_factor": "1000000"},
    {"bench_factor": "2"},
    {"profile": "full", "vendor_tests": "rvs"},
    {"profile": "full", "bench_op": "reduce"},
    {"bench_burn_in": True},
    {"ssh_trust": True},
    {"launcher": "deepspeed", "strategy": "fsdp"},
    {"shared": ["/a"], "checkpoint_dir": "/b"},
    {"shared": ["/a"], "checkpoint_dir": "/a"},
    {"hosts": "a,b,c", "need": 3},
    {"hosts": "a,b,c", "need": 4},
    {"need": 1, "reuse": "6h"},
    {"from_run": "/nowhere/x", "dry_run": True},
    {"from_run": "/nowhere/x", "hosts": "a"},
    {"from_run": "/nowhere/x", "need": 9},
)
FOLLOWS = (
    *("deadline_seconds", "tests_of_vendors", "seconds_of_vendors", "reach", "sweep", "burn_in", "needs_trust"),
    *("folder", "layers", "paths_to_share"),
)


def of_verbs() -> Iterator[str]:
    """Each option that a verb's parser has, and how pytest has it."""
    for verb in sorted({verb for row in OPTIONS.values() for verb in row.verbs}):
        parser = argparse.ArgumentParser(add_help=False)
        add_options(parser, OPTIONS, verb)
        yield f"=== {verb}"
        for group in parser._action_groups:
            for each in group._group_actions:
                how = type(each).__name__.removeprefix("_").removesuffix("Action")
                told = [*each.option_strings, each.dest, how, f"nargs={each.nargs}", f"const={each.const}"]
                of_type = getattr(each.type, "__name__", "")
                yield " ".join([*told, of_type, f"{each.metavar} of {','.join(each.choices or ())}, {group.title}"])
    yield "=== pytest"
    for row in OPTIONS.values():
        words = {name: value for name, value in row.words(with_choices=False).items() if name not in ("help", "type")}
        yield f"{row.name} {words} common {row.is_common} live {row.is_live} shown {row.shown}"
        given = True if row.is_flag else ["a", "b"] if row.is_list else "c"
        yield f"  {words_of({row.field: row}, {row.field: given}, 'bench')} {words_of({row.field: row}, {}, 'run')}"


def as_options(values: dict[str, Any]) -> Iterator[str]:
    """What a parser's values become, and what follows from them."""
    try:
        options = parse_options(values, command=("preflight",))
    except UsageError as error:
        yield f"{values}: refused {' '.join(found.values(error.args[0]))!a}"
        return
    usual = Options()
    yield f"{values}:"
    for name in values:
        yield f"  {name}={getattr(options, name)!r}"
    for name in FOLLOWS:
        held = getattr(options, name)
        if held != getattr(usual, name) and name != "folder":
            yield f"  {name}={held!r}"


def of_values() -> Iterator[str]:
    """Each value of each option."""
    for name, some in VALUES.items():
        for value in some:
            yield from as_options({name: value})
    for values in TOGETHER:
        yield from as_options(values)
    for name in (*Options.__dataclass_fields__, *FOLLOWS):
        yield f"{name}: {getattr(Options(run_id='x'), name)!r}"


def of_files(cases: tuple[truth.Case, ...]) -> Iterator[str]:
    """What launch files add to the options, and who must log in for them."""
    for case in cases:
        yield f"=== {case.source}: {case.name}"
        for launcher, ranks in ((None, "auto"), ("torchrun", "8")):
            try:
                options = Options(hosts=HOSTS, ranks_per_node=ranks)
                read = with_files(options, read_texts(case.texts), launcher=launcher)
            except UsageError as error:
                yield f"refused {' '.join(found.values(error.args[0]))}"
                continue
            told = [read.launcher, read.found_python, *read.same, *read.named]
            told += [f"{name}={value}" for name, value in read.launch_variables]
            logs_in = called(read)
            told += [f"{name}:{','.join(words)}" for name, words in logs_in.items() if words]
            yield " ".join(filter(None, [*told, *found.values(started_by(read))]))


def of_logins(cases: tuple[truth.Case, ...]) -> Iterator[str]:
    """Which programs log in for each launch file, and which variables they take for set."""
    made: list[tuple[str, dict[str, str]]] = [(f"{case.source}: {case.name}", dict(case.texts)) for case in cases]
    for runner in ("pdsh", "openmpi", "mpich", "impi", "mvapich", "slurm", "PDSH", "other"):
        words = f"deepspeed --hostfile hf --launcher {runner} --master_addr n1 t.py\n"
        made.append((f"deepspeed by {runner}", {"a.sh": words, "hf": "n1 slots=4\nn2 slots=4\n"}))
        lines = (
            *("distributed_type: DEEPSPEED", "num_machines: 2", "num_processes: 8", "deepspeed_config:"),
            *(f"  deepspeed_multinode_launcher: {runner}", "  deepspeed_hostfile: hf", ""),
        )
        files = {
            "c.yaml": "\n".join(lines),
            "a.sh": "accelerate launch --config_file c.yaml t.py\n",
            "hf": "n1 slots=4\nn2 slots=4\n",
        }
        made.append((f"accelerate by {runner}", files))
    hosts = "horovodrun -np 16 -H a:8,b:8"
    made += [(f"{hosts}{more}", {"a.sh": f"{hosts}{more} python t.py\n"}) for more in ("", " --network-interface eth0")]
    for name, texts in made:
        with suppress(UsageError):
            told = called(Options(files=read_texts(texts)))
            if any(told.values()):
                yield f"{name}: {told}"


def of_runs() -> Iterator[str]:
    """What a run reads from files: its settings, its launch files, and the scripts that it rehearses."""
    start = "torchrun --nnodes=2 --node_rank=0 --nproc_per_node=4 --master_addr=node1 train.py"
    texts = {
        "run.sh": f"{start}\n",
        "own.sh": f"/opt/env/bin/python3.11 -m torch.distributed.run {start.removeprefix('torchrun ')}\n",
        "odd.sh": f"{start} 'quote\n",
        "strict.toml": "[bench]\nwarn_below = 0.98\n",
    }
    runs: tuple[dict[str, Any], ...] = (
        {},
        *({"launch": ["run.sh"], **more} for more in ({}, {"launcher": "deepspeed"}, {"ranks_per_node": "8"})),
        *({"launch": [name]} for name in ("own.sh", "odd.sh", "none.sh")),
        {"launch": ["own.sh"], "python": "/opt/py"},
        {"rehearse": ["run.sh"]},
        {"rehearse": ["none.sh"]},
        {"settings": "strict.toml"},
    )
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, text in texts.items():
            Path(name).write_text(text)
        for values in runs:
            for is_there in (False, True):
                if is_there:
                    Path("preflight.toml").write_text("[bench]\nwarn_below = 0.97\n")
                yield f"{values} {'beside settings' if is_there else ''}: {as_run(values)}"
                Path("preflight.toml").unlink(missing_ok=True)


def as_run(values: dict[str, Any]) -> str:
    """What is read."""
    try:
        options = parse_run({"hosts": "node[1-2]", **values}, command=("preflight",))
    except UsageError as error:
        return f"refused {' '.join(found.values(error.args[0]))!a}"
    scripts = [script.name for script in options.cast.scripts.values()] if options.cast else []
    told = (options.found_settings, options.launcher, options.python, options.found_python, scripts)
    return f"{told} {len(options.files.plans)} {options.settings.bench.warn_below}"


def sections() -> found.Sections:
    """Everything."""
    cases = tuple(case for case in truth.cases() if crc32(case.name.encode()) % EACH == 0)
    return {
        "verbs": of_verbs,
        "values": of_values,
        "files": partial(of_files, cases),
        "logins": partial(of_logins, cases),
        "runs": of_runs,
    }
