"""What did the ranks of a rehearsal come to, as a table a person reads at a terminal?"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.facts.results import Rehearsal
from preflight.report.columns import counted
from preflight.report.printable import printable
from preflight.said import said

STAGES = ("script", "launcher", "import", "rendezvous", "communicator", "first step")


def rehearsal_table(rehearsal: Rehearsal) -> str:
    """A row a rank, with how long each stage took it. Ends in a newline."""
    return "".join(f"{line}\n" for line in _lines(rehearsal))


def _lines(rehearsal: Rehearsal) -> Iterator[str]:
    for script in rehearsal.scripts:
        ended = "still running" if script.code is None else said("ended with {code}", script.code)
        yield printable(
            said(
                "# {node}: {file} in {folder}, last at line {line}, {ended}",
                script.node,
                script.file,
                script.folder,
                script.line,
                ended,
            )
        )
    yield said(
        "# {counted}, {backend}; seconds of each stage:",
        counted(len(rehearsal.ranks), "rank"),
        printable(rehearsal.backend),
    )
    if rehearsal.ranks:
        from tabulate import tabulate  # here, as it takes 40 ms to import

        rows = [
            [str(rank.rank), printable(rank.node), printable(rank.stage)]
            + [f"{rank.seconds[stage]:.1f}" if stage in rank.seconds else "" for stage in STAGES]
            for rank in rehearsal.ranks
        ]
        yield from str(tabulate(rows, ["rank", "node", "came to", *STAGES], tablefmt="plain")).split("\n")
