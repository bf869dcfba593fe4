"""What did each rank of the reference training do, as a table a person reads at a terminal?"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.facts.results import Training
from preflight.reach.hosts import fold
from preflight.report.columns import RANKS, columns_of, counted
from preflight.report.printable import printable
from preflight.said import said


def training_table(training: Training) -> str:
    """The whole training: a row a rank, the speed of all together, and where it stopped. Ends in a newline."""
    return "".join(f"{line}\n" for line in _lines(training))


def _lines(training: Training) -> Iterator[str]:
    what = said(
        "{model} model, {strategy}, {precision}",
        printable(training.model),
        printable(training.strategy),
        printable(training.precision),
    )
    what += said(", {accumulate} parts a step", training.accumulate) if training.accumulate > 1 else ""
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
        yield said(
            "# Loss                : {first:.4f} -> {last:.4f} in {counted}",
            first,
            last,
            counted(len(training.losses), "step"),
        )
    if training.scaling_efficiency is not None:
        yield said(
            "# Scaling efficiency  : {scaling_efficiency:.0%} of each node by itself", training.scaling_efficiency
        )
    if training.expected_communication_seconds is not None:
        expected = said(
            "{expected_communication_seconds:.3g} ms a step", training.expected_communication_seconds * 1000.0
        )
        yield said("# Expected all-reduce : {expected}, at the bandwidth of the benchmark's large all_reduce", expected)
    failure = training.failure
    if failure is not None:
        where = printable(fold(failure.nodes))
        yield said(
            "# Stopped at stage {stage} on {where}: {message}",
            failure.stage or "unknown",
            where,
            printable(failure.message),
        )
        if failure.cause:
            yield said("# Likely cause : {cause}", failure.cause)
            yield f"# Fix          : {failure.fix}"
        yield from (f"#   | {printable(line)}" for line in failure.last_lines)
    drill = training.drill
    if drill is not None:
        yield (
            said(
                "# Drill: rank {rank} on {node} killed; all others ended after {seconds_to_end:.1f} s (limit "
                "{limit_seconds:.0f} s); {not_restarted}",
                drill.rank,
                printable(drill.node),
                drill.seconds_to_end,
                drill.limit_seconds,
                printable(drill.not_restarted) or "torchrun restarted it from the checkpoint",
            )
        )
