"""Which variables does a start read that no file, launcher, scheduler or platform sets?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from preflight.launch.field import Field, Unknown, words
from preflight.launch.plan import Plan, Unset

# One variable, without a default or a message for where it is not set: $NAME, "${NAME}", ${NAME[0]}, $(NAME) in a pod.
VARIABLE = re.compile(r"(?<!\\)\$(?:\{(\w+)(?:\[[^\]]*\])?\}|([A-Za-z_]\w*)|\(([A-Z][A-Z0-9_]*)\))")
COMMAND = re.compile(r"\$\((?![A-Z][A-Z0-9_]*\))|`|\$\(\(")  # what a command prints is not a variable's
COMMENT = re.compile(r"(?m)(^|\s)#.*$")
# Files and commands that set what only they know.
SETS_MORE = re.compile(
    r"(?m)(?:^|[;&|]|\bthen|\bdo|\belse)\s*"
    r"(?:(?:source|\.)\s+(?P<path>[^\s;&|]+)|(?:eval|getopts|mapfile|readarray|declare -n)\b(?P<rest>.*)|set -a\b)"
)
SETS_NOTHING = re.compile(r".*\b(activate|conda|mamba|micromamba|profile|bashrc|modules?|venv|spack|ssh-agent)\b")

# What every shell, a launcher, or whoever starts a job by variables sets.
EVERYWHERE = words(
    """
    HOME USER LOGNAME PWD OLDPWD SHELL PATH HOSTNAME HOSTTYPE OSTYPE UID EUID PPID RANDOM SRANDOM SECONDS EPOCHSECONDS
    EPOCHREALTIME LINENO BASH_SOURCE BASHPID TMPDIR TERM LANG DISPLAY IFS OPTARG OPTIND REPLY SHLVL FUNCNAME PYTHONPATH
    LD_LIBRARY_PATH VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV CUDA_HOME CUDA_VISIBLE_DEVICES MASTER_ADDR MASTER_PORT
    RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK NODE_RANK JOB_COMPLETION_INDEX AIP_MODEL_DIR CLUSTER_SPEC
    TF_CONFIG
    """
)
# Of these only an operator tells pods, and these kinds of Kubernetes have none: what is not in env is not there.
OF_OPERATORS = words("MASTER_ADDR MASTER_PORT RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK NODE_RANK")
KIND = re.compile(r"(?m)^\s*kind:\s*[\"']?(\w+)")
WITHOUT_OPERATOR = frozenset(
    words("Job JobSet StatefulSet Pod Deployment Service ConfigMap PersistentVolumeClaim Namespace Secret LocalQueue")
)
HANDS_ON = re.compile(r"\benvFrom:|batch\.volcano\.sh|\bsource\s|(?m:^\s*\.\s)")  # more than what env says
# Of Grid Engine, whose names have no prefix: a job of Slurm has none of them.
GRID_ENGINE = words("JOB_ID JOB_NAME NHOSTS NSLOTS NQUEUES PE_HOSTFILE SGE_TASK_ID SGE_O_WORKDIR")
# Schedulers whose own variables are known one by one: another name of theirs is misspelt.
SLURM = words(
    """
    ARRAY_JOB_ID ARRAY_TASK_COUNT ARRAY_TASK_ID ARRAY_TASK_MAX ARRAY_TASK_MIN ARRAY_TASK_STEP CLUSTER_NAME CPUS_ON_NODE
    CPUS_PER_GPU CPUS_PER_TASK CPU_BIND DISTRIBUTION EXPORT_ENV GPUS GPUS_ON_NODE GPUS_PER_NODE GPUS_PER_SOCKET
    GPUS_PER_TASK GPU_BIND GPU_FREQ GTIDS HET_SIZE JOBID JOB_ACCOUNT JOB_CPUS_PER_NODE JOB_DEPENDENCY JOB_END_TIME
    JOB_GID JOB_GPUS JOB_ID JOB_NAME JOB_NODELIST JOB_NUM_NODES JOB_PARTITION JOB_QOS JOB_RESERVATION JOB_START_TIME
    JOB_UID JOB_USER LAUNCH_NODE_IPADDR LOCALID MEM_BIND MEM_PER_CPU MEM_PER_GPU MEM_PER_NODE MPI_TYPE NNODES NODEID
    NODELIST NODE_ALIASES NPROCS NTASKS NTASKS_PER_CORE NTASKS_PER_GPU NTASKS_PER_NODE NTASKS_PER_SOCKET OVERCOMMIT
    PRIO_PROCESS PROCID RESTART_COUNT SRUN_COMM_HOST SRUN_COMM_PORT STEPID STEP_GPUS STEP_ID STEP_LAUNCHER_PORT
    STEP_NODELIST STEP_NUM_NODES STEP_NUM_TASKS STEP_TASKS_PER_NODE SUBMIT_DIR SUBMIT_HOST TASKS_PER_NODE TASK_PID
    THREADS_PER_CORE TOPOLOGY_ADDR TOPOLOGY_ADDR_PATTERN TRES_PER_TASK UMASK WCKEY CONF TMPDIR
    """
)
DSTACK = words(
    """
    NODES_IPS MASTER_NODE_IP NODE_RANK NODES_NUM GPUS_NUM GPUS_PER_NODE RUN_NAME RUN_ID REPO_ID JOB_ID MPI_HOSTFILE
    WORKING_DIR
    """
)
LWS = words("LEADER_ADDRESS GROUP_SIZE WORKER_INDEX")
SKYPILOT = words(
    """
    NODE_IPS NODE_RANK NUM_NODES NUM_GPUS_PER_NODE TASK_ID CLUSTER_INFO INTERNAL_JOB_ID JOB_ID USER USER_ID
    SERVE_REPLICA_ID
    """
)
EXACT: Mapping[str, tuple[str, ...]] = {"SLURM": SLURM, "DSTACK": DSTACK, "LWS": LWS, "SKYPILOT": SKYPILOT}
OF_A_PLATFORM = re.compile(
    r"(PBS|LSB|LS|SGE|OAR|PJM|COBALT|FLUX|OMPI|PMI|PMIX|MPI|PALS|I_MPI|MV2|HYDRA|JSM|KUBERNETES|TORCHELASTIC|PET|SM"
    r"|AZUREML|AZ|AWS|AIP|ARNOLD|METIS|MLP|VC|VK|BEAKER|RUNPOD|POD|NVIDIA|NCCL|GLOO|ROCR|HIP|XDG|LC|SSH|BASH|DET|VERTEX"
    r"|RAY|HOROVOD|DLC|TPU|SRUN|SLURMD|HOSTFILE|PLATFORM|INDEX|VOLC|BATCH|SINGULARITY|APPTAINER|MAST|COMPUTE|INPUT)_\w+"
    r"|\w+_(SERVICE_HOST|SERVICE_PORT|PORT)|SLURM_(\w+_)?(HET|PACK)_GROUP_\w+|SLURM_\w+_HET_GROUP_\d+|SKYPILOT_SETUP_\w+"
)


# What shows that a text is run by a scheduler, by the prefix of the variables that it alone sets.
SCHEDULERS: Mapping[str, re.Pattern[str]] = {
    "SLURM": re.compile(
        r"(?m)^#SBATCH|\b(srun|sbatch|salloc|scontrol)\b|[-z:]\s*\"?\$?\{?SLURM_\w+\}?\"?\s*\]|SLURM_\w+:?[-+?]"
    ),
    "FLUX": re.compile(r"(?mi)^#\s?flux:|\bflux\s+(run|batch|submit|alloc|hostlist|exec)\b"),
    "PBS": re.compile(r"(?m)^#PBS|\bq(sub|stat)\b"),
    "LSB": re.compile(r"(?m)^#BSUB|\b(bsub|jsrun|blaunch)\b"),
}


def of_another_scheduler(name: str, texts: Iterable[str]) -> bool:
    """Whether only a scheduler sets it that nothing in the files tells of, where they tell of another one."""
    prefix = name.partition("_")[0]
    told = {of for of, shows in SCHEDULERS.items() for text in texts if shows.search(text)}
    return prefix in SCHEDULERS and bool(told) and prefix not in told


def with_unset(plan: Plan, texts: Mapping[str, str]) -> Plan:
    """The plan with the variables that it reads and nothing sets."""
    if plan.is_opaque or plan.launcher.name in ("k8s", "kubernetes"):
        return plan
    own = texts.get(plan.where.file, "")
    if sets_more(own, texts):
        return plan
    bare = [COMMENT.sub("", text) for text in texts.values()]
    kinds = set(KIND.findall(own)) if "kubernetes" in plan.wraps and not HANDS_ON.search(own) else set()
    given = OF_OPERATORS if kinds and kinds <= WITHOUT_OPERATOR else ()
    is_of_slurm = plan.slurm is not None and plan.slurm.has_directives
    found: dict[tuple[str, str], Unset] = {}
    for holds, value in _values(plan):
        for name in _names(value):
            is_argument_from_outside = holds == "argument" and not name.islower()
            is_known = name in GRID_ENGINE and not is_of_slurm
            is_there = is_in(name, bare) if name in given else is_known or is_set(name, bare)
            is_there = is_there and not (of_another_scheduler(name, texts.values()) and not is_in(name, bare))
            if not is_argument_from_outside and not is_there:
                found.setdefault((name, holds), Unset(name, holds, value))
    return replace(plan, unset=tuple(found.values())) if found else plan


def _values(plan: Plan) -> Iterator[tuple[str, Unknown]]:
    """What the start takes from elsewhere, and what each is to say."""
    numbers: Iterable[Field[Any]] = (plan.nodes, plan.node_rank, plan.processes_per_node, plan.rank, plan.master_port)
    files = (plan.settings.get("config_file"), plan.settings.get("hostfile"))
    for holds, values in (
        ("address", (plan.master_address,)),
        ("number", numbers),
        ("id", (plan.rendezvous_id,)),
        ("file", files),
        ("argument", plan.arguments),
    ):
        yield from ((holds, value) for value in values if isinstance(value, Unknown))


def _names(value: Unknown) -> list[str]:
    """The variables of an expression that is no command's output."""
    if COMMAND.search(value.expression) or value.hidden:
        return []
    names = (found[1] or found[2] or found[3] for found in VARIABLE.finditer(value.expression))
    return [name for name in names if not name.isdigit() and len(name) > 1]


def is_set(name: str, texts: Iterable[str]) -> bool:
    """Whether something sets it: a platform that is known for it, or a line of a given file that has its bare name."""
    prefix, _, rest = name.partition("_")
    if prefix in EXACT and rest in EXACT[prefix]:
        return True
    if name in EVERYWHERE or OF_A_PLATFORM.fullmatch(name):
        return True
    return is_in(name, texts)


def is_in(name: str, texts: Iterable[str]) -> bool:
    """Whether a line has its bare name, as one that sets it does."""
    bare = re.compile(rf"(?<![$\w{{(-]){re.escape(name)}\b")  # --nproc_per_node=4 sets no variable
    return any(bare.search(text) for text in texts)


def sets_more(text: str, texts: Mapping[str, str]) -> bool:
    """Whether the script reads settings from a place that is not given."""
    given = {name.rpartition("/")[2] for name in texts}
    for found in SETS_MORE.finditer(COMMENT.sub("", text)):
        said = found["path"] or found["rest"] or ""
        if SETS_NOTHING.match(said) or (found["path"] and said.rpartition("/")[2].strip("\"'") in given):
            continue
        return True
    return False
