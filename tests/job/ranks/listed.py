"""What do tests/data/said/ranked.txt list: what a rank decides before and beside torch, over many inputs?"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from preflight.job.ranks import attendance, meeting, owners, store
from preflight.job.ranks.bench import amdgpu, cores, figures, nccl, operations, pattern, sensors, settings, sizes
from preflight.job.ranks.rank import limits
from preflight.job.ranks.rehearsal import hook, place
from preflight.job.ranks.training import fingerprint, model, quota
from preflight.job.ranks.training.settings import Settings as TrainingSettings
from tests import found
from tests.job.ranks import (
    alone,
    arrivals,
    asked_owners,
    benched,
    devised,
    hooked,
    lived,
    meets,
    reported,
    saved,
    sized,
    stepped,
    trained,
    watched,
    wrapped,
)
from tests.job.ranks.bench import tables

PROGRAMS = (
    *("", "train.py", "torchrun", "/opt/bin/accelerate", "pip", "x/site-packages/ray/a.py", "torch.distributed.run"),
    *("/torch/distributed/x.py", "sft.py", "prepare.py", "deepspeed.launcher.runner", "ds"),
)
ENVIRONMENTS: tuple[dict[str, str], ...] = (
    {},
    {"RANK": "1", "WORLD_SIZE": "2"},
    {"OMPI_COMM_WORLD_RANK": "1"},
    {"PMI_RANK": "0"},
    {"SLURM_PROCID": "0"},
    {"SLURM_PROCID": "0", "SLURM_STEP_ID": "0"},
    {"LOCAL_RANK": "0"},
    {"RANK": ""},
    {"TORCHELASTIC_RUN_ID": "x"},
    {"ACCELERATE_MIXED_PRECISION": "no"},
)
COMMANDS = (
    *("python", "python -", "python a.py b", "python -m m x", "python -mm x", "python -c pass", "python -uc pass"),
    *("python -W ignore a.py", "python -Wignore a.py", "python -X dev -m m", "python -Xdev a.py", "python --version"),
    *(
        "python --check-hash-based-pycs always a.py",
        "python -um m",
        "python -m",
        "python -V",
        "python -uX dev a.py",
        "python -OOm m",
    ),
)


def of_hooks() -> Iterator[str]:
    """What a Python of the user's start is: by its words, its variables, and the programs that are known."""
    for line in COMMANDS:
        yield f"{line}: {hook.main_of(line.split())}"
    for environ in ENVIRONMENTS:
        yield f"{environ}: {hook.numbered(environ)}"
        for kind, programs in product(("file", "module", "text", ""), ([], ["train.py"], ["train.py", "prepare.py"])):
            told = [hook.part(kind, name, environ, programs) or "-" for name in PROGRAMS]
            yield f"  {kind} {programs}: {' '.join(told)}"
    yield from (
        f"{name}: {hook.trains(name)}" for name in ("Train.py", "x_tune", "dpo", "a.py", "grpo.py", "ppo", "finet")
    )
    for name in (*hook.LAUNCHERS, *hook.TOOLS):
        told = [
            hook.part(kind, of, ENVIRONMENTS[1], []) for kind, of in (("module", f"{name}.x"), ("file", f"/b/{name}"))
        ]
        yield f"{name} {told}"


