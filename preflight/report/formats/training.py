"""What did each rank of the reference training do, as a table a person reads at a terminal?"""

from __future__ import annotations

from collections.abc import Iterator

from tabulate import tabulate

from preflight.hosts import fold
from preflight.report.printable import printable
from preflight.results import TrainedRank, Training

HEADERS = (
    "rank",
    "node",
    "device",
    "step p50 (ms)",
    "p95",
    "exchange",
    "compute",
    "data",
    "memory (MiB)",
    "import (s)",
)


def training_table(training: Training) -> str:
    """The whole training: a row a rank, the speed of all together, and where it stopped. Ends in a newline."""
    return "".join(f"{line}\n" for line in _lines(training))


def _lines(training: Training) -> Iterator[str]:
    what = f"{printable(training.model)} model, {printable(training.strategy)}, {printable(training.precision)}"
    what += f", {training.accumulate} parts a step" if training.accumulate > 1 else ""
    what += ", activations checkpointed" if training.checkpoints_activations else ""
    what += f", {printable(training.backend)}"
    yield f"# {printable(training.launcher)}: {what}, {training.world_size} ranks"
    if training.ranks:
        rows = [
            (
                str(rank.rank),
                printable(rank.node),
                printable(rank.device),
                _milliseconds(rank.step_seconds_median),
                _milliseconds(rank.step_seconds_p95),
                *_split(training, rank),
                _milliseconds(rank.data_seconds_median),
                f"{rank.memory_peak_bytes / (1 << 20):.0f}",
                f"{rank.import_seconds:.1f}",
            )
            for rank in training.ranks
        ]
        aligned = ("right", "left", "left", *["right"] * (len(HEADERS) - 3))
        yield from str(tabulate(rows, HEADERS, tablefmt="plain", disable_numparse=True, colalign=aligned)).split("\n")
        yield f"# Tokens/s            : {training.tokens_per_s:.4g}"
    if training.losses:
        first, last = training.losses[0], training.losses[-1]
        yield f"# Loss                : {first:.4f} -> {last:.4f} in {len(training.losses)} steps"
    if training.scaling_efficiency is not None:
        yield f"# Scaling efficiency  : {training.scaling_efficiency:.0%} of each node by itself"
    if training.expected_communication_seconds is not None:
        expected = _milliseconds(training.expected_communication_seconds)
        yield f"# Expected exchange   : {expected} ms a step, by the bandwidth of the bench's large all-reduce"
    failure = training.failure
    if failure is not None:
        where = printable(fold(failure.nodes))
        yield f"# Stopped at stage {failure.stage or 'unknown'} on {where}: {printable(failure.message)}"
        if failure.cause:
            yield f"# Likely cause : {failure.cause}"
            yield f"# Fix          : {failure.fix}"
        yield from (f"#   | {printable(line)}" for line in failure.last_lines)
    drill = training.drill
    if drill is not None:
        yield (
            f"# Drill: rank {drill.rank} on {printable(drill.node)} killed; all others ended after"
            f" {drill.seconds_to_end:.1f} s (limit {drill.limit_seconds:.0f} s);"
            f" {printable(drill.not_restarted) or 'torchrun restarted it from the checkpoint'}"
        )


def _split(training: Training, rank: TrainedRank) -> tuple[str, str]:
    """Exchange and compute; in shards both go on at once, and nobody sees where one ends."""
    if training.strategy != "ddp":
        return "-", "-"
    return _milliseconds(rank.communication_seconds_median), _milliseconds(rank.compute_seconds_mean)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}"
