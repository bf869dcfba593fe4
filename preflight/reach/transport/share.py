"""How much of its job does a step of Slurm get? Ours: all that the job has on a node; the ranks': as the job's srun.

srun takes options from its environment (srun(1), INPUT ENVIRONMENT VARIABLES), where sbatch, salloc and the user leave
them for the step of the job.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

# Options for the step of the job. Ours has one task on one node, its output is read by a program, it needs all CPUs,
# memory and GPUs that the job has there, and it copies nothing to the node.
LEFT_FOR_SRUN = (
    *("NTASKS_PER_NODE", "NTASKS_PER_CORE", "NTASKS_PER_GPU", "NTASKS_PER_SOCKET", "GPUS_PER_TASK", "GPU_BIND"),
    *("TRES_PER_TASK", "LABELIO", "UNBUFFEREDIO", "STDINMODE", "STDOUTMODE", "STDERRMODE", "DISTRIBUTION", "HOSTFILE"),
    *("EXACT", "EXCLUSIVE", "MULTI_PROG", "KILL_BAD_EXIT", "WAIT", "REQ_SWITCH", "EPILOG", "PROLOG", "RELATIVE"),
    *("GPUS", "CPUS_PER_TASK", "CPUS_PER_GPU", "MEM_PER_NODE", "MEM_PER_CPU", "MEM_PER_GPU", "MEM_BIND"),
    *("BCAST", "SEND_LIBS", "COMPRESS", "IMMEDIATE", "DEBUG", "TIMELIMIT"),
)
OF_SRUN_ALONE = ("SRUN_CPUS_PER_TASK",)
# As much of the job's memory as there is, which no other step has less of.
ALL_MEMORY = "--mem=0"
# What the step of the ranks takes as the job's would: it decides on their CPUs, memory, devices and network.
OF_A_STEP = (
    *("HINT", "THREADS_PER_CORE", "CORE_SPEC", "THREAD_SPEC", "OVERCOMMIT", "EXACT", "CPU_FREQ_REQ", "GPU_FREQ"),
    *("MEM_PER_NODE", "MEM_PER_CPU", "MEM_PER_GPU", "CPUS_PER_GPU", "GPUS_PER_NODE", "GRES", "STEP_GRES", "GRES_FLAGS"),
    *("NETWORK", "TASK_PROLOG", "TASK_EPILOG"),
)
# A step tells its tasks by these what they got: within one, they are nobody's wish for another.
BINDINGS = ("CPU_BIND", "MEM_BIND")
STEPS_OF_SLURM = 0xFFFFFFF0  # steps with higher numbers are the batch script, an interactive shell
# What the allocation says of each task of the job's srun, and the option of that name. A step of ranks takes it again,
# where it has as many tasks on a node.
OF_A_TASK = {
    "--gpus-per-task": ("SLURM_GPUS_PER_TASK",),
    "--gpu-bind": ("SLURM_GPU_BIND",),
    "--tres-per-task": ("SLURM_TRES_PER_TASK",),
    "--cpus-per-task": ("SRUN_CPUS_PER_TASK", "SLURM_CPUS_PER_TASK"),
}
WORD = re.compile(r"[\w:,./=*-]{1,200}", re.ASCII)
GPUS = re.compile(r"((?:[\w.-]+:)?)(\d{1,6})", re.ASCII)  # h100:2
EQUAL_TASKS = re.compile(r"(\d{1,5})(?:\(x\d+\))?")  # of SLURM_TASKS_PER_NODE, where all nodes have the same number


def unset_for_ours() -> Iterator[str]:
    """The variables that our step must not have."""
    yield from (f"SLURM_{name}" for name in LEFT_FOR_SRUN)
    yield from OF_SRUN_ALONE


def of_ours(environment: Mapping[str, str]) -> list[str]:
    """The options of a step that gets all that the job has on its nodes."""
    return [ALL_MEMORY, *([found] if (found := _gpus_of_node(environment)) else [])]


def of_ranks(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables for `launch.launchers.slurm.STEP`: what the step of the ranks is to have.

    The tasks that the allocation has on each node with the options of a step of as many there; those of another step;
    and the variables that any step takes.
    """
    tasks = _tasks(environment)
    given = {
        option: next(filter(None, (environment.get(name) for name in names)), "") for option, names in OF_A_TASK.items()
    }
    words = [f"{option}={value}" for option, value in given.items() if WORD.fullmatch(value)]
    found = {"PREFLIGHT_OF_A_NODE": _gpus_of_node(environment), "PREFLIGHT_OF_A_STEP": _of_any_step(environment)}
    if tasks and words:
        found |= {"PREFLIGHT_TASKS": str(tasks), "PREFLIGHT_OF_A_TASK": " ".join(words)}
    return {name: value for name, value in found.items() if value}


def _tasks(environment: Mapping[str, str]) -> int:
    """The tasks of the job on each node; 0 where nodes differ, or nobody says."""
    found = EQUAL_TASKS.fullmatch(environment.get("SLURM_TASKS_PER_NODE", ""))
    return int(found[1]) if found else 0


def _gpus_of_node(environment: Mapping[str, str]) -> str:
    """The option that gives a step all GPUs of a node, where the job asked for them by task or in all.

    slurmctld gives each task of a step the GPUs that each task of its job has, and a step as many as the whole job has,
    which a step of some nodes cannot get, unless the step asks for its own.
    """
    by_task, in_all = (GPUS.fullmatch(environment.get(f"SLURM_{name}", "")) for name in ("GPUS_PER_TASK", "GPUS"))
    nodes = environment.get("SLURM_JOB_NUM_NODES", "")
    if by_task and (tasks := _tasks(environment)):
        return f"--gpus-per-node={by_task[1]}{int(by_task[2]) * tasks}"
    if in_all and re.fullmatch("[1-9][0-9]{0,5}", nodes) and int(in_all[2]) % int(nodes) == 0:
        return f"--gpus-per-node={in_all[1]}{int(in_all[2]) // int(nodes)}"
    return ""


def _of_any_step(environment: Mapping[str, str]) -> str:
    """Those variables that the allocation has and any step takes, as words: ``NAME=value NAME=value``."""
    step = environment.get("SLURM_STEP_ID", "")
    is_in_step = step.isdecimal() and int(step) < STEPS_OF_SLURM
    names = [f"SLURM_{name}" for name in (*OF_A_STEP, *(() if is_in_step else BINDINGS))]
    return " ".join(f"{name}={environment[name]}" for name in names if WORD.fullmatch(environment.get(name, "")))