def of_numbers() -> Iterator[str]:
    """Limits, patterns, sizes and figures, and all settings."""
    planned = [limits.Planned(), limits.Planned(ranks=4096, rounds=64, message_bytes=16 << 30, stored_bytes=3 << 30)]
    for stage in ("import", "checking", *limits.EXTRA):
        yield f"{stage}: {[round(limits.allowed(stage, one, seconds=45.0), 2) for one in planned]}"
    yield f"of a call: {[round(limits.of_a_call(one, seconds=45.0), 2) for one in planned]}"
    for one in (settings.Settings(), TrainingSettings()):
        yield from (f"{name}={value!r}" for name, value in asdict(one).items())
    for asked in (
        {"sizes": (8,)},
        {"mode": "pipelined"},
        {"sizes_by_operation": {"reduce": (9, 7)}},
        {"pairs": (((0, 1),),)},
    ):
        one = settings.Settings(**{"sizes": (5,), **asked})  # type: ignore[arg-type]
        yield f"{asked}: {one.message_bytes} {one.depth}"
    yield f"{[pattern.pattern(index, key) for index, key in product((0, 1, 7, 8, 1020), (0, 1, 5))]}"
    yield f"{[pattern.pattern(index, 3, 5) for index in range(20)]}"
    for dtype, ranks in product(pattern.EXACT, (1, 2, 100, 127, 128, 255, 256, 1 << 20)):
        try:
            yield f"{dtype} {ranks}: {pattern.levels_of(dtype, ranks=ranks)}"
        except ValueError as error:
            yield f"{dtype} {ranks}: {error}"
    for tiles, segment, device in product((0, 1, 2048), (1, 1021, 1022, 1 << 30), ("cpu", "cuda")):
        periods = pattern.periods_of_tile(tiles, segment=segment, itemsize=4, device=device)
        yield f"{tiles} {segment} {device}: {periods}"
    for seconds, most in product((1e-4, 0.1, 0.15, 0.3, 9.0), (1, 3 << 20, 1 << 30)):
        told = sizes.automatic_bytes(probe_bytes=1 << 20, probe_seconds=0.01, target_seconds=seconds, most_bytes=most)
        yield f"{seconds} {most}: {told}"
    yield f"{sizes.MOST_BYTES} {sizes.ALONE_BYTES}"
    for count in (1, 2, 5, 6, 7, 9, 12, 17, 40):
        values = [((place * 7) % count + 1) / 10 for place in range(count)]
        told = figures.summary(values, size_bytes=1 << 30, bus_factor=1.5)
        settled = [figures.is_settled([1.0, *[1.0 + spread] * (count - 1)], ci=0.01) for spread in (0.0, 0.019, 0.03)]
        yield f"{count}: {' '.join(f'{name}={value:.5g}' for name, value in told.items())} {settled}"
    for name, row in operations.COLLECTIVES.items():
        for ranks in (1, 2, 3):
            layouts = [(row.sends(rank, ranks), row.receives(rank, ranks)) for rank in range(ranks)]
            yield f"{name} {ranks}: {layouts} {row.bus_factor(ranks):.4f} {row.in_place} {row.sums}"
    yield from (f"{name}: {shape}" for name, shape in model.SHAPES.items())


def of_machines() -> Iterator[str]:
    """What AMD's driver, the kernel and control groups tell; locks in caches, and what a program lacks."""
    for revision, counted in product((6, 7, 8), ({}, {"prochot": 3}, {"ppt": 1, "memory": 7})):
        yield f"1.{revision} {counted}: {amdgpu.residencies(tables.metrics(revision, **counted))}"
    for bit in (*range(0, 64, 3), 23, 31, 32, 45, 46, 47):
        yield f"bit {bit}: {sorted(amdgpu.throttled(tables.older(1 << bit)))}"
    none = [amdgpu.throttled(table) for table in (tables.older((1 << 64) - 1), tables.older(1)[:119])]
    yield f"{none} {sensors.REASONS}"
    for text in ("0", "0-3", "0-1,8", "5-4", "x", ""):
        try:
            yield f"cores {text}: {sorted(cores.cores_of(text))}"
        except ValueError:
            yield f"cores {text}: none"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield from (line.replace(name, "FOLDER") for line in _of_folders(folder))


