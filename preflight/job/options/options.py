"""Which options are there, and what follows from those that were given?"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from preflight.facts.racks import Racks, read_topology
from preflight.job.options.sweep import DTYPES, MODES, SCOPES, Sweep, parse_sweep
from preflight.job.options.table import Names, option, options_of
from preflight.job.options.values import duration, reach, variables, vendor_tests, webhook, without_end_slash
from preflight.judge.settings import Settings, load_settings
from preflight.launch.job import Starting
from preflight.launch.launcher import Launcher
from preflight.launch.plan import LaunchFiles
from preflight.reach.host import Host
from preflight.reach.hosts import parse_hosts
from preflight.reach.transport import Reach, forms, transport_of
from preflight.said import joined, said

if TYPE_CHECKING:
    from preflight.launch.cast import Cast

PROFILES = {"quick": 45.0, "standard": 300.0, "full": 900.0}
BACKENDS = ("auto", "nccl", "gloo")
MODELS = ("tiny", "small", "medium")
STRATEGIES = ("ddp", "fsdp")
PRECISIONS = ("fp32", "bf16")
ACCUMULATE = ("1", "2", "4")  # what divides the batch of every model
SWEEP_WORDS = ("op", "begin", "end", "factor", "iters", "warmup", "dtype", "mode", "scope")

# Which verbs take an option; pytest takes all of them.
RUN = frozenset({"run"})
BENCH = frozenset({"bench"})
TRAIN = frozenset({"run", "train"})
MESH = frozenset({"run", "bench"})
CHECKS = frozenset({"run", "bench", "train"})
FACTS = CHECKS | {"facts"}
REHEARSE = frozenset({"rehearse"})
JSON = FACTS | REHEARSE | {"launch check", "report", "diagnose"}
SPOKEN = JSON | {"launch write", "explain"}
JOB = CHECKS | {"launch check", "launch write"}
NODES = JOB | REHEARSE | {"facts", "diagnose"}
REPORTED = CHECKS | REHEARSE

# The headings of --help.
WHERE = "nodes"
WHAT = "the job to come"
CHECKED = "what is checked"
BANDWIDTH = "bandwidth"
REFERENCE = "reference training job"
VERDICT = "verdict and report"


def new_run_id() -> str:
    """A name that sorts by time and that no other run has."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.urandom(3).hex()}"


def _startable() -> tuple[str, ...]:
    from preflight.launch.launchers import startable

    return startable()


def launcher_row(name: str) -> Launcher:
    """The launcher of that name; what is not started is not imported."""
    from preflight.launch.launchers import LAUNCHERS

    return LAUNCHERS[name]


def _load_settings(path: str) -> Settings:
    return load_settings(Path(path))


