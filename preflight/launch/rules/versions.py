"""Do the versions that are installed start what the files ask of them?"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.judge.ledger.findings import Finding
from preflight.knowledge.versions import is_within
from preflight.launch.field import Sourced, value_of
from preflight.launch.launchers.accelerate.command import ACCELERATE
from preflight.launch.launchers.accelerate.rules import OPTION_SINCE
from preflight.launch.plan import LaunchFiles, Plan, fail
from preflight.launch.reading.trainer import is_of_lightning
from preflight.launch.text.shell import is_container
from preflight.reach.hosts import fold
from preflight.said import said
from preflight.said.errors import FactMissing

# What runs a script's commands with another interpreter than the one that was asked.
OTHER_PYTHON = re.compile(r"\bactivate\b|\b(conda|mamba|micromamba|module|uv|poetry|pixi) \w|\bPATH=|\bcontainer\b")
SEVERAL_MACHINES_SINCE = "0.3.0"  # accelerate#48
TORCHRUN_IN_SLURM_SINCE = "2.1.0"  # Lightning#18618
LIGHTNING = ("lightning", "pytorch-lightning")


def options_are_of_the_version(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """An accelerate that is older than an option of the command stops on its node: unrecognized arguments."""
    for plan in files.plans:
        text = files.texts.get(plan.where.file, "")
        if plan.launcher is not ACCELERATE or is_container(plan.wrapper) or OTHER_PYTHON.search(text):
            continue
        for name, since in OPTION_SINCE.items():
            held = plan.settings.get(name)
            if not isinstance(held, Sourced) or held.origin != "written" or held.file != plan.where.file:
                continue
            older = _older(cluster, ("accelerate",), since)
            if older:
                message = said(
                    "accelerate {versions} on {older} has no option --{name} and stops: unrecognized arguments; "
                    "{since} is the first that has it",
                    next(iter(older.values())),
                    fold(older),
                    name,
                    since,
                )
                fix = said(
                    "`pip install 'accelerate>={since}'` on {older}, the same version on every node", since, fold(older)
                )
                yield fail("options_are_known", message, held.where, fix=fix, nodes=tuple(older))


def accelerate_starts_several_machines(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """accelerate before 0.3.0 gives torch the rank of the machine twice, and no port: no machine finds the other."""
    for plan in files.plans:
        if plan.launcher is ACCELERATE and plan.spans_nodes and not _has_other_python(plan, files):
            older = _older(cluster, ("accelerate",), SEVERAL_MACHINES_SINCE)
            if older:
                message = said(
                    "accelerate {version} on {nodes} starts no job over several machines: it hands on neither "
                    "--main_process_port nor a port of its own",
                    next(iter(older.values())),
                    fold(older),
                )
                fix = said("`pip install 'accelerate>={since}'` on {older}", SEVERAL_MACHINES_SINCE, fold(older))
                yield fail("versions_start_the_job", message, plan.where, fix=fix, nodes=tuple(older))


def lightning_takes_torchruns_word(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """Inside Slurm, Lightning before 2.1 takes the ranks of Slurm's tasks, also where torchrun has started it."""
    programs = {os.path.basename(name): text for name, text in files.programs.items()}
    for plan in files.plans:
        text = programs.get(os.path.basename(value_of(plan.program) or ""), "")
        is_in_slurm = plan.slurm is not None and "SLURM_JOB_NAME" not in files.texts.get(plan.where.file, "")
        if not plan.launcher.has_agent or not is_in_slurm or not is_of_lightning(text):
            continue
        named = value_of(plan.slurm.options.get("job_name")) if plan.slurm is not None else None
        older = _older(cluster, LIGHTNING, TORCHRUN_IN_SLURM_SINCE)
        if older and named not in ("bash", "interactive") and not _has_other_python(plan, files):
            message = said(
                "Lightning {version} on {nodes} takes Slurm's tasks for its ranks, and {launcher} starts others: the "
                "processes form the wrong world, or wait for each other",
                next(iter(older.values())),
                fold(older),
                plan.launcher.name,
            )
            fix = said("`unset SLURM_JOB_NAME` before {launcher}, or Lightning 2.1", plan.launcher.name)
            yield fail("versions_start_the_job", message, plan.where, fix=fix, nodes=tuple(older))


def _has_other_python(plan: Plan, files: LaunchFiles) -> bool:
    return is_container(plan.wrapper) or OTHER_PYTHON.search(files.texts.get(plan.where.file, "")) is not None


def _older(cluster: Cluster, names: Iterable[str], since: str) -> dict[str, str]:
    """The nodes whose version of the package, by the first of its names, is older, and that version."""
    found = {
        node.name: next((packages_of(node)[one] for one in names if one in packages_of(node)), "") for node in cluster
    }
    return {node: version for node, version in found.items() if is_within(version, f"<{since}")}


def packages_of(node: NodeFacts) -> Mapping[str, str]:
    """The packages of a node's Python by name; none where they are not known."""
    try:
        return node.software.packages
    except FactMissing:
        return {}


RULES = (options_are_of_the_version, accelerate_starts_several_machines, lightning_takes_torchruns_word)
