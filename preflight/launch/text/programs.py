"""What do the arguments of the program itself say about nodes, devices and batches?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import whole
from preflight.launch.plan import fail
from preflight.launch.text.marks import Marks
from preflight.launch.text.shell import Command
from preflight.said import said


def argument_number(words: list[str], *names: str) -> int | None:
    """The number after an option of the program: ``--num_nodes 2``, ``--trainer.num_nodes=2``."""
    for place, word in enumerate(words):
        option, equals, value = word.partition("=")
        if (option.startswith("-") and option.lstrip("-").rpartition(".")[2] in names) or (
            equals and option.rpartition(".")[2] in names
        ):
            text = value if equals else words[place + 1] if place + 1 < len(words) else ""
            if (number := whole(text)) is not None:
                return number
    return None


def actor_batches(commands: Sequence[Command], marks: Marks) -> Iterable[Finding]:
    """train_batch_size of an actor group divides by micro batch x its GPUs."""
    for command in commands:
        words = [word.plain for word in command.words]
        figures = [
            argument_number(words, name)
            for name in ("train_batch_size", "micro_train_batch_size", "actor_num_nodes", "actor_num_gpus_per_node")
        ]
        if all(figure is not None and figure > 0 for figure in figures):
            total, micro, nodes, gpus = (figure or 1 for figure in figures)
            world = nodes * gpus
            if total % (micro * world):
                message = said(
                    "train_batch_size {total} does not divide by {micro} (micro batch) x {world} (world size)",
                    total,
                    micro,
                    world,
                )
                yield fail(
                    "batch_sizes_multiply",
                    message,
                    Where(marks.file, command.line),
                    fix=f"--train_batch_size {max(1, total // (micro * world)) * micro * world}",
                )
