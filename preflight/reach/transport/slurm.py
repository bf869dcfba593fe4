"""How is a Python on a node of a Slurm allocation reached? By a step of srun, as a job's own tasks are."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from preflight.reach.transport import share
from preflight.reach.transport.reach import TASK_LOADER, Found, Gathering, last_line
from preflight.said import said

if TYPE_CHECKING:
    from preflight.reach.host import Host
    from preflight.reach.transport.reach import Reach

NODELISTS = ("SLURM_JOB_NODELIST", "SLURM_NODELIST")
REQUEST = re.compile(r"[A-Za-z0-9_.-]{1,64}/[0-9]{1,5}")
PIECE = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")

# Of the login from which we were started: the tasks would seem to be reached over ssh, at that address.
LOGIN = ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")
STEP = (
    "--overlap",  # beside the steps that run already, which it neither waits for nor robs
    *("--cpu-bind=none", "--mpi=none", "--kill-on-bad-exit=0", "--quiet"),
)
# A step of many nodes goes on when one of its tasks ends or one of its nodes is lost; `--label` tells who says what.
# Its standard input is not used: srun gives it to no task before all nodes have answered.
GATHERED = ("--ntasks-per-node=1", "--wait=0", "--no-kill", "--label", "--input=none")

ANEW = "ask for a new one"
LISTED = "name nodes of SLURM_JOB_NODELIST"
NOT_OURS = r"node configuration is not available|not in this (?:job|allocation)"
# SLURM_JOB_NODELIST stays what it was when slurmctld takes a lost node out of a job (salloc --no-kill).
TAKEN = "Slurm took the node out of the allocation: it is down, or was"
MUNGE = "check munged, its key and the clock of {node}"
SLURMD = "slurmd starts no task there"
LOOK = "`scontrol show node {node}`, and slurmd's log on it"
NO_MEMORY = (
    "the job does not have as much memory left on the node as the step asks for: other steps hold it, or slurmctld has"
    " just been started again"
)
# Slurm's own words -> what is wrong, and what to do.
CAUSES = (
    (r"DUE TO TIME LIMIT", "the allocation's time limit is over", "ask for a longer one: --time"),
    (r"Node failure on", "Slurm lost the node", "`scontrol show node {node}` shows why"),
    # said by the slurmstepd of a node that is there: the job ends on all nodes when one of them is lost
    (r"DUE TO NODE FAILURE", "Slurm ended the allocation, for it lost another node", "`sinfo -R` names it"),
    (r"DUE TO PREEMPTION", "another job took the allocation's place", "requeue the job"),
    (
        r"\*\*\* (?:STEP|JOB) .* CANCELLED AT",
        "Slurm canceled the job",
        "`scontrol show job` and slurmctld's log say why",
    ),
    (
        r"Invalid job id|job \d+ has expired|already completing or completed|allocation has been revoked",
        "the allocation is over",
        ANEW,
    ),
    (NOT_OURS, "the node is not in the allocation", LISTED),
    (r"Required node not available|Requested nodes? (?:are|is) (?:busy|DOWN)", "it is down or drained", "`sinfo -R`"),
    (
        r"Memory required by task is not available",
        NO_MEMORY,
        "`scontrol show step` lists them; ask for more: sbatch --mem",
    ),
    (
        r"Invalid (?:generic resource|Trackable RESource)",
        "no step of the job can have the GPUs that its variables ask for, or nodes have different numbers of GPUs",
        "ask for GPUs by node: sbatch --gpus-per-node; `env | grep SLURM_` shows what else asks",
    ),
    (r"slurm_load_\w+ error|Unable to contact slurm controller", "slurmctld does not answer", "`scontrol ping`"),
    (r"munge|protocol authentication|Invalid \w* ?credential", "its credentials are refused", MUNGE),
    (r"Task launch for .* failed on node|communication connection failure|Socket timed out", SLURMD, LOOK),
    (r"Connection (?:refused|timed out)|No route to host", SLURMD, LOOK),
    (r"can(?:no|')t chdir|couldn't chdir", "the working directory is not there", "mount it on {node}"),
    (r"srun\W+No such file", "srun is not installed here", "start preflight where Slurm's commands are"),
)
COMPLAINS = re.compile(r"(?m)^(?:srun|slurmstepd[^:]*): error: (?!.*task \d+: (?:Exited|Killed))")
PASSES = re.compile(r"Socket timed out|temporarily unavailable|Resource temporarily|Job credential expired|try again")


@dataclass(frozen=True)
class Slurm:
    """The nodes of the allocation around us, each by a step of its own; what its tasks may do, so may we."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    name = "slurm"
    form = "slurm"
    starting_seconds = 0.0

    def named(self, rest: str) -> tuple[Found, ...]:
        """The nodes of the allocation, in Slurm's order; ``slurm:NODES`` is some of them, in the order written."""
        if REQUEST.fullmatch(rest):
            raise ValueError("only `preflight run` asks for an allocation; start this one under salloc or sbatch")
        text = next((self.environment[name] for name in NODELISTS if self.environment.get(name)), "")
        text = text or ",".join(self._components())
        if not text or not self.environment.get("SLURM_JOB_ID"):
            raise ValueError("no allocation of Slurm around it (SLURM_JOB_NODELIST): start it under sbatch or salloc")
        return tuple(Found(piece, piece) for piece in PIECE.findall(rest or text))

    def argv(self, host: Host, reach: Reach) -> list[str]:
        """``env -u ... srun OPTIONS -- COMMAND``: a step with all that the job has on the node."""
        options = ["--nodes=1", "--ntasks=1", *STEP, *self._group(host.address), f"--nodelist={host.address}"]
        return self._step(options, reach.loader(host))

    def gathering(self, hosts: Sequence[Host], reach: Reach) -> Gathering | None:
        """One step for all of them, with a task on each: Slurm's own tree starts it, and one srun holds it.

        A container (`--wrap`) may neither know Slurm's variables nor have our address, and under --export=NONE a task
        does not have our environment: then each has its own step.
        """
        exported = self.environment.get("SRUN_EXPORT_ENV") or self.environment.get("SLURM_EXPORT_ENV", "ALL")
        if reach.wrap or "ALL" not in exported.split(",") or len({host.python for host in hosts}) > 1:
            return None
        groups = {tuple(self._group(host.address)) for host in hosts}
        if len(groups) > 1:  # a step is of one component
            return None
        names = ",".join(host.address for host in hosts)
        options = [
            f"--nodes={len(hosts)}",
            f"--ntasks={len(hosts)}",
            *STEP,
            *GATHERED,
            *groups.pop(),
            f"--nodelist={names}",
        ]
        return Gathering(
            argv=tuple(self._step(options, reach.loader(hosts[0], program=TASK_LOADER))),
            controller=("SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_HOST"),
            address="SLURMD_NODENAME",
            number="SLURM_PROCID",
            ask_ports=("scontrol", "show", "config"),
            ports_printed=r"(?m)^SrunPortRange\s*=\s*(\d{1,5})-(\d{1,5})\s*$",
        )

    def _is_listed(self, node: str) -> bool:
        """Whether the job had this node when it started."""
        return any(
            _holds(nodes, node) for nodes in (*map(self.environment.get, NODELISTS), *self._components()) if nodes
        )

    def _components(self) -> list[str]:
        """The nodes of each component of a heterogeneous job (``salloc -N1 : -N2``); none elsewhere."""
        count = self.environment.get("SLURM_HET_SIZE", "")
        found = range(int(count)) if re.fullmatch("[0-9]{1,3}", count) else ()
        return [self.environment.get(f"SLURM_JOB_NODELIST_HET_GROUP_{number}", "") for number in found]

    def _group(self, node: str) -> list[str]:
        """The option that names the component of a node."""
        held = [number for number, nodes in enumerate(self._components()) if _holds(nodes, node)]
        return [f"--het-group={held[0]}"] if held else []

    def _step(self, options: Sequence[str], command: Sequence[str]) -> list[str]:
        left = [f"--unset={name}" for name in (*LOGIN, *share.unset_for_ours())]
        left += [f"{name}={value}" for name, value in share.of_ranks(self.environment).items()]
        options = [*options, *share.of_ours(self.environment)]
        job = self.environment.get("SLURM_JOB_ID")
        return ["env", *left, "srun", *options, *([f"--jobid={job}"] if job else []), "--", *command]

    def explain(self, node: str, code: int, stderr: str) -> str:
        """srun's error in our words, with what to do; its last line where we know no better."""
        other = re.search(r"Node failure on (\S+)", stderr)
        if other and other[1] != node:
            return said("Slurm ended the allocation, for it lost {other}", other[1])
        for sign, cause, fix in CAUSES:
            found = re.search(sign, stderr, re.IGNORECASE)
            if found:
                is_taken = sign == NOT_OURS and self._is_listed(node)
                what, way = (TAKEN, "`scontrol show node {node}` shows why") if is_taken else (cause, fix)
                words = last_line(found[0], "")
                return said("{cause} (srun: {last_line}); {format}", what, words, way.format(node=node))
        if COMPLAINS.search(stderr) and "execve" not in stderr:
            return last_line(COMPLAINS.split(stderr, maxsplit=1)[1], f"srun ended with {code}")
        return ""

    def is_worth_a_retry(self, stderr: str) -> bool:
        """Whether slurmctld had too much to do."""
        return bool(PASSES.search(stderr))

    def log_in_hint(self, node: str) -> str:
        """The same step, by hand."""
        return said(
            "`srun --overlap --nodes=1 --ntasks=1 --nodelist={node} true` must succeed inside the allocation", node
        )


def _holds(nodes: str, name: str) -> bool:
    """Whether a folded set of nodes, ``a[1-3,07],b``, has a node of this name."""
    return any(_matches(re.split(r"\[([^\[\]]*)\]", piece), name) for piece in PIECE.findall(nodes))


def _matches(parts: Sequence[str], name: str) -> bool:
    """Whether a name is that of these parts, every second of which is a set of numbers."""
    pattern = "".join("([0-9]+)" if place % 2 else re.escape(part) for place, part in enumerate(parts))
    found = re.fullmatch(pattern, name)
    return found is not None and all(
        any(_is_between(digits, one) for one in part.split(","))
        for digits, part in zip(found.groups(), parts[1::2], strict=True)
    )


def _is_between(digits: str, numbers: str) -> bool:
    first, _, last = numbers.partition("-")
    if not first.isdecimal() or not (last or first).isdecimal():
        return False
    is_padded = first.startswith("0") and len(first) > 1
    return int(first) <= int(digits) <= int(last or first) and (len(digits) == len(first) or not is_padded)
