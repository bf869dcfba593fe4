"""Does a batch script start a program on its first node alone that counts on all of them?"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Sourced
from preflight.launch.plan import LaunchFiles, ScriptFile, fail
from preflight.launch.reading import trainer
from preflight.launch.slips.source import counted_by_slurm
from preflight.launch.text.programs import argument_number
from preflight.launch.text.shell import REMOTE
from preflight.said import said

OF_A_TASK = re.compile(r"\$\{?(SLURM_(?:NODEID|PROCID|LOCALID))\b")


def named_nodes_are_started(files: LaunchFiles) -> Iterable[Finding]:
    """Lightning and its like take the tasks of srun for their ranks: without srun the first waits for the others."""
    for script in files.scripts:
        nodes = script.slurm.number("nodes") if script.slurm is not None else None
        if not isinstance(nodes, Sourced) or nodes.value < 2 or nodes.origin != "written":
            continue
        if any(
            REMOTE & {name.rpartition("/")[2] for name in (*(word.plain for word in command.words), *command.outer)}
            for command in script.commands
        ):
            continue
        yield from _alone(script, nodes, files.programs)


def _alone(script: ScriptFile, nodes: Sourced[int], texts: Mapping[str, str]) -> Iterable[Finding]:
    """The first program that counts on as many nodes as the script has, in its options or in its own text."""
    programs = {os.path.basename(name): name for name in texts}
    for command in script.commands:
        names = [word.plain for word in command.words]
        by_python = command.words[0].plain.rpartition("/")[2].startswith("python")
        if not by_python or command.is_conditional or command.outer:
            continue
        where = [Where(script.marks.file, command.line), nodes.where]
        counted = argument_number(names, "num_nodes", "num-nodes")
        program = next((programs[base] for name in names if (base := os.path.basename(name)) in programs), "")
        if counted is None and program:
            counted, line = trainer.counts(texts[program]).get("num_nodes", (None, 0))
            where.append(Where(program, line))
        number = OF_A_TASK.search(" ".join(script.marks.spelled(word.text) for word in command.words))
        if number:
            message = said(
                "the batch script runs on the first of {value} nodes only, and no srun starts the others; in the batch "
                "script ${number} is 0, each task of srun has its own",
                nodes.value,
                number[1],
            )
            fix = said("srun bash -c '{command}'", " ".join(script.marks.spelled(word.text) for word in command.words))
            yield fail("every_node_is_started", message, where[0], nodes.where, fix=fix)
            return
        own = counted_by_slurm(texts[program]) if program and counted is None else None
        if own:
            message = said(
                "{program} takes {own} of Slurm for its place in the job; the batch script runs it on the first of "
                "{value} nodes only, as number 0, and no srun starts the others",
                program,
                own,
                nodes.value,
            )
            yield fail("every_node_is_started", message, where[0], nodes.where, fix=f"srun {' '.join(names)}")
            return
        if counted == nodes.value:
            message = said(
                "the batch script runs on the first of {value} nodes only, and no srun starts the others", nodes.value
            )
            yield fail("every_node_is_started", message, *where, fix=f"srun {' '.join(names)}")
            return


FILES_RULES = (named_nodes_are_started,)
