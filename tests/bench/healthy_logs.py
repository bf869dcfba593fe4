"""What do jobs print that end well? ``python -m tests.bench.healthy_logs [NAME...]`` runs them, and records it as test data.

More than a hundred jobs of one or two ranks run on this machine (plain variables, torchrun in its forms, accelerate, DeepSpeed,
Trainer, Lightning, Ray Train; Gloo), each once as it is and once with a failure in its last rank. What they printed goes to
tests/data/recorded/*.txt.xz, with paths and names of no machine. As root every job has a network and a name of its own. --python names
the interpreter that has all of these packages.
"""

from __future__ import annotations

import argparse
import base64
import functools
import lzma
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.healthy_programs import BEGIN, PLAIN, STACKS
from tests.house import ROOT

FOLDER = ROOT / "tests" / "data" / "recorded"
SECONDS = 180.0
LONGEST, HEAD, TAIL = 300, 150, 110  # characters of a line, and lines of a log, that are kept
PACKAGES = ("torch", "accelerate", "transformers", "lightning", "deepspeed", "ray")
# Name of the failure that PLANT plants -> the causes that are right.
PLANTS = {
    "exception": ("program-error",),
    "killed": ("killed-by-signal-9",),
    "memory": ("cannot-allocate-memory",),
    "file": ("file-missing",),
    "disk": ("disk-full",),
    "port": ("connect-timed-out", "rendezvous-connection", "not-all-joined", "loopback-master"),
}
TORCHRUN = "{python} -m torch.distributed.run --nproc-per-node=2"
DEEPSPEED = (
    "{python} -m deepspeed.launcher.launch --node_rank=0 --master_addr=127.0.0.1 --master_port=29471 --world_info="
    + base64.urlsafe_b64encode(b'{"localhost": [0, 1]}').decode()
    + " {script}"
)
TWO_NODES = "{python} -m torch.distributed.run --nproc-per-node=1 --nnodes=2 --max-restarts=2"
LAUNCHERS = {
    "alone": "RANK=0 WORLD_SIZE=1 {python} {script}",
    "variables": "for r in 1 0; do RANK=$r WORLD_SIZE=2 {python} {script} & all+=($!); done; wait ${all[0]}; code=$?; wait ${all[1]}; exit $((code + $?))",
    "torchrun": TORCHRUN + " --master-port=29471 {script}",
    "torchrun standalone": TORCHRUN + " --standalone {script}",
    "torchrun c10d": TORCHRUN + " --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:29471 {script}",
    "torchrun tee": TORCHRUN + " --master-port=29471 --tee 3 --log-dir logs {script}",
    "torchrun restarts": TORCHRUN + " --max-restarts=2 --standalone {script}",
    "torchrun restarts static": TORCHRUN + " --max-restarts=2 --master-port=29471 {script}",
    "torchrun two nodes": f"{TWO_NODES} --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:29471 {{script}} & other=$!; "
    f"{TWO_NODES} --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:29471 {{script}}; code=$?; wait $other; exit $((code + $?))",
    "torchrun two nodes static": "for r in 1 0; do {python} -m torch.distributed.run --nproc-per-node=1 --nnodes=2 --node-rank=$r "
    "--master-addr=127.0.0.1 --master-port=29471 {script} & all+=($!); done; wait ${all[0]}; code=$?; wait ${all[1]}; exit $((code + $?))",
    "accelerate": "ACCELERATE_USE_CPU=true {python} -m accelerate.commands.launch --multi_gpu --num_processes=2 --num_machines=1 {script}",
    "accelerate one": "{python} -m accelerate.commands.launch --cpu {script}",
    "deepspeed": DEEPSPEED,
    "python": "{python} {script}",
    "labelled": "RANK=0 WORLD_SIZE=1 {python} {script} 2>&1 | sed -u 's/^/0: /'",
}
RESTARTING = ("torchrun restarts static", "torchrun restarts")
SILENT = ("alone", "labelled", "python")  # nobody is there who says that a process was killed
ROTATED = [
    name for name in LAUNCHERS if name not in {"python", "accelerate one", "labelled", "torchrun restarts static"}
]


