"""Which words say that a daemon of Slurm, or what it does on a node, kept the job from running?"""

from __future__ import annotations

from preflight.diagnose.cause import Cause, Kind

CAUSES = (
    Cause(
        "slurmd-silent",
        "the Slurm daemon of a node (slurmd) did not answer in time: it is down or overloaded, its ports are closed, or it still fetches"
        " a container's image",
        (
            r"task launch .*failed on node (?P<node>[\w.-]+): .*(?:communication|timed out|unreachable|connection)",
            r"slurm_receive_msgs: \[\[(?P<node>[\w.-]+)\]:\d+\] failed",
            r"srun: error: .*(?:communication connection failure|socket timed out)",
            r"timeout waiting for task launch, started \d+ of",
        ),
        "read slurmd's log and `systemctl status slurmd` on that node; open port 6818 and SrunPortRange between"
        " the nodes; import the image before the job (enroot import), or raise MessageTimeout",
        "Slurm, troubleshooting; NVIDIA/pyxis#107",
        check="reach.every_node_answers",
        weight=6,
    ),
    Cause(
        "slurm-controller",
        "Slurm's controller (slurmctld) did not answer",
        (
            r"unable to contact slurm controller",
            r"slurm_load_\w+ error: (?!invalid job id)",
            r"failed to open persistent connection to",
            r"submission failed: .*(?:socket timed out|message (?:send|receive) failure|communication \w+ failure|connection (?:timed out|rejected)|rate limit|zero bytes|in standby)",
            r"unable to allocate resources: .*(?:socket timed out|message (?:send|receive) failure|communication \w+ failure|connection (?:timed out|rejected)|rate limit|zero bytes|in standby)",
            r"unable to create step for job \d+: .*(?:socket timed out|message (?:send|receive) failure|communication \w+ failure|connection (?:timed out|rejected)|rate limit|zero bytes)",
            r"i/o error writing script/environment to file",
            r"slurm controller not responding",
            r"submit/allocate failed: .*(?:socket timed out|message (?:send|receive) failure|communication \w+ failure|connection (?:timed out|rejected)|rate limit|zero bytes|in standby)",
        ),
        "run `scontrol ping` on the node; give it the controller's slurm.conf and open the controller's port 6817 to it; read"
        " slurmctld's log",
        "Slurm, troubleshooting",
        weight=6,
    ),
    Cause(
        "slurm-credential",
        "a Slurm daemon refused a credential: munge does not run there, has another key, or the clocks differ",
        (
            r"munge decode failed",
            r"(?:rewound|expired|replayed) credential",
            r"munge encode failed",
            r"protocol authentication error",
            r"invalid authentication credential",
            r"authentication credential expired",
            r"job credential (?:expired|replayed|revoked)",
            r"invalid job credential",
        ),
        "`munge -n | ssh NODE unmunge` says which; check `systemctl status munge`, and give every node the same"
        " /etc/munge/munge.key and time",
        "munge(7); Slurm",
        check="clock.clocks_agree",
        weight=6,
    ),
    Cause(
        "slurm-task-launch",
        "Slurm could not set up a task on its node: the --mpi plug-in, the container plug-in, the cgroup, the"
        " working folder or a prolog failed",
        (
            r"task \d+ launch failed",
            r"pyxis: couldn't start container",
            r"aborted before step completely launched",
            r"slurmd could not execve job",
            r"unable to add pids to '?/sys/fs/cgroup",
            r"task launch for \S+ failed on node",
            r"application launch failed",
            r"error: +mpi/pmix\w*: .*(?:error|fail|bad request|timeout)",
        ),
        "run `srun --mpi=list`, then try --mpi=pmi2 or --mpi=none; read slurmd's log on the node named",
        "NVIDIA-NeMo/Speech#14829; Slurm, slurmstepd",
        Kind.SUSPICION,
        weight=5,
    ),
    Cause(
        "pmi-missing",
        "srun and the program disagree about PMI, so every task believes it is the only rank",
        (
            r"ompi was not built with slurm",
            r"cannot create (?:mpi )?context for",
            r"couldn't find the specified plugin name for mpi",
            r"invalid mpi plugin name",
            r"mpi plugin's pre-launch setup failed",
            r"pmix_psec_base_open failed",
            r"pmix stopped checking at the first component",
            r"invalid mpi type '",
        ),
        "run `srun --mpi=list`; use --mpi=pmix with an MPI built for it",
        "Slurm; open-mpi/ompi",
        weight=6,
    ),
    Cause(
        "slurm-user",
        "a node, or slurmctld, does not know the user or a group of the job",
        (
            r"slurmd could not set uid or gid",
            r"\binvalid (?:user|group) id\b",
            r"unable to resolve (?:user|group) id to",
            r"rejecting authentication of user nobody",
            r"\buid \d+ not found on system",
        ),
        "`getent passwd USER; id USER` on that node and on slurmctld's must say the same as where the job was submitted: the name service"
        " there (sssd, LDAP, nscd)",
        "Slurm",
        weight=7,
    ),
    Cause(
        "slurm-prolog",
        "the prolog of Slurm failed on a node: the job does not start there, and Slurm drains the node",
        (
            r"(?:failed on node (?P<node>[\w.-]+): )?job prolog failed",
            r"prolog (?:failure|hung) on node (?P<node>[\w.-]*\w)",
            r"prolog exit status [1-9]",
            r"prolog launch failure",
            r"prolog or job env setup failure on node (?P<node>[\w.-]*\w)",
            r"prolog failed status=",
            r"reason=prolog error",
        ),
        "run the prolog by hand on that node as root and read slurmd's log there: often a health check of GPUs, mounts or disks that"
        " is right; `scontrol update nodename=NODE state=resume` once it is repaired, --exclude=NODE until then",
        "Slurm",
        check="reach.every_node_answers",
        weight=8,
    ),
    Cause(
        "slurm-node-config",
        "a node is not as slurm.conf or gres.conf says: it has fewer cores, GPUs or less memory, another name or address, or another"
        " file or version of Slurm; Slurm drains it, or its daemon does not start",
        (
            r"node (?P<node>[\w.-]+) has low (?:socket\*core\*thread count|cpu count|real_memory size|tmp_disk size)",
            r"\blow (?:realmemory|tmpdisk|cpus|socket\*core\*thread count)",
            r"gres/\w+ count reported lower than",
            r"gres/\w+ count too low",
            r"can't find address for host (?P<node>[\w.-]+), check slurm\.conf",
            r"(?:failed on node (?P<node>[\w.-]+): )?can't find an address, check slurm\.conf",
            r"fatal: duplicated (?:nodename|nodehostname|nodeaddr)",
            r"unable to determine this slurmd's nodename",
            r"fatal: unable to (?:process|find|open) (?:slurm\.conf|configuration|gres)",
            r"fatal: could not establish a configuration source",
            r"incompatible versions of client and server code",
            r"fatal: can't stat gres\.conf file",
            r"_slurm_rpc_node_registration node=(?P<node>[\w.-]+): ",
        ),
        "compare `slurmd -C` on that node with its line of slurm.conf, and `ls /dev/nvidia*` with gres.conf; use the same files, Slurm and"
        " /etc/hosts everywhere; then run `scontrol reconfigure` and `scontrol update nodename=NODE state=resume`",
        "Slurm",
        check="reach.every_node_answers",
        weight=7,
    ),
    Cause(
        "epilog-drain",
        "Slurm could not end the job's processes, or the epilog failed, and it drains the node",
        (
            r"kill task failed",
            r"due to job not ending with signals",
            r"epilog error",
            r"epilog failed status=",
        ),
        "look for processes in the D state (`ps -eo pid,stat,wchan:30,cmd | grep ' D'`): a file system or the"
        " GPU driver of that node hangs; read the prolog's and epilog's logs",
        "Lightning-AI/pytorch-lightning#15008; Slurm",
        check="limits.nothing_is_left_behind",
        weight=5,
    ),
    Cause(
        "slurm-output",
        "Slurm cannot open the file for the output of the job on its node, so the job ends at once and leaves no log",
        (r"could not open (?:stdout|stderr|stdin) (?:file|/)",),
        "create the folder of --output and --error before the job, on storage that the nodes have too, writable"
        " by the user: most versions of Slurm do not create it",
        "Slurm, sbatch",
        check="files.places_can_be_written_to",
        weight=7,
        unless=(
            r"attempt \[\d+/\d+\], retrying",
            r"retrying after",
        ),
    ),
)
