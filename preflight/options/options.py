"""What did the user ask for, on whichever command line?"""

from __future__ import annotations

import re
import secrets
import shlex
import time
from dataclasses import dataclass, field
from pathlib import Path

from preflight.errors import UsageError
from preflight.launch.job import Starting
from preflight.launch.launchers import LAUNCHERS, startable
from preflight.options.sweep import Sweep, parse_sweep
from preflight.options.table import Chosen
from preflight.settings import Settings, load_settings
from preflight.transport import Reach

PROFILES = {"quick": 45.0, "standard": 300.0, "full": 900.0}
MODELS = ("tiny", "small", "medium")
STRATEGIES = ("ddp", "fsdp")
PRECISIONS = ("fp32", "bf16")
ACCUMULATE = ("1", "2", "4")  # what divides the batch of every model
BACKENDS = ("auto", "nccl", "gloo")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def new_run_id() -> str:
    """A name that sorts by time and that no other run has."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"


@dataclass(frozen=True)
class Options:
    """One run, as asked for; see README for the words."""

    hosts: str = "local"
    python: str | None = None
    wrap: str = ""
    ssh_option: str = ""
    env: tuple[str, ...] = ()
    launch: tuple[str, ...] = ()
    launch_variables: tuple[tuple[str, str], ...] = ()  # what those files set alike for every rank
    starting: Starting = field(default_factory=Starting)  # how those files start the reference job
    backend: str = "auto"
    ranks_per_node: str = "auto"
    launcher: str = "direct"
    model: str = "tiny"
    strategy: str = "ddp"
    precision: str = "fp32"
    accumulate: str = "1"
    checkpoint_activations: bool = False
    checkpoint_dir: str = ""
    drill: bool = False
    profile: str = "standard"
    deadline: float | None = None
    settings: Settings = field(default_factory=Settings)
    report_dir: Path | None = None
    fail_on_warn: bool = False
    require_all: bool = False
    prune: bool = False
    force: bool = False
    full_mesh: bool = False
    localize: bool = False
    burn_in: bool = False
    sweep: Sweep = field(default_factory=Sweep)
    baseline: str = ""
    shared: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    named: tuple[str, ...] = ()  # what the launch files tell the program to read
    ssh_trust: bool = False
    from_run: Path | None = None
    subjects: tuple[str, ...] = ()
    run_id: str = field(default_factory=new_run_id)
    command: tuple[str, ...] = ()

    @property
    def deadline_seconds(self) -> float:
        """The limit of the whole run."""
        return PROFILES[self.profile] if self.deadline is None else self.deadline

    @property
    def reach(self) -> Reach:
        """How the nodes are reached. Raises UsageError for words that no shell could split."""
        return Reach(self.python, _words("--wrap", self.wrap), _words("--ssh-option", self.ssh_option))

    @property
    def needs_trust(self) -> bool:
        """Whether the nodes must be able to log in to each other: asked for, or the launcher does it."""
        return self.ssh_trust or LAUNCHERS[self.launcher].needs_logins or self.starting.logs_in

    @property
    def folder(self) -> Path:
        """Where the report goes."""
        return self.report_dir or Path("reports") / self.run_id

    @property
    def layers(self) -> list[tuple[str, dict[str, str]]]:
        """The layers of the job's environment over the node's own. Raises UsageError for a malformed --env."""
        variables: dict[str, str] = {}
        for text in self.env:
            name, equals, value = text.partition("=")
            if not equals or not NAME.fullmatch(name) or "\0" in value:
                raise UsageError(f"--env {text!r}: wanted NAME=VALUE")
            variables[name] = value
        layers = [("launch files", dict(self.launch_variables)), ("--env", variables)]
        return [(name, layer) for name, layer in layers if layer]

    def checked(self) -> Options:
        """These options, or UsageError naming the first that cannot be."""
        for name, value, known in (
            ("--backend", self.backend, BACKENDS),
            ("--launcher", self.launcher, startable()),
            ("--model", self.model, MODELS),
            ("--strategy", self.strategy, STRATEGIES),
            ("--precision", self.precision, PRECISIONS),
            ("--accumulate", self.accumulate, ACCUMULATE),
            ("--profile", self.profile, tuple(PROFILES)),
        ):
            if value not in known:
                raise UsageError(f"{name} {value!r}: not supported; wanted one of {', '.join(known)}")
        if self.ranks_per_node != "auto" and not re.fullmatch(r"[1-9][0-9]{0,3}", self.ranks_per_node):
            raise UsageError(f"--ranks-per-node {self.ranks_per_node!r}: wanted a number from 1, or auto")
        if not 5.0 <= self.deadline_seconds <= 86400.0:
            raise UsageError(f"--deadline {self.deadline_seconds:g}: wanted 5 to 86400 seconds")
        if self.checkpoint_dir and not self.checkpoint_dir.startswith("/"):
            raise UsageError(f"--checkpoint-dir {self.checkpoint_dir}: wanted a path from /, alike on every node")
        row = LAUNCHERS[self.launcher]
        if self.strategy != "ddp" and row.strategy:
            raise UsageError(f"--strategy {self.strategy}: --launcher {self.launcher} trains with {row.trains_with}")
        for option, paths in (("--shared", self.shared), ("--same", self.same)):
            for path in paths:
                if not path.startswith("/") or "\0" in path:
                    raise UsageError(f"{option} {path!r}: wanted a full path, the same on every node")
        self.reach  # noqa: B018 - raises for words that cannot be split
        self.layers  # noqa: B018
        if self.from_run is not None and not self.from_run.is_dir():
            raise UsageError(f"--from {self.from_run}: not a folder")
        if self.report_dir is not None and self.report_dir.exists() and not self.report_dir.is_dir():
            raise UsageError(f"--report-dir {self.report_dir}: is there, and is not a folder")
        return self


def _words(option: str, text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: {error}") from None


SWEEP_WORDS = ("op", "begin", "end", "factor", "iters", "warmup", "dtype", "mode", "scope")


def options_from(chosen: Chosen, command: list[str]) -> Options:
    """The typed options. Raises UsageError for the first that cannot be."""
    return Options(
        hosts="local" if chosen["hosts"] is None else chosen["hosts"],
        python=chosen["python"],
        wrap=chosen["wrap"],
        ssh_option=chosen["ssh_option"],
        env=tuple(chosen["env"]),
        launch=tuple(chosen["launch"]),
        backend=chosen["backend"],
        ranks_per_node=chosen["ranks_per_node"],
        launcher=chosen["launcher"] or "direct",
        model=chosen["model"],
        strategy=chosen["strategy"],
        precision=chosen["precision"],
        accumulate=chosen["accumulate"],
        checkpoint_activations=bool(chosen["checkpoint_activations"]),
        checkpoint_dir=chosen["checkpoint_dir"],
        drill=bool(chosen["drill"]),
        profile=chosen["profile"],
        deadline=chosen["deadline"],
        settings=load_settings(Path(chosen["settings"])) if chosen["settings"] else Settings(),
        report_dir=Path(chosen["report_dir"]) if chosen["report_dir"] else None,
        fail_on_warn=bool(chosen["fail_on_warn"]),
        require_all=bool(chosen["require_all"]),
        prune=bool(chosen["prune"]),
        force=bool(chosen["force"]),
        full_mesh=bool(chosen["full_mesh"]),
        baseline=chosen["baseline"] or "",
        localize=bool(chosen["localize"]),
        burn_in=bool(chosen["bench_burn_in"]) or chosen["profile"] == "full",
        sweep=parse_sweep({name: chosen[f"bench_{name}"] for name in SWEEP_WORDS}, is_full=chosen["profile"] == "full"),
        shared=tuple(path.rstrip("/") or "/" for path in chosen["shared"]),
        same=tuple(path.rstrip("/") or "/" for path in chosen["same"]),
        ssh_trust=bool(chosen["ssh_trust"]),
        from_run=Path(chosen["from"]) if chosen["from"] else None,
        subjects=tuple(filter(None, str(chosen.values.get("subjects", "")).split(","))),
        run_id=chosen.values.get("run_id") or new_run_id(),
        command=tuple(command),
    ).checked()
