"""What does a script say that starts no job?"""

from __future__ import annotations

import re
from collections.abc import Mapping

from preflight.launch.plan import Skip
from preflight.launch.reading.bundle import Bundle, resolved
from preflight.launch.text.expansion import Assigned
from preflight.launch.text.marks import Marks
from preflight.launch.text.shell import Command
from preflight.said import said

# Variables by which a script that starts nothing speaks for the job all the same.
OF_THE_JOB = ("NCCL_", "GLOO_", "MASTER_", "CUDA_VISIBLE", "TORCH_NCCL_")


STARTS_FILES = re.compile(
    r"(.*/)?(bash|sh|zsh|source|\.|sbatch|srun|qsub|exec|nohup|sudo)$|\S+\.(sh|sbatch|slurm|bash)$"
)


SCRIPT = re.compile(r"[\w./~+-]+\.(sh|sbatch|slurm|bash)")


# Programs that start a job by files or options of their own, which are not read here.
FOREIGN = {
    "torchx": "torchx",
    "xpk": "xpk",
    "condor_submit": "HTCondor",
    "horovodrun": "Horovod",
    "axolotl": "axolotl",
    "argo": "Argo Workflows",
    "det": "Determined",
    "nomad": "Nomad",
    "ansible-playbook": "Ansible",
    "ansible": "Ansible",
    "gcloud": "Google Cloud",
    "aws": "AWS",
    "kubectl": "kubectl",
    "helm": "Helm",
    "systemctl": "systemd",
    "rpc-server": "llama.cpp",
    "llama-cli": "llama.cpp",
    "llama-server": "llama.cpp",
    "oarsub": "OAR",
    "bsub": "LSF",
}


def bare(
    bundle: Bundle,
    name: str,
    commands: list[Command],
    marks: Marks,
    variables: Mapping[str, Assigned],
    *,
    has_unknowns: bool,
    ended: int,
) -> None:
    """A script that starts no job: one that only sets variables speaks for the job all the same."""
    exported = {key: marks.field(held.text, held.line) for key, held in variables.items() if held.exported}
    speaking = {key: value for key, value in exported.items() if key.startswith(OF_THE_JOB)}
    if exported and not commands:
        speaking = exported
    if speaking:
        bundle.variables[name] = speaking
    if has_unknowns or (speaking and not commands):
        return
    started = next(
        (
            word
            for command in commands
            if STARTS_FILES.match(command.words[0].plain)
            for word in command.words
            if SCRIPT.fullmatch(word.plain)
        ),
        None,
    )
    script = ""
    if started is not None and resolved(bundle, name, started.plain) is None:
        script = said("; {plain} is not given", started.plain)
    elif started is not None:
        script = said("; {plain} is judged by itself, without what it gets from here", started.plain)
    reason = said("no command of a known launcher{script}", script)
    foreign = next((command for command in commands if command.words[0].plain.rpartition("/")[2] in FOREIGN), None)
    if foreign is not None and started is None:
        starter = FOREIGN[foreign.words[0].plain.rpartition("/")[2]]
        reason = said("what {starter} starts here is not read", starter)
    reason += said(" before line {ended}, where `exit` ends the script", ended) if ended else ""
    bundle.skips.append(
        Skip(name, started.line if started else foreign.line if foreign else 1, said("not judged: {reason}", reason))
    )
