"""Which words of a fix are known already: by the script, which works them out, or by the nodes?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.facts.cluster import Cluster
from preflight.judge.ledger.findings import Finding
from preflight.launch.fixes.pasted import command_at
from preflight.launch.plan import ADDRESS_OF_ENDPOINT, LaunchFiles
from preflight.said import knowing, said, values_in
from preflight.said.errors import FactMissing

HOLE = re.compile(r"<[^<>]*>")
# The rules whose fixes leave one thing open: the address of rank 0's node.
ASKING = frozenset(
    {
        "launch.master_address_is_an_address",
        "launch.master_address_is_given",
        "launch.master_address_leads_to_rank_0",
        "launch.ray_nodes_meet",
        "launch.ray_start_is_accepted",
    }
)
OF_ENDPOINT = f"{ADDRESS_OF_ENDPOINT}: "
# A variable that a script sets, and whose name says that it leads to rank 0: MASTER_ADDR, head_node_ip, MAIN_HOST.
LEADS = re.compile(
    r"(?m)^[ \t]*(?:export[ \t]+)?((?:master|head|main|leader|rdzv|rank_?0|first)\w*)=(?!\()"
    r"[\"']?(?![\"'\s\d])(?!localhost)",
    re.IGNORECASE,
)
IS_ADDRESS = re.compile(r"(addr|address|ip|host|hostname|node|name)$", re.IGNORECASE)


def ways(finding: Finding, files: LaunchFiles, cluster: Cluster | None) -> Iterator[str]:
    """The fixes of a finding that may be meant, in the order in which they are to be tried."""
    hole = HOLE.search(finding.fix) if finding.check in ASKING else None
    for address in _addresses(finding, files, cluster) if hole else ():
        yield from _with_address(finding, hole[0] if hole else "", address, files)
    if finding.check == "launch.every_node_is_started" and STARTER.match(finding.fix):
        yield from _started(finding, files)
        return
    if finding.fix.startswith("srun bash -c '"):
        yield from _in_the_task(finding, files)
    yield finding.fix
    name = next(values_in(finding.fix, "name"), "")
    for value in next(values_in(finding.message, "held"), ()) if name else ():
        words = f"{name}: {value}"
        yield knowing(said("{name}: {strip} in every file", name, value), everywhere=words)


# What is set in front of a command, and what may stand there that no starter can run.
PREFIX = re.compile(r"((?:[A-Za-z_]\w*=(?:\"[^\"]*\"|'[^']*'|[^\s\"']*)\s+)*)(.*)", re.DOTALL)
NO_COMMAND = re.compile(
    r"(if|while|until|time|for|case|then|do|else|eval|exec|nohup|\(|\{|!)(\s|$)|.*(<<|(^|[^&>|])&\s*$)", re.DOTALL
)
STARTER = re.compile(r"(?P<by>srun|mpiexec -n \d+ --ppn 1|blaunch -z \"[^\"]*\") ")
OF_A_TASK = re.compile(r"\$(?=\{?SLURM_(?:NODEID|PROCID|LOCALID)\b)")
RANK = re.compile(r"(--(?:node|machine)[_-]rank)[= ]\S+")


BY_SRUN = re.compile(r"(.*?\bsrun\s(?:.*?\s)?)((?:\S*/)?(?:torchrun|accelerate|python[\d.]*)\s.*)", re.DOTALL)


def _in_the_task(finding: Finding, files: LaunchFiles) -> Iterator[str]:
    """The user's own command of srun, with the shell of a task behind srun's options for the numbers of a task."""
    for where in finding.where:
        lines = files.texts.get(where.file, "").split("\n")
        numbers = command_at(lines, where.line)
        parts = [lines[number - 1].strip().removesuffix("\\").strip() for number in sorted(numbers)]
        found = BY_SRUN.fullmatch(" ".join(parts))
        if found is not None and OF_A_TASK.search(found[2]):
            yield f"{found[1]}{_for_the_task(found[2])}"


def _for_the_task(command: str) -> str:
    """A shell that each task starts: it fills in the numbers of its task alone, all else is known before."""
    escaped = command.replace("\\", "\\\\").replace('"', '\\"')
    return said('bash -c "{sub}"', OF_A_TASK.sub(TASKS_OWN, escaped))


TASKS_OWN = r"\\$"


def _started(finding: Finding, files: LaunchFiles) -> Iterator[str]:
    """The user's own command behind what starts it on every node; a number of a task is left to the task's shell."""
    where = finding.where[0]
    by, count = STARTER.match(finding.fix), next(values_in(finding.message, "value"), None)
    numbers = command_at(files.texts.get(where.file, "").split("\n"), where.line)
    lines = [files.texts.get(where.file, "").split("\n")[number - 1].strip() for number in sorted(numbers)]
    prefix, command = PREFIX.fullmatch(" ".join(line.removesuffix("\\").strip() for line in lines)).groups()  # type: ignore[union-attr]
    if by is None or count is None or NO_COMMAND.match(command):
        return
    if by["by"] != "srun":
        yield f"{prefix}{by['by']} {command}"
        return
    for start in ("srun", f"srun --ntasks={count} --ntasks-per-node=1"):
        if not OF_A_TASK.search(command):
            yield f"{prefix}{start} {command}"
        own = RANK.sub(r"\1=$SLURM_NODEID", command)
        for held in dict.fromkeys((command, own)):
            if OF_A_TASK.search(held):
                yield f"{prefix}{start} {_for_the_task(held)}"


def _addresses(finding: Finding, files: LaunchFiles, cluster: Cluster | None) -> Iterator[str]:
    """What leads to rank 0: a variable that the script has set above, or the address of the first of the nodes."""
    first = finding.where[0] if finding.where else None
    if first is not None and any(script.marks.file == first.file for script in files.scripts):
        above = "\n".join(files.texts.get(first.file, "").split("\n")[: first.line - 1])
        names = [name for name in LEADS.findall(above) if IS_ADDRESS.search(name)]
        yield from (f"${name}" for name in dict.fromkeys(reversed(names)))
    node = cluster.at(0) if cluster is not None else None
    if node is not None:
        try:
            yield node.address_for_peers()
        except FactMissing:
            return


def _with_address(finding: Finding, hole: str, address: str, files: LaunchFiles) -> Iterator[str]:
    if finding.fix.startswith(OF_ENDPOINT):
        where = finding.where[0]
        lines = files.texts.get(where.file, "").split("\n")[max(0, where.line - 1) :]
        port = re.search(r"--rdzv[_-]endpoint[= ]\S*?:(\$\{?\w+\}?|\d+)", "\n".join(lines))
        yield f"--rdzv_endpoint={address}:{port[1] if port else 29500}"
        return
    fix = finding.fix.replace(hole, address)
    name, colon, value = fix.partition(": ")
    if colon and (name.startswith("-") or name.isupper()):
        yield f"{name}={value}"
    yield fix
