"""What did each rank of the reference training do, as a table a person reads at a terminal?"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.hosts import fold
from preflight.report.columns import RANKS, columns_of, counted
from preflight.report.printable import printable
from preflight.results import Training


def training_table(training: Training) -> str:
    """The whole training: a row a rank, the speed of all together, and where it stopped. Ends in a newline."""
    return "".join(f"{line}\n" for line in _lines(training))


def _lines(training: Training) -> Iterator[str]:
    what = f"{printable(training.model)} model, {printable(training.strategy)}, {printable(training.precision)}"
    what += f", {training.accumulate} parts a step" if training.accumulate > 1 else ""
    what += ", activations checkpointed" if training.checkpoints_activations else ""
    what += f", {printable(training.backend)}"
    yield f"# {printable(training.launcher)}: {what}, {counted(training.world_size, 'rank')}"
    if training.ranks:
        from tabulate import tabulate  # here, as it takes 40 ms to import

        columns = columns_of(RANKS, "table", training.ranks, training)
        rows = [[printable(column.text(rank, training)) for column in columns] for rank in training.ranks]
        headers = [column.header for column in columns]
        aligned = [column.align for column in columns]
        yield from str(tabulate(rows, headers, tablefmt="plain", disable_numparse=True, colalign=aligned)).split("\n")
        yield f"# Tokens/s            : {training.tokens_per_s:.4g}"
    if training.losses:
        first, last = training.losses[0], training.losses[-1]
        yield f"# Loss                : {first:.4f} -> {last:.4f} in {counted(len(training.losses), 'step')}"
    if training.scaling_efficiency is not None:
        yield f"# Scaling efficiency  : {training.scaling_efficiency:.0%} of each node by itself"
    if training.expected_communication_seconds is not None:
        expected = f"{training.expected_communication_seconds * 1e3:.3g} ms a step"
        yield f"# Expected all-reduce : {expected}, at the bandwidth of the benchmark's large all_reduce"
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
