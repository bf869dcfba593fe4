"""Which thresholds judge this run: ours, or those of the user's preflight.toml?

A file holds only what differs from the defaults::

    [bench]
    fail_below = 0.85

    [limits]
    nofile_min = 65536

and the findings that the user decided to live with (see waivers.py).
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from preflight.judge.ledger.waivers import Waiver, parse_waivers
from preflight.said import said
from preflight.said.errors import UsageError

SIZE_LIMIT_BYTES = 1 << 20


@dataclass(frozen=True)
class BenchSettings:
    """Bandwidth, as fractions of what is expected, or of the median over the peers."""

    fail_below: float = 0.90
    warn_below: float = 0.95
    slow_below: float = 0.80  # of the median of the peers, where no rate is known
    impossible_above: float = 1.02  # of the bound: the measurement is wrong, not the link
    gpu_below: float = 0.90  # of the median of the GPUs of its model
    matmul_below: float = 0.50  # of the data sheet; 0.6 to 0.8 is usual
    memory_below: float = 0.70
    host_below: float = 0.60


@dataclass(frozen=True)
class LimitSettings:
    """What a node must grant the job's processes."""

    memlock_min_bytes: int = 1 << 30  # where RDMA is present; unlimited always does
    nofile_min: int = 4096  # the soft limit, which is what a process starts with
    nproc_min: int = 4096  # processes and threads of the user together
    shm_min_bytes_per_gpu: int = 1 << 30
    shm_min_bytes: int = 64 << 20  # without GPUs


@dataclass(frozen=True)
class ClockSettings:
    """How far a node's clock may be from the controller's."""

    max_offset_seconds: float = 1.0  # above: warn
    max_drift_seconds: float = 0.1  # over the run, against the others; 50 ppm are 15 ms in five minutes
    fail_offset_seconds: float = 30.0  # above: fail; certificates, Kerberos and rendezvous time-outs break


@dataclass(frozen=True)
class NameSettings:
    """How long the resolver may take; c10d asks it at every connection."""

    slow_lookup_seconds: float = 0.5  # above: warn
    silent_lookup_seconds: float = 4.0  # above: fail; a silent name server costs 5 s and more


@dataclass(frozen=True)
class NetworkSettings:
    """What the training interface and its ports must offer."""

    min_rate_mbps: int = 10_000  # where there are GPUs and no RDMA: below, communication takes most of a step
    min_rate_of_joined_gpus_mbps: int = 40_000  # the same where NVLink joins a node's GPUs
    min_share_of_rdma: float = 0.01  # of the fastest RDMA port's rate, where there is one
    ephemeral_ports_min: int = 4096  # how wide the kernel's own range must be
    ephemeral_used_share: float = 0.8  # of that range


@dataclass(frozen=True)
class FileSettings:
    """Room and speed where a job writes."""

    free_min_bytes: int = 1 << 30
    free_min_inodes: int = 10_000
    write_min_mbytes_per_s: float = 20.0  # of 8 MiB that reach the disk, all nodes at once
    visible_max_seconds: float = 2.0  # until another node sees a new file


@dataclass(frozen=True)
class StartSettings:
    """How long a rank may take to be ready."""

    import_max_seconds: float = 60.0  # of `import torch`; a slow shared file system takes minutes
    import_ratio: float = 5.0  # over the median of all ranks, where it takes 10 s and more


@dataclass(frozen=True)
class TrainingSettings:
    """What the reference training must show."""

    loss_drop_fraction: float = 0.05  # of the first loss, over all steps
    gradient_tolerance: float = 1e-3  # relative distance
    parameters_tolerance: float = 1e-3
    bf16_tolerance: float = 5e-2  # in place of both with --precision bf16, which rounds at 2^-8 instead of 2^-24
    replay_tolerance: float = 1e-5  # of the loss; a CPU repeats it to the bit
    # On GPUs, where kernels that add in any order (embeddings, attention) change the last bits of each step:
    gpu_replay_tolerance: float = 1e-3
    gpu_bf16_replay_tolerance: float = 2e-2
    straggler_ratio: float = 1.5  # a rank's own part of a step, over the median of all ranks: warn
    straggler_min_seconds: float = 0.01  # more than the median; less comes and goes with whatever else runs
    straggler_fail_ratio: float = 2.0  # fail: the job would run at half of its speed
    stopped_share: float = 0.5  # of the periods of a quota of CPU, in which it stops the ranks: warn


