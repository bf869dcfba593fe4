"""Can each option have the value that it was given, and do the options fit each other?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from preflight.job.options.options import OPTIONS, Options, launcher_row
from preflight.reach.host import PLAIN, Host
from preflight.reach.hosts import fold
from preflight.said import said
from preflight.said.errors import PreflightError, UsageError

TYPED = (PLAIN, "local")  # transports whose hosts the command itself names; others ask who is there


def parse_options(values: Mapping[str, Any], *, command: tuple[str, ...], verbosity: str = "summary") -> Options:
    """The typed options from what a parser gave, field -> value; None and a missing field are the default.

    Raises UsageError for the first that cannot be.
    """
    given = {name: values[name] for name in OPTIONS if values.get(name) is not None}
    for name in ("hosts", "from_run"):  # an empty value is an unset variable of a script; it must not mean local
        if name in given and not given[name].strip():
            wanted = "node1,node2 or 'node[1-8]', or the option left out" if name == "hosts" else "the folder of a run"
            raise UsageError(
                said("--{name} is empty (a variable that is not set?): wanted {wanted}", OPTIONS[name].name, wanted)
            )
    if "hosts" in given and "from_run" in given:
        raise UsageError("--hosts with --from: a stored run is of its own hosts; leave one of them out")
    if "from_run" in given:
        for name in (name for name in given if OPTIONS[name].is_live):
            # It would be taken for answered by a run that was never asked.
            raise UsageError(
                said("--{name} with --from: a stored run asks no node; leave one of them out", OPTIONS[name].name)
            )
    read = {name: OPTIONS[name].read(value) for name, value in given.items()}
    return checked(Options(**read, command=command, verbosity=verbosity))


def check_need(need: int, hosts: Sequence[Host]) -> None:
    """Raises UsageError where fewer hosts are typed than are needed, PreflightError where a cluster counts fewer."""
    if need > len(hosts) and all(host.transport not in TYPED for host in hosts):
        names = fold(host.name for host in hosts)
        raise PreflightError(said("--need {need}: only {count} are there: {names}", need, len(hosts), names))
    if not 1 <= need <= len(hosts):
        raise UsageError(said("--need {need}: wanted a number from 1 to {hosts}, the hosts given", need, len(hosts)))


def checked(options: Options) -> Options:
    """These options. Raises UsageError for the first with a value that cannot be."""
    for each in OPTIONS.values():
        value = getattr(options, each.field)
        if each.choices and value not in each.choices:
            raise UsageError(
                said(
                    "--{name} {value!r}: not supported; wanted one of {choices}",
                    each.name,
                    value,
                    ", ".join(each.choices),
                )
            )
    if options.ranks_per_node != "auto" and not re.fullmatch(r"[1-9][0-9]{0,3}", options.ranks_per_node):
        raise UsageError(
            said("--ranks-per-node {ranks_per_node!r}: wanted a number from 1, or auto", options.ranks_per_node)
        )
    if not 5.0 <= options.deadline_seconds <= 86400.0:
        raise UsageError(said("--deadline {deadline_seconds:g}: wanted 5 to 86400 seconds", options.deadline_seconds))
    if options.need is not None and options.from_run is None:
        check_need(options.need, options.hosts)
    row = launcher_row(options.launcher)
    if options.strategy != "ddp" and row.strategy:
        raise UsageError(
            said(
                "--strategy {strategy}: --launcher {launcher} trains with {trains_with}",
                options.strategy,
                options.launcher,
                row.trains_with,
            )
        )
    options.reach  # noqa: B018 - raises for words that cannot be split
    options.layers  # noqa: B018
    options.sweep  # noqa: B018
    options.tests_of_vendors  # noqa: B018
    _check_paths(options)
    return options


def _check_paths(options: Options) -> None:
    if options.checkpoint_dir and not options.checkpoint_dir.startswith("/"):
        raise UsageError(
            said(
                "--checkpoint-dir {checkpoint_dir}: wanted a path from /, the same on every node",
                options.checkpoint_dir,
            )
        )
    for name, paths in (("--shared", options.shared), ("--same", options.same)):
        for path in paths:
            if not path.startswith("/") or "\0" in path:
                raise UsageError(said("{name} {path!r}: wanted a full path, the same on every node", name, path))
    if options.from_run is not None and options.from_run.exists() and not options.from_run.is_dir():
        raise UsageError(said("--from {from_run}: not a folder", options.from_run))
    if options.need is not None and options.reuse is not None:
        raise UsageError("--need with --reuse: what was measured holds for all of its nodes; leave one of them out")
    if options.from_run is not None and options.dry_run:
        raise UsageError("--dry-run with --from: a stored run contacts no host anyway; leave one of them out")
    if options.report_dir is not None and options.report_dir.exists() and not options.report_dir.is_dir():
        raise UsageError(said("--report-dir {report_dir}: exists and is not a folder", options.report_dir))