def _of_folders(folder: Path) -> Iterator[str]:
    old = time.time() - 4 * place.LOCK_SECONDS
    caches = {
        "none": (),
        "torch": ("lock",),
        "triton": ("a.lock",),
        "done": ("b.lock", "x.cubin"),
        "grouped": ("c.lock", "__grp__k.json"),
        "other": ("lockfile",),
    }
    for name, names in caches.items():
        (folder / name).mkdir()
        for one in names:
            (folder / name / one).write_text("")
            os.utime(folder / name / one, (old, old))
        yield f"locks {name}: {place.left_locks(str(folder / name))}"
    (folder / "triton" / "new.lock").write_text("")
    yield f"locks new: {place.left_locks(str(folder / 'triton'))}"
    for number in range(9):
        (folder / "many" / str(number)).mkdir(parents=True)
        (folder / "many" / str(number) / "lock").write_text("")
        os.utime(folder / "many" / str(number) / "lock", (old, old))
    yield f"locks many: {len(place.left_locks(str(folder / 'many')))}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(folder / "triton" / "deep" / "er"))
        told = place.cache("TRITON_CACHE_DIR", "~/x")
        yield f"{ {name: value for name, value in told.items() if name not in ('kind', 'free_bytes')} }"
        yield f"{told['kind'] == place.file_system('/tmp') or told['kind'] != ''} {told['free_bytes'] > 0}"
    program = folder / "train.py"
    texts = (
        "import os, json.tool\n",
        "import nowhere\n",
        "from nowhere.x import y\n",
        "from . import x\n",
        "def\n",
        "\0",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.path", list(__import__("sys").path))
        for text in texts:
            program.write_text(text)
            yield f"{text!r}: {place.lacks('file', str(program)).partition(' cannot be read')[0]}"
        for kind, name in (
            ("module", "json"),
            ("module", "nowhere"),
            ("module", "a..b"),
            ("text", ""),
            ("file", "/x/y.py"),
        ):
            yield f"{kind} {name}: {place.lacks(kind, name).partition(' in /')[0]}"
    own, root = folder / "cgroup", folder / "fs"
    for lines in ("0::/a/b\n", "3:cpu,cpuacct:/a\n2:memory:/a\n", "0::/../x\n", ""):
        own.write_text(lines)
        for one in ("", "a", "a/b", "cpu,cpuacct/a", "x"):
            (root / one).mkdir(parents=True, exist_ok=True)
            (root / one / "cpu.stat").write_text(f"nr_periods {len(one) + 5}\nnr_throttled {len(one)}\n")
        held = quota.folders(str(own), str(root))
        yield f"{lines!r}: {held} {list(map(quota.periods, held))}"
    log = folder / "log"
    lines_of = [f"n:1:2 [0] NCCL INFO Channel 0{n}/0 : 0[0] -> 1[1] [send] via NET/IB/{n % 2}" for n in range(6)]
    log.write_text("\n".join(["other", *lines_of, *(f"n:1:2 [0] NCCL INFO {sign} x" for sign in nccl.NCCL_SIGNS)]))
    yield from nccl.nccl_lines(str(log))
    yield f"{nccl.nccl_lines(str(folder / 'nothing'))} {nccl.NCCL_LINES} {nccl.DUMPS}"


FIRST = attendance.Node("gpu0", "10.0.0.1", "10.0.0.1", "a", 0, 8, 2, "1.0")
SECOND = replace(FIRST, name="gpu1", address="10.0.0.2", nonce="b", rank=2)


# Of a rank's environment, and what is none of ours or a secret.
VARIABLES = """
" NCCL_DEBUG GLOO_SOCKET_IFNAME UCX_TLS FI_PROVIDER CUDA_VISIBLE_DEVICES HF_HOME TRITON_CACHE_DIR TORCH_HOME
OMP_NUM_THREADS MASTER_ADDR TORCHELASTIC_RUN_ID TORCHELASTIC_X ACCELERATE_USE_CPU FSDP_X HIP_X ROCR_X
NVIDIA_VISIBLE_DEVICES TRANSFORMERS_CACHE XDG_CACHE_HOME XDG_DATA_HOME RANK WORLD_SIZE LOCAL_RANK
LOCAL_WORLD_SIZE GROUP_RANK NODE_RANK HOME TMPDIR SLURM_PROCID SLURM_NTASKS SLURM_LOCALID SLURM_STEP_ID
SLURM_JOB_ID SLURM_JOB_NAME SLURMD_NODENAME OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE
OMPI_COMM_WORLD_LOCAL_RANK CONDA_DEFAULT_ENV VIRTUAL_ENV LD_LIBRARY_PATH PYTHONPATH ODD_RANK USER EDITOR
NCCL_TOKEN HF_KEY CUDA_SECRET UCX_PASS FI_CREDENTIAL HF_AUTH TORCH_JWT NCCL_APIKEY
"""


def unknown(*_words: Any, **_more: Any) -> None:
    """In the place of a look-up of a name that nobody knows."""
    raise socket.gaierror(-2, "Name or service not known")


class Kept(dict[str, Any]):
    """Torch's store, as far as a meeting asks it."""

    def check(self, keys: list[str]) -> bool:
        """Whether all are there."""
        return all(key in self for key in keys)

    def set(self, key: str, value: Any) -> None:
        """Keep a value."""
        self[key] = value

    def add(self, key: str, count: int) -> int:
        """Count on."""
        self[key] = self.get(key, 0) + count
        return int(self[key])


def of_meetings() -> Iterator[str]:
    """Who comes to a meeting, what is no rank's word, what they disagree in, and whose programs are run."""
    others: tuple[Any, ...] = (
        None,
        -1,
        0,
        1,
        9,
        1 << 30,
        True,
        "x",
        "",
        "10.0.0.2",
        "::1%eth0",
        "a b",
        "-o",
        [1],
        "1.0",
    )
    for name, version in product(attendance.Node.__dataclass_fields__, ("1.0", "2.0")):
        texts = [json.dumps({**asdict(SECOND), "version": version, name: value}) for value in others]
        taken = ["yes" if attendance.node_of(text) else "no" for text in texts]
        blamed = [" ".join(found.values(attendance.other_version(text, FIRST)))[:12] or "-" for text in texts]
        yield f"{name} of {version}: {' '.join(taken)} | {' '.join(blamed)}"
    for changes in (
        *({}, {"world": 6}, {"rank": 0}, {"rank": 4}, {"address": "10.0.0.1"}, {"nonce": "z"}),
        *({"name": "gpu0", "address": "10.0.0.1"}, {"name": "gpu0", "rank": 0, "address": "10.0.0.1"}),
    ):
        node = replace(SECOND, **changes)
        for came in ({}, {0: FIRST}, {0: FIRST, 2: SECOND}):
            yield f"{changes} {sorted(came)}: {attendance.disagreement(node, FIRST, came)}"
    for ranks in ((0,), (0, 2), (0, 3), (0, 4, 6), (0, 2, 4, 6), (0, 7)):
        came = {rank: replace(SECOND, rank=rank, local=min(2, 8 - rank)) for rank in ranks}
        yield f"came {ranks}: absent {attendance.absent(came, FIRST)}"
    kept = Kept({"came": 3, "came/1": "[]", "came/3": json.dumps(asdict(SECOND))})
    yield f"{attendance.gathered(kept, FIRST, seconds=0.0)} {sorted(kept)}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASTER_ADDR", "10.9.8.7")
        patch.setenv("MASTER_PORT", "29500")
        for secret in ("", "of this job"):
            patch.setenv("PREFLIGHT_SECRET", secret)
            made = meeting.proof("p", "l", "a", "b")
            for nonces, proof in product((["a", "b"], ["a"], []), (made, "", "x")):
                told = {"program": "p", "loader": "l", "nonces": nonces, "proof": proof}
                kind = "right" if proof == made else "wrong"
                why = meeting.why_refused(told, SECOND)
                yield f"{bool(secret)} {nonces} {kind}: {meeting.is_proved(told, SECOND)} {why}"
            told = {"program": "p", "loader": "l", "proof": made}
            yield f"{bool(secret)} no nonces: {meeting.why_refused(told, SECOND)} {len(made)}"
        for name, text in (("X", "7"), ("X", "x"), ("X", "")):
            patch.setenv(name, text)
            yield f"{text}: {store.number(name, 5)}"
        yield store.why_no_store("EADDRINUSE: x\ny")
        for address, port in (("127.0.0.1", "29500"), ("127.0.0.1", "x"), ("127.0.0.1", "")):
            patch.setenv("MASTER_ADDR", address)
            patch.setenv("MASTER_PORT", port)
            met = place.meeting_place()
            yield f"{address} {port}: {met['place']} {met['addresses']} {met['own']} {met['error'][:70]}"
        patch.setenv("MASTER_PORT", "29500")
        patch.setattr("socket.getaddrinfo", unknown)
        yield place.meeting_place()["error"]
        for name in VARIABLES.split():
            patch.setenv(name, "x")
        here = place.arrived(["a" * 300, "b"], ["ODD_RANK"], "net:[1]")
        told = [name for name in VARIABLES.split() if name in here["variables"]]
        yield f"{' '.join(told)} | {[len(word) for word in here['argv']]} {here['own_network']} {sorted(here)}"
    yield f"{meeting.OF_RANKS} {meeting.OF_LAUNCHERS}"
    kept = Kept({"left": 2})
    meeting.dismiss(kept, 3, 2)
    yield f"{dict(kept)}"