@dataclass(frozen=True)
class Settings:
    """All thresholds, and what is waived; ``Settings()`` gives the defaults."""

    bench: BenchSettings = field(default_factory=BenchSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    clock: ClockSettings = field(default_factory=ClockSettings)
    names: NameSettings = field(default_factory=NameSettings)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    files: FileSettings = field(default_factory=FileSettings)
    start: StartSettings = field(default_factory=StartSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    waivers: tuple[Waiver, ...] = ()


# Pairs where the first may not be above the second.
ORDERED = (
    ("bench.fail_below", "bench.warn_below"),
    ("bench.warn_below", "bench.impossible_above"),
    ("clock.max_offset_seconds", "clock.fail_offset_seconds"),
    ("names.slow_lookup_seconds", "names.silent_lookup_seconds"),
    ("training.straggler_ratio", "training.straggler_fail_ratio"),
)
AT_MOST_ONE = (
    "bench.fail_below",
    "bench.warn_below",
    "bench.slow_below",
    "bench.gpu_below",
    "bench.matmul_below",
    "bench.memory_below",
    "bench.host_below",
    "training.loss_drop_fraction",
    "network.ephemeral_used_share",
    "network.min_share_of_rdma",
)


def load_settings(path: Path) -> Settings:
    """The defaults with what preflight.toml at `path` changes.

    Raises UsageError naming the file and the key: a misspelt key would be a threshold that silently does not hold.
    """
    if sys.version_info >= (3, 11):  # here, as most runs have no such file
        import tomllib
    else:
        import tomli as tomllib
    name = str(path) if str(path).isprintable() else repr(str(path))
    try:
        if not path.is_file():
            raise UsageError(said("{name} is not a file that can be read", name))
        with path.open("rb") as stream:
            data = stream.read(SIZE_LIMIT_BYTES + 1)
        if len(data) > SIZE_LIMIT_BYTES:
            raise UsageError(said("{name}: more than {SIZE_LIMIT_BYTES} KiB", name, SIZE_LIMIT_BYTES >> 10))
        document = tomllib.loads(data.decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(said("{name} cannot be read: {reason}", name, reason)) from None
    return parse_settings(document, source=name)


def parse_settings(document: dict[str, Any], *, source: str) -> Settings:
    """The defaults with what `document` (section -> key -> value) changes; UsageError names the key."""
    defaults = Settings()
    sections = {part.name: getattr(defaults, part.name) for part in dataclasses.fields(Settings)}
    for section, keys in document.items():
        _known(section, list(sections), source, "section")
        if section == "waivers":
            sections[section] = parse_waivers(keys, source=source)
            continue
        if not isinstance(keys, dict):
            raise UsageError(
                said("{source}: {section}: wanted a section [{section}], got {shown}", source, section, _shown(keys))
            )
        wanted = {key.name: getattr(sections[section], key.name) for key in dataclasses.fields(sections[section])}
        for key in keys:
            _known(key, list(wanted), source, said("key in [{section}]", section))
        values = {key: _number(value, wanted[key], f"{section}.{key}", source) for key, value in keys.items()}
        sections[section] = dataclasses.replace(sections[section], **values)
    settings = Settings(**sections)
    _check_order(settings, source)
    return settings


def _known(name: str, names: list[str], source: str, what: str) -> None:
    if name in names:
        return
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = said("did you mean {near!r}?", near[0]) if near else said("known: {names}", ", ".join(names))
    raise UsageError(said("{source}: unknown {what}: {name!r}; {hint}", source, what, name[:80], hint))


def _number(value: object, default: float, key: str, source: str) -> float:
    """`value` as the kind of number that `default` is; True is no number here, and 1 is a good 1.0."""
    wanted = "a whole number above 0" if isinstance(default, int) else "a number above 0"
    if type(value) is int and isinstance(default, float) and value.bit_length() < 64:
        value = float(value)
    if isinstance(value, (int, float)) and type(value) is type(default) and math.isfinite(value) and value > 0:
        if key in AT_MOST_ONE and value > 1:
            raise UsageError(
                said("{source}: {key}: wanted a fraction up to 1, got {shown}", source, key, _shown(value))
            )
        return value
    raise UsageError(said("{source}: {key}: wanted {wanted}, got {shown}", source, key, wanted, _shown(value)))


def _shown(value: object) -> str:
    kind = {bool: "a boolean", str: "a string", dict: "a section", list: "a list"}.get(type(value), "")
    # Cut before repr: a whole number may have more digits than Python agrees to write out.
    text = repr(value)[:60] if not isinstance(value, int) or value.bit_length() < 256 else "a huge number"
    return f"{kind} {text}".strip()


def _check_order(settings: Settings, source: str) -> None:
    for low, high in ORDERED:
        values = [getattr(getattr(settings, key.split(".")[0]), key.split(".")[1]) for key in (low, high)]
        if values[0] > values[1]:
            raise UsageError(
                said("{source}: {low} ({values}) is above {high} ({values2})", source, low, values[0], high, values[1])
            )
