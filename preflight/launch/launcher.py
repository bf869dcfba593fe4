"""How is one launcher read, judged, written and started?

A launcher is one file under launchers/ that ends in a row of this type, and one word in launchers/__init__.py. Whatever
else asks about launchers (rules, options, help, README's table) asks the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from preflight.judge.ledger.findings import Finding
from preflight.launch.job import Job, Process, Start
from preflight.launch.layout import Layout
from preflight.launch.plan import LaunchFiles, Plan
from preflight.launch.text.options import Reader
from preflight.launch.text.shell import Word
from preflight.launch.traits import Counts, Traits


def _by_slurm(reader: Reader, _wrapper: tuple[str, ...]) -> Counts:
    return Counts(reader.slurm.number("nodes") if reader.slurm else None)


def _no(_plan: Plan) -> bool:
    return False


def _nothing(_of: object) -> str:
    return ""


def _no_options(_plan: Plan) -> Iterable[str]:
    return ()


def _one_start(_plan: Plan, start: Start, _files: LaunchFiles) -> tuple[Start, ...]:
    return (start,)


@dataclass(frozen=True, kw_only=True)
class Launcher(Traits):
    """One launcher: its traits, and how it is read, written and started."""

    # Reading: the plan of the words after one of its programs or modules, and the rules for its plans alone.
    read: Callable[[Reader, tuple[Word, ...], tuple[str, ...]], Plan | None] | None = None
    around: Callable[[Reader, tuple[str, ...]], Counts] = _by_slurm  # what it starts, as the words around it tell
    rules: tuple[Callable[[Plan], Iterable[Finding]], ...] = ()
    files_rules: tuple[Callable[[LaunchFiles], Iterable[Finding]], ...] = ()
    finds_nodes: Callable[[Plan], bool] = _no  # whether such a plan finds its nodes in a hostfile, not by an address
    logs_in: Callable[[Plan], bool] = _no  # whether such a plan starts the other nodes over ssh

    # Writing: the text of every launch file by its name.
    write: Callable[[Layout], dict[str, str]] | None = None

    # Starting the reference job: the processes of every node, given the port of the rendezvous.
    start: Callable[[Job, int], Mapping[str, list[Process]]] | None = None
    refuses: Callable[[Job], str] = _nothing  # why it cannot start a job of this shape

    # Starting it the way the user's files start theirs.
    claims: Callable[[Plan], bool] = _no  # whether it starts what a plan describes, whichever launcher stands there
    cannot_start: Callable[[Plan], str] = _nothing  # why such a plan is read and judged, but never started
    kept_options: Callable[[Plan], Iterable[str]] = _no_options  # options of the user's that the reference job gets
    starts_of: Callable[[Plan, Start, LaunchFiles], tuple[Start, ...]] = _one_start  # of one command for all nodes