def of_owners() -> Iterator[str]:
    """What an owner raises or prints: a refusal, or nothing of the files."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int)
    of_click = type("Usage", (Exception,), {"__module__": "click.exceptions", "message": "no such option"})
    for error, whole in product(
        (
            *(
                ValueError("stage 4\nFor further information visit x"),
                AssertionError("two  words"),
                ValueError("1 '1'"),
            ),
            *(ValueError("Cuda is not available."), ValueError("pip install x"), ValueError("port in use")),
            *(ValueError("CUDA"), ValueError("No such file"), ValueError("y does not exist"), ValueError("x" * 500)),
            of_click("z"),
        ),
        (False, True),
    ):

        def read(_question: Any, error: Exception = error) -> None:
            raise error

        yield f"{str(error)[:40]!r} {whole}: {owners.refusal(read, {'whole': whole})[:500]}"
    for words in ([], ["--n", "x"], ["--n", "1"], ["--help"], ["--m"], ["x"]):
        told = owners.refusal(lambda _question, words=words: parser.parse_args(words), {"whole": True})
        yield f"{words}: {told}"
    for text, whole in product(("choose from 'a', not '1'", "invalid: 'x'"), (False, True)):

        def ends(_question: Any, text: str = text) -> None:
            print(f"usage\nx: error: {text}", file=sys.stderr)
            raise SystemExit(2)

        yield f"{text} {whole}: {owners.refusal(ends, {'whole': whole})}"
    yield from (
        f"{name}: {read.__name__} {package} {modules}" for name, (read, package, modules) in owners.OWNERS.items()
    )
    for value in ({"a": "auto"}, {"a": {"b": "auto", "c": ["auto"]}}, "auto", {"a": 1}):
        yield f"{value}: {owners.without_auto(value)}"
    with suppress(owners.RefusesToStart):
        owners.no_start()
        yield "it starts"


def of_training() -> Iterator[str]:
    """How far two computations are apart."""
    ones = [[1.0] * 8, [1.0] * 4 + [1e-9] * 4, [0.0] * 8, [float("inf")] * 8, [1.0, 2.0, 3.0, 4.0] * 2]
    for ours, reference in product(ones, ones):
        yield f"{ours[:5]} {reference[:5]}: {fingerprint.distance(ours, reference):.4g}"
    for ours, wanted in product((0.0, 1.0, 1.5, -2.0, float("nan"), float("inf")), repeat=2):
        yield f"{ours} {wanted}: {fingerprint.difference(ours, wanted):.4g}"


def sections() -> found.Sections:
    """Everything."""
    return {
        "hooks": of_hooks,
        "numbers": of_numbers,
        "machines": of_machines,
        "meetings": of_meetings,
        "owners": of_owners,
        "training": of_training,
        "alone": alone.of_numbers,
        "stores": alone.of_stores,
        "sensors": alone.of_sensors,
        "records": alone.of_reports,
        "events": alone.of_events,
        "following": meets.of_following,
        "serving": meets.of_serving,
        "leading": meets.of_leading,
        "lives": meets.of_lives,
        "questions": asked_owners.of_questions,
        "answers": asked_owners.of_answers,
        "hooked": hooked.of_hooked,
        "timing": devised.of_timing,
        "of a device": devised.of_figures,
        "devices": devised.of_devices,
        "benchmarks": benched.of_works,
        "batches": benched.of_batches,
        "sizes": sized.of_sizes,
        "pairs": sized.of_pairs,
        "groups": sized.of_groups,
        "trainings": trained.of_trainings,
        "joining": trained.of_joining,
        "checkpoints": saved.of_checkpoints,
        "first steps": stepped.of_first_steps,
        "samples": stepped.of_samples,
        "reports": reported.of_reports,
        "repeats": reported.of_repeats,
        "trainees": wrapped.of_trainees,
        "watching": watched.of_watching,
        "meeting others": lived.of_meeting_others,
        "living": lived.of_living,
        "wires": lived.of_wires,
        "arrivals": arrivals.of_arrivals,
        "folders": arrivals.of_folders,
        "nccl": arrivals.of_nccl,
        "of the kernel": devised.of_the_kernel,
    }
