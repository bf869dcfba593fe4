"""Which words say that Slurm refused what sbatch, salloc or srun asked for?"""

from __future__ import annotations

from preflight.diagnose.cause import Cause, Kind

CAUSES = (
    Cause(
        "slurm-refused",
        "Slurm refused the request: no node has what it asks for (GPUs, cores, memory, features), or Slurm gives no reason",
        (
            r"batch job submission failed",
            r"unable to allocate resources",
            r"unable to create step for job",
            r"unable to layout tasks",
            r"too few processes for the requested",
            r"you asked for \d+ tasks but hostlist specified",
            r"job submit/allocate failed",
            r"unable to confirm allocation for job",
        ),
        "`sinfo -o '%P %D %N %c %m %G %f'` says what the nodes of each partition have: ask for that (--gres, --cpus-per-task, --mem,"
        " --constraint), on fewer or other nodes",
        "Slurm",
        weight=5,
        unless=(
            r"memory required by task is not available",
            r"socket timed out",
            r"i/o error writing script",
        ),
    ),
    Cause(
        "slurm-access",
        "the account, QOS, partition or reservation of the request does not exist, or this user may not use it",
        (
            r"invalid (?:account|partition|qos|wckey|mcs_label|or unknown association)\b",
            r"no partition specified or system default partition",
            r"user's group not permitted to use this partition",
            r"s(?:batch|run|alloc): error: .*: access/permission denied",
            r"access denied to requested reservation",
            r"requested reservation is invalid",
            r"burst buffer permission denied",
        ),
        "`sacctmgr show assoc user=$USER format=account,partition,qos` and `scontrol show partition` (AllowAccounts, AllowGroups,"
        " AllowQos): name one of them with -A, -q, -p or --reservation; else ask those who run the cluster",
        "Slurm",
        weight=7,
    ),
    Cause(
        "slurm-limit",
        "the request is beyond a limit of the partition, the account or the QOS: its time, size or number of jobs or steps",
        (
            r"job violates accounting",
            r"requested time limit is invalid",
            r"invalid time-min specification",
            r"time limit specification required",
            r"maxjobcount limit reached",
            r"breached requested qos usage threshold",
            r"\bstep limit reached",
            r"too many job steps on node",
            r"burst buffer resource limit exceeded",
            r"\breason=(?:assoc|qos)(?:max|grp)\w+",
        ),
        "`scontrol show partition` (MaxTime, MaxNodes), `sacctmgr show qos` and `sacctmgr show assoc user=$USER`: ask for less time or"
        " fewer nodes, or wait until other jobs of the account have ended",
        "Slurm",
        weight=7,
    ),
    Cause(
        "slurm-unavailable",
        "the nodes, partition, reservation or licenses of the request exist, but are not available now: down, drained, reserved or busy",
        (
            r"required (?:node|partition) not available",
            r"requested partition configuration not available now",
            r"partition in down state",
            r"requested reservation (?:is in use|not usable now)",
            r"job can not start (?:due to maintenance|immediately)",
            r"requested nodes are busy",
            r"immediate execution impossible",
            r"licenses currently unavailable",
            r"system submissions disabled",
            r"max powered up nodes reached",
            r"required ports are in use",
        ),
        "`sinfo -R` and `scontrol show node` or `scontrol show reservation` say why and until when; take other nodes (--exclude, no -w),"
        " or wait; for a step inside of an allocation use srun --overlap, or end the step that holds them",
        "Slurm",
        weight=6,
        passed=(r"job \d+ has been allocated resources", r"granted job allocation \d+", r"step created for \S+"),
    ),
    Cause(
        "slurm-options",
        "options of sbatch, salloc or srun contradict each other, or have a value that Slurm cannot read",
        (
            r"srun: fatal: (?!.*(?:mutually exclusive|two different environment))",
            r"s(?:run|batch|alloc): error: .*(?:are mutually exclusive|not allowed with|can not be bigger than|are incompatible)",
            r"s(?:run|batch|alloc): (?:error: )?(?:unrecognized|invalid|ambiguous) option",
            r"s(?:run|batch|alloc): (?:error|fatal): invalid --?\w+",
            r"is also in the excluded list",
            r"hostlist is empty!",
            r"s(?:batch|alloc): fatal: .*mutually exclusive",
            r"task distribution specification invalid",
            r"(?:submission failed|unable to allocate resources|submit/allocate failed): .*invalid (?:job array|time|--nice|license|extra)",
            r"job dependency problem",
            r"circular job dependency",
            r"only batch jobs are accepted",
            r"job (?:size specification needs|--batch option is invalid)",
            r"cannot request more threads per core than the job allocation",
            r"requires more ports than can be reserved",
            r"multiple partition job request not supported",
            r"duplicate generic resource \(gres\) specification",
            r"pathname of a file, directory or other parameter too long",
        ),
        "correct the option that the line names, in the script's #SBATCH lines too; `env | grep -E 'S(BATCH|ALLOC|LURM)_'` shows those"
        " that come from the environment",
        "Slurm",
        weight=6,
        unless=(r"slurm_mem_per",),
    ),
    Cause(
        "slurm-inherited",
        "srun or sbatch inherited variables of Slurm that contradict its options: from an allocation around it,"
        " or from the node it was submitted from",
        (r"slurm_mem_per_\w+.* mutually exclusive", r"set by two different environment variables slurm_\w+"),
        "submit from a login node, or first `unset` the variables that the line names (SLURM_MEM_PER_NODE,"
        " SLURM_CPUS_PER_TASK, SLURM_TRES_PER_TASK)",
        "Slurm, sbatch(1)",
        weight=6,
    ),
    Cause(
        "slurm-step-memory",
        "the job does not have as much memory left as a step of srun asks for: other steps hold it, or slurmctld was just"
        " restarted and does not know yet what is free",
        (r"memory required by task is not available",),
        "`scontrol show step` lists the steps that hold it; start with srun --overlap --mem=0, or ask for more"
        " memory (sbatch --mem); once `scontrol ping` says UP, start it again",
        "Slurm",
        weight=7,
    ),
    Cause(
        "slurm-gpu-binding",
        "Slurm gave the tasks other GPUs than the launcher expects",
        (
            r"--gpus-per-task",
            r"gpu-bind",
        ),
        "use only one of them: --gpus-per-node with LOCAL_RANK as device, or --gpus-per-task with device 0",
        "Lightning-AI/pytorch-lightning#4612",
        Kind.NOTE,
        check="gpu.visible_devices_exist",
    ),
    Cause(
        "batch-script",
        "the file given to sbatch is no batch script: lines that end as on Windows, no #! at its top, or nothing in it",
        (
            r"batch script contains dos line breaks",
            r"instead of expected unix line breaks",
            r"this does not look like a batch script",
            r"batch script (?:is empty|contains only whitespace)",
            r"invalid directive found in batch script",
            r"change from #slurm to #sbatch",
            r"sbatch: error: unable to open file",
            r"sbatch: fatal: script .*is too (?:big|large)",
        ),
        "run `dos2unix SCRIPT`; write `#!/bin/bash` in its first line and the #SBATCH lines before the first"
        " command; give sbatch the script, not the program",
        "Slurm, sbatch",
        weight=6,
    ),
)
