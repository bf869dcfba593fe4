"""How far had each rank come: which stage of a start does a line show, and which line of a rank was its last?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from preflight.diagnose.prefix import Line, line_of

MOST_STREAMS = 4096


class Stage(IntEnum):
    """The stages of a job, in the order in which it comes to them."""

    UNKNOWN = 0
    SCRIPT = 1
    IMPORT = 2
    RENDEZVOUS = 3
    COMMUNICATOR = 4
    FIRST_STEP = 5
    RUNNING = 6
    SAVING = 7
    TEARDOWN = 8

    @property
    def words(self) -> str:
        """As a person reads it, after "in": the stage that the rank had come to."""
        return WORDS[self]


WORDS = {
    Stage.UNKNOWN: "a stage that no line shows",
    Stage.SCRIPT: "the start of the program",
    Stage.IMPORT: "the imports of the program",
    Stage.RENDEZVOUS: "the rendezvous of the ranks",
    Stage.COMMUNICATOR: "making the communicators",
    Stage.FIRST_STEP: "preparing the first step",
    Stage.RUNNING: "the steps of the job",
    Stage.SAVING: "saving",
    Stage.TEARDOWN: "the end of the job",
}
# Milestones: the name of a stage, and the words that show that it has begun.
PATTERNS: tuple[tuple[Stage, str], ...] = (
    (Stage.SCRIPT, r"nohup: ignoring input"),
    (Stage.SCRIPT, r"runner\.py:\d+:main\] cmd ="),
    (Stage.SCRIPT, r"srun: job \d+ has been allocated resources"),
    (Stage.SCRIPT, r"setting omp_num_threads environment variable for each process"),
    (Stage.SCRIPT, r"the following values were not passed to `accelerate launch`"),
    (Stage.SCRIPT, r"vllm api server version"),
    (Stage.SCRIPT, r"using nvswitch management port"),
    (Stage.SCRIPT, r"waiting for socket creation"),
    (Stage.RENDEZVOUS, r"starting elastic_operator with launch configs"),
    (Stage.RENDEZVOUS, r"rendezvous'ing worker group"),
    (Stage.RENDEZVOUS, r"initializing ddp: global_rank"),
    (Stage.RENDEZVOUS, r"initializing distributed: global_rank"),
    (Stage.RENDEZVOUS, r"waiting for \d+ (?:workers|clients|nodes|ranks)"),
    (Stage.RENDEZVOUS, r"init torch distributed begin"),
    (Stage.COMMUNICATOR, r"is using nccl=="),
    (Stage.COMMUNICATOR, r"rendezvous complete for workers"),
    (Stage.COMMUNICATOR, r"all distributed processes registered"),
    (Stage.COMMUNICATOR, r"nccl info bootstrap ?: using"),
    (Stage.COMMUNICATOR, r"nccl info net/"),
    (Stage.COMMUNICATOR, r"nccl info call to connect returned"),
    (Stage.COMMUNICATOR, r"comm \S+ rank \d+ nranks \d+ .*init start"),
    (Stage.FIRST_STEP, r"comm \S+ rank \d+ nranks \d+ .*init complete"),
    (Stage.FIRST_STEP, r"init torch distributed ends"),
    (Stage.FIRST_STEP, r"connected all rings"),
    (Stage.FIRST_STEP, r"as pytorch extensions root"),
    (Stage.FIRST_STEP, r"no modifications detected for re-loaded extension module"),
    (Stage.FIRST_STEP, r"capture cuda graph begin"),
    (Stage.FIRST_STEP, r"capturing cuda ?graph"),
    (Stage.FIRST_STEP, r"loading (?:safetensors )?checkpoint shards"),
    (Stage.FIRST_STEP, r"\*{3,} running training \*{3,}"),
    (Stage.SAVING, r"\bsaving (?:model |the )?(?:checkpoint|weights)\b"),
)
STREAM = re.compile(
    rb"(?i)\brank[ :=_-]?\d+(?=[\]:|])|^ {0,4}\d{1,5}: |\bpid=\d+|\[default\d+\]|\[\d+,\d+\]<|^[A-Za-z][\w.-]*: "
)
NUMBER = re.compile(r"(?i)(?<!job )(?<![a-z])(?:step|iter(?:ation)?|batch|epoch)s?[ \]\"':=#/-]{0,4}(\d{1,12})\b")


def stream_of(line: bytes) -> bytes:
    """The words of a line that tell the lines of one rank from those of others; empty where it has none."""
    found = STREAM.search(line[:160])
    return found[0] if found else b""


@dataclass(frozen=True)
class Reached:
    """The last sign of life of a rank: the stage it shows, and the step, -1 for none."""

    file: str
    number: int
    text: str
    rank: int
    node: str
    stage: Stage
    step: int = -1
    seconds: float = -1.0


@dataclass
class Ways:
    """The last milestone and the last line of progress of every rank that prints into the files."""

    milestones: dict[tuple[str, int, str], Reached] = field(default_factory=dict)
    steps: dict[tuple[str, bytes], tuple[int, bytes]] = field(default_factory=dict)
    counts: dict[tuple[str, bytes], int] = field(default_factory=dict)  # of lines of progress, over all runs of a file

    def pass_milestone(self, stage: Stage, file: str, number: int, line: Line) -> None:
        """A line that shows a stage; a rank that is beyond it keeps its own, except that a run begins anew."""
        key = (file, line.rank, "" if line.rank >= 0 else line.node)
        before = self.milestones.get(key)
        if before is None and len(self.milestones) >= MOST_STREAMS:
            return
        stage = max(stage, before.stage) if before else stage
        self.milestones[key] = Reached(
            file, number, line.text.strip()[:300], line.rank, line.node, stage, seconds=line.seconds
        )

    def step(self, file: str, number: int, line: bytes) -> int:
        """A line of progress: how many its rank has printed. It is called for every one of them, so it does little."""
        key = (file, stream_of(line))
        if key not in self.counts and len(self.counts) >= MOST_STREAMS:
            return 0
        self.steps[key] = number, line
        count = self.counts[key] = self.counts.get(key, 0) + 1
        return count

    def forget(self, file: str) -> None:
        """Another run begins in a file."""
        self.milestones = {key: one for key, one in self.milestones.items() if key[0] != file}
        self.steps = {key: one for key, one in self.steps.items() if key[0] != file}

    def has_own(self, file: str) -> bool:
        """Whether a file shows a stage of a job."""
        return any(key[0] == file for key in self.milestones)

    def stage_of(self, file: str, line: Line, *, has_progress: bool) -> Stage:
        """The stage in which a line was printed, as far as what its rank, else its file, printed before shows."""
        own = self.milestones.get((file, line.rank, "" if line.rank >= 0 else line.node))
        stages = [own.stage] if own else [one.stage for key, one in self.milestones.items() if key[0] == file][:64]
        if has_progress:
            stages.append(Stage.RUNNING)
        return max(stages, default=Stage.UNKNOWN)

    def last(self) -> tuple[Reached, ...]:
        """The last sign of life of each rank, by rank; of a node or a file where no line names a rank."""
        found: dict[tuple[int, str], Reached] = {}
        for one in (*self.milestones.values(), *self._steps()):
            key = (one.rank, "" if one.rank >= 0 else one.node or one.file)
            before = found.get(key)
            if before is None or (one.stage, one.step, one.number) >= (before.stage, before.step, before.number):
                found[key] = one
        return tuple(found[key] for key in sorted(found))

    def _steps(self) -> Iterator[Reached]:
        for (file, _), (number, raw) in self.steps.items():
            line = line_of(raw[:1024].decode("utf-8", "backslashreplace"), file=file)
            step = NUMBER.search(line.text)
            yield Reached(
                file,
                number,
                line.text.strip()[:300],
                line.rank,
                line.node,
                Stage.RUNNING,
                int(step[1]) if step else -1,
                line.seconds,
            )
