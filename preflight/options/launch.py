"""How do launch files meet a run: their findings in its ledger, their variables in the job, their own verb?"""

from __future__ import annotations

from dataclasses import replace

from preflight.errors import UsageError
from preflight.launch.address import address_of
from preflight.launch.field import told
from preflight.launch.job import Starting
from preflight.launch.launchers import LAUNCHERS
from preflight.launch.plan import LaunchFiles
from preflight.launch.rules.data import paths_on_nodes
from preflight.launch.start import starting_of
from preflight.options.options import Options


def with_files(options: Options, files: LaunchFiles, *, launcher: str | None) -> Options:
    """The options with what the files say of the job; `launcher` is the one that was asked for beside them.

    Raises UsageError where the two contradict each other.
    """
    starting = starting_of(files)
    if launcher and starting.launcher not in ("", launcher) and starting.launcher not in LAUNCHERS[launcher].may_start:
        where = starting.starts[0].where
        told_by = f"{where.file}:{where.line} starts the job with {starting.launcher}"
        raise UsageError(f"--launcher {launcher}: {told_by}; leave --launcher out, or --launch")
    asked, counts = options.ranks_per_node, {start.processes for start in starting.starts} - {0}
    if asked != "auto" and counts and counts != {int(asked)}:
        listed = " and ".join(map(str, sorted(counts)))
        raise UsageError(f"--ranks-per-node {asked}: the launch files start {listed} on a node; leave one of them out")
    if launcher and starting.refusal:
        starting = Starting()  # asked for by name, it starts the reference job in the files' stead
    return replace(
        options,
        launch_variables=tuple(variables(files).items()),
        named=paths_on_nodes(files),
        starting=starting,
        launcher=launcher or starting.launcher or options.launcher,
    ).checked()


def started_by(options: Options) -> str:
    """What starts the reference job, in words."""
    starts = options.starting.starts
    if options.starting.refusal:
        return f"not started: {options.starting.refusal}"
    if not starts:
        return f"started with --launcher {options.launcher}: the launch files start no job"
    places = ", ".join(dict.fromkeys(f"{start.where.file}:{start.where.line}" for start in starts))
    return f"started with {options.launcher} as {places} start{'s' * (len(starts) == 1)} the job"


def variables(files: LaunchFiles) -> dict[str, str]:
    """What every start of the files sets to one and the same value: NCCL and Gloo, and where they look for rank 0."""
    found: dict[str, set[str]] = {}
    for plan in files.plans:
        held = {name: told(value) for name, value in plan.environment.items() if name.startswith(("NCCL_", "GLOO_"))}
        if plan.may_span_nodes and address_of(plan):
            held |= {"MASTER_ADDR": address_of(plan), "MASTER_PORT": str(told(plan.master_port))}
        for name, value in held.items():
            found.setdefault(name, set()).add(str(value))
    return {name: next(iter(values)) for name, values in found.items() if len(values) == 1 and "None" not in values}