@dataclass(frozen=True)
class Job:
    """A program, how it is started, and the words that its text leaves open."""

    stack: str
    name: str
    launcher: str
    words: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """As it is listed."""
        filled = " ".join(f"{key}={value}" for key, value in self.words.items() if len(value) < 20 and value)
        return " ".join(filter(None, (f"{self.name}, {self.launcher}", filled)))

    @property
    def program(self) -> str:
        """The text of its script."""
        text = PLAIN.get(self.name) or STACKS[self.name]
        return BEGIN + functools.reduce(lambda done, key: done.replace(key, self.words[key]), self.words, text)


def jobs() -> Iterator[Job]:
    """All of them."""
    for number, name in enumerate(PLAIN):
        detail = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"} if name == "DETAIL" else {}
        for step in (0, 1, 5):
            yield Job("torch", name, ROTATED[(number + step) % len(ROTATED)], environment=detail)
    for name in [name for name in STACKS if name.startswith("recovers")]:
        for launcher in RESTARTING:
            yield Job("restarts", name, launcher)
    for launcher in ("python", "accelerate", "torchrun", "torchrun tee", "accelerate one"):
        yield Job("accelerate", "accelerate", launcher)
    for launcher in ("python", "torchrun"):
        yield Job("accelerate", "accelerate finds a batch size", launcher)
    for stage, launcher in (("0", "deepspeed"), ("1", "torchrun"), ("2", "deepspeed")):
        yield Job(
            "deepspeed",
            "deepspeed",
            launcher,
            {"ZERO": stage},
            {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29471", "DS_ACCELERATOR": "cpu"},
        )
    for bar, launcher in (
        ("False", "python"),
        ("True", "python"),
        ("False", "torchrun"),
        ("True", "accelerate"),
        ("True", "labelled"),
    ):
        yield Job("trainer", "trainer", launcher, {"BAR": bar})
    yield from lightnings()
    for retry in ("0", "2"):
        yield Job("ray", "ray train", "python", {"RETRY": retry}, {"RAY_TRAIN_V2_ENABLED": "1"})
    yield Job("torch", "spawned", "python")


def lightnings() -> Iterator[Job]:
    """Lightning's strategies and callbacks."""
    save = "[ModelCheckpoint(monitor='val_loss', save_last=True)]"
    stop = "[EarlyStopping('val_loss', patience=1, min_delta=9.0)]"
    for devices, strategy, callbacks, launcher in (
        ("1", "'auto'", save, "python"),
        ("1", "'auto'", stop, "labelled"),
        ("2", "'ddp'", save, "python"),
        ("2", "'ddp'", stop, "torchrun"),
        ("2", "'ddp_find_unused_parameters_true'", "[]", "torchrun"),
    ):
        filled = {"DEVICES": devices, "STRATEGY": strategy, "CALLBACKS": callbacks, "DONE": ""}
        yield Job("lightning", "lightning", launcher, filled)


def plant_of(job: Job, number: int) -> str:
    """The failure that is planted in a job: they take turns; a wrong port where two ranks join by one."""
    plants = [name for name in PLANTS if name != "killed" or job.launcher not in SILENT]
    plants = plants if job.name in PLAIN and job.launcher not in SILENT else [name for name in plants if name != "port"]
    return plants[number % len(plants)]


def is_as_wanted(job: Job, plant: str, code: int) -> bool:
    """Whether it ended as it was meant to: the log of a healthy job that failed is none."""
    if plant:
        return code > 0
    return code == 0 or (job.name == "interrupted after a save" and code > 0)


def run(job: Job, plant: str, python: str) -> tuple[int, str]:
    """Start the job; its exit code, and what it printed."""
    with tempfile.TemporaryDirectory(prefix="job") as made:
        folder = Path(made)
        (folder / "train.py").write_text(job.program)
        (folder / "hosts").write_text("127.0.0.1 localhost\n127.0.0.1 node1\n")
        (folder / "resolv.conf").write_text("")
        given = {"{python}": python, "{script}": "train.py", "{folder}": made}
        line = functools.reduce(lambda text, name: text.replace(name, given[name]), given, LAUNCHERS[job.launcher])
        words = ["bash", "-o", "pipefail", "-c", line]
        if os.geteuid() == 0:
            alone = "ip link set lo up; hostname node1; mount --bind hosts /etc/hosts; mount --bind resolv.conf /etc/resolv.conf"
            words = [
                "unshare",
                "--net",
                "--uts",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "bash",
                "-o",
                "pipefail",
                "-c",
                f"{alone}; {line}",
            ]
        environment = {
            **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
            "OMP_NUM_THREADS": "1",
            "TMPDIR": made,
            "HOME": made,
            "PLANT": plant,
            "PYTHONUNBUFFERED": "1",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29471",
            "RAY_USAGE_STATS_ENABLED": "0",
            **job.environment,
        }
        with (folder / "job.log").open("wb") as output:
            started = subprocess.Popen(
                words, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=folder, start_new_session=True
            )
            try:
                code = started.wait(SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(started.pid, 9)
                code = started.wait()
        return code, clean((folder / "job.log").read_text(errors="replace"), made, python)


def clean(text: str, folder: str, python: str) -> str:
    """Without the paths of this machine, and no longer than what tells something."""
    here = Path(python)
    real = Path(os.path.realpath(here))
    for path, name in (
        (folder, "/job"),
        (str(here.parent.parent), "/venv"),
        (str(real.parent.parent), "/usr"),
        (str(ROOT), "/src"),
    ):
        text = text.replace(path, name)
    text = re.sub(r"/tmp/[\w./-]*", "/tmp/x", text)
    lines = [line[:LONGEST].rstrip() for line in re.split(r"\r?\n|\r", text)]
    lines = [line for number, line in enumerate(lines) if line or (number and lines[number - 1])]
    if len(lines) > HEAD + TAIL:
        lines = [*lines[:HEAD], *lines[-TAIL:]]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """All jobs, or those whose stack or title is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    given = parser.parse_args()
    chosen = [job for job in jobs() if not given.names or job.stack in given.names or job.name in given.names]
    asked = [(job, plant) for number, job in enumerate(chosen) for plant in ("", plant_of(job, number))]
    given.folder.mkdir(parents=True, exist_ok=True)
    versions = subprocess.run(
        [
            given.python,
            "-c",
            f"import importlib.metadata as m; print(*(f'{{n}} {{m.version(n)}}' for n in {PACKAGES}), sep=', ')",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    recorded: dict[str, list[str]] = {}
    with ThreadPoolExecutor(2) as pool:
        for (job, plant), (code, text) in zip(
            asked, pool.map(lambda pair: run(*pair, given.python), asked), strict=True
        ):
            title = f"{job.title}{f', {plant}' if plant else ''}"
            print(f"{job.stack}: {title}: exit {code}, {text.count(chr(10))} lines", flush=True)
            if not is_as_wanted(job, plant, code):
                print("    not as wanted", *text.splitlines()[-4:], sep="\n    ", flush=True)
                continue
            # One that is killed on purpose may not come so far that the other failure is reached.
            also = ("killed-by-signal-9",) if "killed rank" in job.name else ()
            expected = " ".join((*PLANTS[plant], *also)) if plant else ""
            recorded.setdefault(job.stack, []).append(f"%% {title} = {expected}\n{text}")
            head = f"Recorded with {versions} by python -m tests.bench.healthy_logs; each log under its job and the causes that are right.\n\n"
            whole = head + "\n".join(recorded[job.stack])
            (given.folder / f"{job.stack}.txt.xz").write_bytes(lzma.compress(whole.encode(), preset=9))


if __name__ == "__main__":
    main()
