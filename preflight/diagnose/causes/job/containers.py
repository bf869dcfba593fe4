"""Which words say that a container or its image did not start?"""

from __future__ import annotations

from preflight.diagnose.cause import Cause, Kind

CAUSES = (
    Cause(
        "image-pull",
        "the container's image cannot be fetched",
        (
            r"imagepullbackoff",
            r"errimagepull",
            r"failed to pull image",
            r"failed to pull and unpack image(?!.*no space left)",
            r"back-off pulling image",
            r"manifest .*(?:unknown|not found)",
            r"pull access denied",
            r"toomanyrequests: ",
            r"fatal: +unable to handle \S+ uri",
            r"^(?!.*container creation failed).*squashfs.*(?:error|fail)",
            r"invalidimagename",
            r"invalid reference format",
            r"errimageneverpull",
            r"cannotpullcontainererror",
            r"\[error\] url \S+ returned error code: \d+",
            r"\[error\] invalid image (?:reference|format)",
            r"\[error\] could not (?:parse|retrieve) (?:authentication|digest)",
            r"\[error\] checksum validation failed",
            r"unable to pull secrets or registry auth",
        ),
        "check name, tag and credentials of the image; pull it on the node by hand",
        "Kubernetes; enroot",
        weight=6,
        passed=(
            r"kubelet\S*(?: \S+)?\s+successfully pulled image",
            r"kubelet\S*(?: \S+)?\s+container image \S+ already present",
        ),
    ),
    Cause(
        "image-import",
        "pyxis or enroot cannot import the image, or find the container, that the job names",
        (
            r"pyxis: failed to import",
            r"could not process json input",
            r"pyxis: .*a container with name .* does not exist",
            r"pyxis: child \d+ (?:failed|terminated)",
            r"pyxis: importer (?:\S+ (?:terminated|failed)|did not return)",
        ),
        "read enroot's lines below it; run `enroot import docker://IMAGE` on that node by hand; the path of a"
        " .sqsh file must begin with / or ./",
        "NVIDIA/pyxis#127; NVIDIA/enroot#252",
        weight=4,
    ),
    Cause(
        "user-namespaces",
        "this user may not create user namespaces on the node, which rootless containers need",
        (
            r"failed to create user namespace",
            r"unshare failed: operation not permitted",
            r"no permissions to creat(?:e|ing) new namespace",
        ),
        "run `sysctl user.max_user_namespaces kernel.unprivileged_userns_clone"
        " kernel.apparmor_restrict_unprivileged_userns` on that node: the values should be thousands, 1 and 0; `lsns -t"
        " user` shows who holds them",
        "NVIDIA/enroot, requirements; NVIDIA/pyxis#93",
        weight=8,
    ),
    Cause(
        "container-ends",
        "the program of a container starts and ends again and again; what it printed says why",
        (r"\bcrashloopbackoff\b", r"back-off \d*\w* ?restarting failed container"),
        "`kubectl logs POD --previous --all-containers`, and the exit code in `kubectl describe pod` (137 was killed, 127 found no"
        " program); a worker that cannot reach its first node ends the same way",
        "Kubernetes",
        Kind.SUSPICION,
        weight=4,
    ),
    Cause(
        "container-start",
        "the container cannot start",
        (
            r"createcontainererror",
            r"runcontainererror",
            r"oci runtime (?:create|exec|error)",
            r"pyxis: failed to create",
            r"pyxis: couldn't (?!start container)",
            r"pyxis: .*hooks\.d/.*",
            r"enroot-\w+: .*(?:error|failed)",
            r"failed to create (?:shim|containerd) task",
            r"unknown (?:or invalid )?runtime (?:name: |specified )nvidia",
            r"exec format error",
            r"failed to generate spec",
            r"containercannotrun",
            r"cannotstartcontainererror",
            r"reason: +starterror",
            r"pyxis: failed to start container",
            r"pyxis: container (?:start (?:error|failed)|exited too soon|was not started)",
            r"pyxis: seccomp filter failed",
        ),
        "read `kubectl describe pod` (the events at its end) or the daemon's log; for enroot check the hook that"
        ' failed (/etc/enroot/hooks.d) and the driver on that node; after "exec format error" use an image for'
        " this architecture",
        "Kubernetes; nvidia-container-toolkit",
        weight=6,
        unless=(r"executable file not found",),
    ),
    Cause(
        "container-gpus",
        "the container gets none of the node's GPUs: NVIDIA's container tools are missing on that node, or fail",
        (
            r"nvidia-container-cli: .*(?:error|fail|not)",
            r"command not found: nvidia-container-cli",
            r"98-nvidia\.sh exited",
            r"unresolvable cdi devices",
            r"failed to discover gpu vendor from cdi",
            r"no runtime for \W*nvidia\W* is configured",
        ),
        "run `nvidia-smi` and `nvidia-container-cli info` on that node; install libnvidia-container-tools"
        " (nvidia-container-toolkit) as on the others",
        "NVIDIA/libnvidia-container; NVIDIA/enroot",
        weight=8,
        unless=(r"version mismatch",),
    ),
    Cause(
        "container-folders",
        "pyxis or enroot cannot create the folders that it keeps containers in",
        (
            r"pyxis: (?:slurmd: )?couldn't mkdir",
            r"enroot.*(?:mkdir|cannot create directory|permission denied|read-only file system)",
        ),
        "create them on every node, writable by the user: runtime_path of pyxis (plugstack.conf),"
        " ENROOT_RUNTIME_PATH, ENROOT_CACHE_PATH, ENROOT_DATA_PATH (enroot.conf)",
        "NVIDIA/pyxis#4; NVIDIA/enroot",
        check="files.places_can_be_written_to",
        weight=8,
    ),
    Cause(
        "apptainer-start",
        "Apptainer (Singularity) cannot start the container on this node",
        (
            r"fatal: +container creation failed",
            r"fatal: +while .*(?:image|rootfs|container|mount|namespace)",
            r"fatal: +could not open image",
            r"no setuid installation found",
            r"fatal: +.*user namespace (?:required|needed)",
            r"fatal: +.*--fakeroot (?:requires|used)",
            r"fatal: +failed to create an? (?:new )?image cache",
        ),
        "read what FATAL names: for a mount whose destination is missing, create the folder in the image or set"
        " `enable underlay = yes`; for loop devices, unpack the image (`apptainer build --sandbox`) or raise"
        " `max loop devices`; for a user namespace, install the apptainer-suid package",
        "apptainer/apptainer, apptainer.conf",
        weight=6,
    ),
    Cause(
        "container-options",
        "an option of pyxis is malformed, so no task starts",
        (
            r"pyxis: --container-[\w-]+: (?:argument required|invalid format|empty|unknown|flag must|target is)",
            r"pyxis: --container-[\w-]+ specified multiple times",
            r"pyxis: both --",
            r"pyxis: mount (?:source|target) must be",
            r"pyxis: could not add mount entry",
            r"pyxis: error: --container-unshare",
            r"pyxis: error: .* flag was passed to --container-name but",
            r"pyxis: unknown configuration option",
        ),
        "correct the option that the line names: --container-mounts=SRC:DST[:FLAGS],…, --container-image=REGISTRY#IMAGE or a path with /",
        "NVIDIA/pyxis",
        weight=6,
    ),
    Cause(
        "pyxis-missing",
        "Slurm on this node does not know the options of its container plug-in: pyxis is not installed or not loaded there",
        (
            r"spank plugin \W?pyxis\W? option .*not found",
            r"unrecognized option .--container-\w+",
            r"spank_pyxis\.so: (?:cannot|no such)",
        ),
        "install pyxis (and enroot) on the login node and on every compute node, with the same"
        " plugstack.conf.d/pyxis.conf, then restart slurmd",
        "NVIDIA/pyxis#84",
        weight=7,
    ),
)
