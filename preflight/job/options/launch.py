"""What do the launch files of a job change about a run?"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from preflight.job.options.options import Options
from preflight.job.options.parse import checked, parse_options
from preflight.launch.address import address_of
from preflight.launch.field import value_of
from preflight.launch.job import Starting
from preflight.launch.plan import OF_MANIFESTS, LaunchFiles, Plan
from preflight.reach.host import Host
from preflight.said import said
from preflight.said.errors import UsageError

SETTINGS_FILE = "preflight.toml"
INTERPRETER = re.compile(r"/[A-Za-z0-9_./+@-]*/python[0-9.]*")
PLAIN_WRAPPERS = frozenset({"exec", "env", "nohup", "time"})


def parse_run(values: Mapping[str, Any], *, command: tuple[str, ...], verbosity: str = "summary") -> Options:
    """The typed options of a run, with its launch files read: the one place where both are.

    Without --settings, preflight.toml in the present folder holds, and the report says so.
    Raises UsageError for a value that cannot be, an unreadable file, and options that contradict the files.
    """
    if values.get("settings") is None and Path(SETTINGS_FILE).is_file():
        options = parse_options({**values, "settings": SETTINGS_FILE}, command=command, verbosity=verbosity)
        options = replace(options, found_settings=f"./{SETTINGS_FILE}")
    else:
        options = parse_options(values, command=command, verbosity=verbosity)
    if options.rehearse:
        from preflight.launch.cast import cast, read_scripts, scripts_of

        scripts = scripts_of(options.rehearse)
        options = replace(options, cast=cast(scripts, read_scripts(scripts), [host.name for host in options.hosts]))
    if not options.launch:
        return options
    from preflight.launch.read import read_files  # here and below, as a run without launch files needs none of it

    return with_files(options, read_files(options.launch), launcher=values.get("launcher"))


def with_files(options: Options, files: LaunchFiles, *, launcher: str | None) -> Options:
    """The options with what the files say about the job; `launcher` is the one given on the command line.

    Raises UsageError where the two contradict each other.
    """
    from preflight.launch.launchers import LAUNCHERS
    from preflight.launch.slips.data import alike_on_nodes, paths_on_nodes
    from preflight.launch.start import starting_of

    starting = starting_of(files)
    if launcher and starting.launcher not in ("", launcher) and starting.launcher not in LAUNCHERS[launcher].may_start:
        where = starting.starts[0].where
        contradiction = said("{file}:{line} starts the job with {launcher}", where.file, where.line, starting.launcher)
        raise UsageError(
            said("--launcher {launcher}: {contradiction}; leave --launcher out, or --launch", launcher, contradiction)
        )
    ranks, counts = options.ranks_per_node, {start.processes for start in starting.starts} - {0}
    if ranks != "auto" and counts and counts != {int(ranks)}:
        listed = " and ".join(map(str, sorted(counts)))
        raise UsageError(
            said(
                "--ranks-per-node {ranks}: the launch files start {listed} on a node; leave one of them out",
                ranks,
                listed,
            )
        )
    if launcher and starting.refusal:
        starting = Starting()  # the files start nothing here: the launcher named by hand starts the reference job
    python = interpreter_of(files) if options.python is None and not options.wrap else ""
    read = replace(
        options,
        python=python or options.python,
        found_python=python,
        files=files,
        launch_variables=tuple(variables(files, options.hosts).items()),
        named=paths_on_nodes(files),
        same=tuple(dict.fromkeys((*options.same, *alike_on_nodes(files)))),
        starting=starting,
        launcher=launcher or starting.launcher or options.launcher,
    )
    return checked(read)


def interpreter_of(files: LaunchFiles) -> str:
    """The full path of the one Python that all starts of the files name, which has what the job imports; else ""."""
    found = {_interpreter(plan) for plan in files.plans}
    return next(iter(found)) if len(found) == 1 else ""


def _interpreter(plan: Plan) -> str:
    """That of a start on the node itself: a container has its own."""
    if plan.is_opaque or plan.is_of_a_manifest or plan.wraps - PLAIN_WRAPPERS:
        return ""
    try:
        words = shlex.split(plan.command)
    except ValueError:
        return ""
    started = next((word for word in words if word not in PLAIN_WRAPPERS and "=" not in word), "")
    return started if INTERPRETER.fullmatch(started) else ""


def started_by(options: Options) -> str:
    """What starts the reference job, in words."""
    starts = options.starting.starts
    if options.starting.refusal:
        return said("not started: {refusal}", options.starting.refusal)
    if not starts:
        return said("started with --launcher {launcher}: the launch files start no job", options.launcher)
    places = ", ".join(dict.fromkeys(f"{start.where.file}:{start.where.line}" for start in starts))
    return said(
        "started with {launcher} as {places} start{s} the job", options.launcher, places, "s" * (len(starts) == 1)
    )


def variables(files: LaunchFiles, hosts: tuple[Host, ...]) -> dict[str, str]:
    """What every start of the files sets to one and the same value: NCCL and Gloo, and where they look for rank 0."""
    found: dict[str, set[str]] = {}
    for plan in files.plans:
        held = {
            name: value_of(value) for name, value in plan.environment.items() if name.startswith(("NCCL_", "GLOO_"))
        }
        port = value_of(plan.master_port)
        if plan.may_span_nodes and not plan.is_standalone and port is not None:
            held["MASTER_PORT"] = str(port)
        if plan.may_span_nodes and address_of(plan) and _may_be_known(plan, hosts):
            held["MASTER_ADDR"] = address_of(plan)
        for name, value in held.items():
            found.setdefault(name, set()).add(str(value))
    return {name: next(iter(values)) for name, values in found.items() if len(values) == 1 and "None" not in values}


def _may_be_known(plan: Plan, hosts: tuple[Host, ...]) -> bool:
    """Whether the nodes can know the address of rank 0: the name of a pod is known where the pods of its job are."""
    name = address_of(plan).partition(".")[0]
    if not plan.wraps & OF_MANIFESTS or name.isdigit() or ":" in name:
        return True
    return any(host.name == name or host.name.startswith(f"{name}-") for host in hosts)