@dataclass(frozen=True)
class Options:
    """One run as the user asked for it. A field made by `option` is an option of the command line too."""

    hosts: tuple[Host, ...] = option(
        (Host("local", "127.0.0.1", transport="local"),),
        WHERE,
        said("Hosts: {forms}, node[01-16], user@host:port, @hostfile.", joined(forms(), ", ")),
        NODES,
        metavar="HOSTS",
        is_joined=True,
        is_common=True,
        convert=parse_hosts,
        shown="local",
    )
    python: str | None = option(
        None,
        WHERE,
        "The Python of the job on the nodes.",
        NODES,
        metavar="PATH",
        shown="python3, and for local the Python that runs preflight",
        is_live=True,
        is_common=True,
    )
    wrap: str = option(
        "",
        WHERE,
        "The command on the node that enters the job's environment: 'docker exec -i trainer'.",
        NODES,
        metavar="CMD",
        is_live=True,
    )
    ssh_option: str = option("", WHERE, "Further options for ssh.", NODES, metavar="WORDS", is_live=True)
    topology: Racks | None = option(
        None,
        WHERE,
        "Racks or switches and their nodes: Slurm's topology.conf, or lines such as r7: node[01-16].",
        CHECKS,
        metavar="FILE",
        shown="what Slurm says, or the labels of Kubernetes' nodes",
        convert=read_topology,
        is_live=True,
    )
    dry_run: bool = option(
        False, WHERE, "Print the hosts and commands, and contact no host.", FACTS | REHEARSE | {"diagnose"}
    )
    from_run: Path | None = option(
        None,
        WHERE,
        "Judge what an earlier run stored, and contact no host: its folder, its id in reports/, or `last`.",
        CHECKS,
        name="from",
        metavar="RUN",
        convert=Path,
    )
    launch: tuple[str, ...] = option(
        (), WHAT, "A launch file of the job. Repeatable.", CHECKS, metavar="FILE", is_common=True
    )
    rehearse: tuple[str, ...] = option(
        (),
        WHAT,
        "Run this script of the job for real at the end, with our program for its own. Repeatable.",
        RUN,
        metavar="FILE",
        is_live=True,
    )
    yes: bool = option(False, WHAT, "Run the script without asking.", RUN | REHEARSE, is_live=True)
    env: tuple[str, ...] = option(
        (), WHAT, "A variable of the job. Repeatable.", NODES, metavar="NAME=VALUE", is_live=True, is_common=True
    )
    backend: str = option(
        "auto",
        WHAT,
        "The backend of the job. With auto it is NCCL where every node has GPUs, and Gloo elsewhere.",
        NODES,
        choices=BACKENDS,
    )
    ranks_per_node: str = option(
        "auto",
        WHAT,
        "How many ranks a node has. With auto one for each GPU; without GPUs 1, and 2 on a single node.",
        JOB,
        metavar="N",
        is_live=True,
    )
    profile: str = option(
        "standard",
        CHECKED,
        "How much: facts and ports; these, bandwidth and training; or all of it with every collective.",
        CHECKS,
        choices=tuple(PROFILES),
        is_common=True,
    )
    deadline: float | None = option(
        None,
        CHECKED,
        "How long the whole run may take.",
        NODES,
        metavar="SECONDS",
        number=float,
        convert=float,
        shown="45, 300 or 900, by profile",
    )
    shared: tuple[str, ...] = option(
        (),
        CHECKED,
        "A folder that all nodes must share: a token written on one is read on the others. Repeatable.",
        FACTS,
        metavar="PATH",
        convert=without_end_slash,
        is_live=True,
    )
    same: tuple[str, ...] = option(
        (),
        CHECKED,
        "A file or folder that must be the same on every node: its digests are compared. Repeatable.",
        FACTS,
        metavar="PATH",
        convert=without_end_slash,
        is_live=True,
    )
    ssh_trust: bool = option(
        False, CHECKED, "Log in from every node to every other, as deepspeed, pdsh and mpirun do.", FACTS, is_live=True
    )
    vendor_tests: str = option(
        "",
        CHECKED,
        "The vendors' GPU tests to run where installed: dcgmi, dcgmi:3, nvbandwidth, rvs, agfhc.",
        frozenset({"run", "bench"}),
        metavar="NAMES",
        is_live=True,
    )
    full_mesh: bool = option(
        False, CHECKED, "Measure every ordered pair of nodes, however many there are.", MESH, is_live=True
    )
    reuse: timedelta | None = option(
        None,
        CHECKED,
        "Take bandwidth and training from a run up to this old, where nothing has changed since: 6h, 30m.",
        CHECKS,
        metavar="DURATION",
        convert=duration,
        is_live=True,
    )
    last_failed: bool = option(
        False,
        CHECKED,
        "Run again what was not green in the last run of these hosts, and nothing else.",
        RUN,
        is_live=True,
    )
    force: bool = option(False, CHECKED, "Run the jobs even on GPUs that other programs use.", CHECKS, is_live=True)
    prune: bool = option(False, CHECKED, "Start bandwidth and training only on the nodes that are good so far.", CHECKS)
    need: int | None = option(
        None,
        CHECKED,
        "Choose the N best of the hosts, as --prune does, keep the others as spares, and judge those chosen.",
        CHECKS,
        metavar="N",
        number=int,
        convert=int,
    )
    settings: Settings = option(
        Settings,
        VERDICT,
        "Thresholds and waivers, as preflight.toml has them.",
        REPORTED,
        metavar="FILE",
        shown="./preflight.toml where there is one",
        convert=_load_settings,
    )
    fail_on_warn: bool = option(False, VERDICT, "End with exit code 1 on a warning.", REPORTED)
    require_all: bool = option(False, VERDICT, "Count as an error what preflight is not permitted to read.", REPORTED)
    baseline: str = option(
        "", VERDICT, "Show what changed since an earlier run: its folder, or last-good.", CHECKS, metavar="RUN"
    )
    notify: str = option(
        "",
        VERDICT,
        "Send the verdict to a webhook: Slack's and Feishu's are known by their host, others get JSON.",
        REPORTED,
        metavar="URL",
        convert=webhook,
    )
    report_dir: Path | None = option(
        None, VERDICT, "The folder of the report.", REPORTED, metavar="DIR", convert=Path, shown="reports/<run id>"
    )
    record: Path | None = option(
        None,
        VERDICT,
        "Write what the facts were read from, without secrets and serial numbers, into this folder.",
        frozenset({"facts"}),
        metavar="DIR",
        convert=Path,
    )
    json: str = option(
        "", VERDICT, "Print the result as JSON, or write it to FILE.", JSON, metavar="FILE", file_or_stdout=True
    )
    lang: str = option(
        "auto",
        VERDICT,
        "The language of terminal and pages; auto is that of the locale. JSON stays English.",
        SPOKEN,
        choices=("auto", "en", "zh"),
    )
    localize: bool = option(
        False, BANDWIDTH, "Search for slow nodes even when the bandwidth is good.", MESH, is_live=True
    )
    bench_op: str | None = option(
        None,
        BANDWIDTH,
        "The collectives: all, or some of them, such as all_reduce,broadcast.",
        BENCH,
        metavar="NAMES",
        shown="all_reduce, and all with --profile full",
        is_live=True,
    )
    bench_begin: str | None = option(
        None,
        BANDWIDTH,
        "The smallest size, such as 8, 512K, 32M or 1G.",
        BENCH,
        letter="-b",
        metavar="SIZE",
        shown="one size that suits the links",
        is_live=True,
    )
    bench_end: str | None = option(
        None, BANDWIDTH, "The largest size.", BENCH, letter="-e", metavar="SIZE", is_live=True
    )
    bench_factor: str | None = option(
        None,
        BANDWIDTH,
        "The factor from one size to the next.",
        BENCH,
        letter="-f",
        metavar="N",
        shown="2",
        is_live=True,
    )
    bench_iters: str | None = option(
        None,
        BANDWIDTH,
        "The number of timed iterations.",
        BENCH,
        metavar="N",
        shown="as many as the median needs",
        is_live=True,
    )
    bench_warmup: str = option(
        "2", BANDWIDTH, "The number of untimed iterations of each size.", BENCH, metavar="N", is_live=True
    )
    bench_dtype: str = option("float32", BANDWIDTH, "The type of the elements.", BENCH, choices=DTYPES, is_live=True)
    bench_mode: str = option(
        "blocking",
        BANDWIDTH,
        "One operation at a time (latency), or several in flight at once (bandwidth).",
        BENCH,
        choices=MODES,
        is_live=True,
    )
    bench_scope: str = option(
        "all",
        BANDWIDTH,
        "All ranks together, each node by itself, one rank of each node, rail by rail, or each rack.",
        BENCH,
        choices=SCOPES,
        is_live=True,
    )
    bench_burn_in: bool = option(
        False,
        BANDWIDTH,
        "Also measure what each GPU does alone: matrices, memory, copies to the host.",
        BENCH,
        is_live=True,
    )
    launcher: str = option(
        "direct",
        REFERENCE,
        "What starts the job: %(choices)s.",
        TRAIN,
        choices=Names(_startable),
        shown="the launcher of the launch files, else direct",
        is_live=True,
    )
    model: str = option("tiny", REFERENCE, "The size of the model.", TRAIN, choices=MODELS, is_live=True)
    strategy: str = option(
        "ddp", REFERENCE, "How the model is spread over the ranks.", TRAIN, choices=STRATEGIES, is_live=True
    )
    precision: str = option(
        "fp32", REFERENCE, "The precision; bf16 is autocast.", TRAIN, choices=PRECISIONS, is_live=True
    )
    accumulate: str = option(
        "1",
        REFERENCE,
        "The number of parts of each batch; gradients are exchanged after the last.",
        TRAIN,
        choices=ACCUMULATE,
        is_live=True,
    )
    checkpoint_activations: bool = option(
        False, REFERENCE, "Recompute activations in the backward pass instead of keeping them.", TRAIN, is_live=True
    )
    checkpoint_dir: str = option(
        "",
        REFERENCE,
        "A folder that all nodes share: write a checkpoint there, read it and resume.",
        TRAIN,
        metavar="DIR",
        convert=without_end_slash,
        is_live=True,
    )
    drill: bool = option(
        False,
        REFERENCE,
        "Also kill a rank during the run: do the others end, does torchrun restart?",
        TRAIN,
        is_live=True,
    )

    # What is no option: how the command line was given, and what the launch files say.
    command: tuple[str, ...] = ()
    run_id: str = field(default_factory=new_run_id)
    subjects: tuple[str, ...] = ()  # of the checks that a verb runs; () for all
    only: frozenset[str] | None = None  # the checks that --last-failed asks again
    cast: Cast | None = None  # which script is rehearsed on which node
    found_settings: str = ""  # the settings file that was not named, but found
    found_python: str = ""  # the interpreter that was not named, but stands in the launch files
    verbosity: str = "summary"  # or "line", or "checks"
    told_apart: str = ""  # the result that the verb prints itself: bench, training or rehearsal
    files: LaunchFiles = field(default_factory=LaunchFiles)
    launch_variables: tuple[tuple[str, str], ...] = ()  # what the launch files set to one value for every rank
    starting: Starting = field(default_factory=Starting)  # how they start the reference job
    named: tuple[str, ...] = ()  # the paths that they tell the program to read

    @property
    def deadline_seconds(self) -> float:
        """The limit of the whole run."""
        if self.deadline is not None:
            return self.deadline
        starting = max((transport_of(host).starting_seconds for host in self.hosts), default=0.0)
        return PROFILES[self.profile] + self.seconds_of_vendors + starting

    @property
    def tests_of_vendors(self) -> tuple[tuple[str, str, float], ...]:
        """The tests of --vendor-tests: program, level and seconds. Raises UsageError for one that is not known."""
        return vendor_tests(self.vendor_tests)

    @property
    def seconds_of_vendors(self) -> float:
        """How long those tests may take, one after the other."""
        return sum(seconds for _, _, seconds in self.tests_of_vendors)

    @property
    def reach(self) -> Reach:
        """How the nodes are reached. Raises UsageError for words that no shell could split."""
        return reach(self.python, self.wrap, self.ssh_option)

    @property
    def sweep(self) -> Sweep:
        """What the benchmark measures. Raises UsageError for sizes and numbers that cannot be."""
        words = {word: getattr(self, f"bench_{word}") for word in SWEEP_WORDS}
        return parse_sweep(words, is_full=self.profile == "full")

    @property
    def burn_in(self) -> bool:
        """Whether each GPU is also measured alone."""
        return self.bench_burn_in or self.profile == "full"

    @property
    def needs_trust(self) -> bool:
        """Whether the nodes must be able to log in to each other: for --ssh-trust, or because the launcher does it."""
        from preflight.launch.schedulers.mpi import horovodruns  # imported here: not every run has launch files

        by_launcher = launcher_row(self.launcher).needs_logins or self.starting.logs_in
        return self.ssh_trust or by_launcher or bool(self.files.scripts and horovodruns(self.files))

    @property
    def folder(self) -> Path:
        """Where the report goes."""
        return self.report_dir or Path("reports") / self.run_id

    @property
    def layers(self) -> list[tuple[str, dict[str, str]]]:
        """The layers of the job's environment over the node's own. Raises UsageError for a malformed --env."""
        layers = [("launch files", dict(self.launch_variables)), ("--env", variables(self.env))]
        return [(name, layer) for name, layer in layers if layer]

    @property
    def paths_to_share(self) -> tuple[str, ...]:
        """The folders that all nodes must share: those of --shared, and the one that the checkpoint is written to."""
        return tuple(dict.fromkeys((*self.shared, *filter(None, [self.checkpoint_dir]))))


OPTIONS = options_of(Options)
