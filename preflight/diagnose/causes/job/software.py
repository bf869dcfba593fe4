"""Which words say that the installation of a node is wrong, or differs from the others?"""

from __future__ import annotations

import sys

from preflight.diagnose.cause import Cause, Kind

# What Python itself brings, as messages name it; "from 'queue' (/home/user/queue.py)" is somebody else's.
OF_PYTHON = f"'(?:{'|'.join(sorted(name.lower() for name in sys.stdlib_module_names))})(?:\\.\\w+)*'"
NOT_ITS_OWN = r"(?!\S*/python3[^/]*/(?!site-packages|dist-packages))"
AT_ANOTHER_PLACE = r" \(" + NOT_ITS_OWN + r"/"
CAUSES = (
    Cause(
        "module-shadowed",
        "a file with the name of one of Python's own modules lies in front of it: in the script's folder or on PYTHONPATH",
        (
            r"importerror: cannot import name '\w+' from (?:partially initialized module )?"
            + OF_PYTHON
            + AT_ANOTHER_PLACE,
            r"attributeerror: partially initialized module "
            + OF_PYTHON
            + r" from '"
            + NOT_ITS_OWN
            + r"/\S+' has no attribute",
            r"since it has the same name as the standard library module",
        ),
        "rename the file that the message names, or take its folder off PYTHONPATH (`python -P` leaves the script's out)",
        "Python",
        weight=5,
    ),
    Cause(
        "python-home",
        "this Python does not find its own standard library: PYTHONHOME names another installation, or the environment"
        " was moved or copied from another machine",
        (
            r"no module named '?encodings",
            r"fatal python error: init_?fs_?encoding",
            r"could not find platform independent libraries <prefix>",
        ),
        "`unset PYTHONHOME` where the job starts; where it is not set, create the environment again on that node",
        "Python",
        check="environment.other_variables_are_the_same_on_every_node",
        weight=6,
    ),
    Cause(
        "module-missing",
        "a Python package is not installed here: the environment differs from the other nodes', or another interpreter runs",
        (
            r"no module named '?\w+",
            r"packagenotfounderror",
            r"distributionnotfound",
            r"importerror: .*requires .*(?:package|to be installed)",
            r"error: .*please install .*pip install",
            r"importerror: using .*requires",
            r"importerror: .*\bis not installed\b",
            r"w(?:as|ere) not found in your environment",
        ),
        "install it on every node into the environment that the launcher starts (`which python`, `pip list` on each)",
        "Python",
        check="software.environments_are_the_same_on_every_node",
        weight=4,
        unless=(
            r"warning",
            r"'vllm\._version'",
            r"named '?encodings",
            r"skipping",
            r"optional",
            r"not available",
            r"error caught was",
        ),
    ),
    Cause(
        "import-failed",
        "a package is there, but of a version that does not fit the others",
        (
            r"operator \w+::\w+ does not exist",
            r"attributeerror: module '[\w.]+' has no attribute",
            r"versionconflict",
            r"importerror: .*(?:version|requires|required|incompatible)",
            r"module compiled against a(?:pi|bi) version",
            r"got an unexpected keyword argument",
            r"numpy\.dtype size changed",
            r"a module that was compiled using numpy 1\.x",
            r"missing \d+ required (?:positional|keyword)",
            r"cannot import name",
        ),
        "compare the versions of both packages in the message (`pip list`); pin them together, the same on all nodes",
        "Python packaging",
        check="software.companions_are_the_same_on_every_node",
        weight=3,
        unless=(  # a module of the program itself
            r"cannot import name .* \((?:most likely .*\()?/(?!\S*(?:site-packages|dist-packages|/lib/python|lib/python))",
        ),
    ),
    Cause(
        "library-missing",
        "a shared library is missing or of another version",
        (
            r"cannot open shared object file",
            r"undefined symbol: (?!nccl)(?!pnccl)\w+",
            r"wrong elf class",
            r"unable to load any of \{libcudnn",
            r"symbol lookup error",
            r"version `\S+' not found",
            r"cudnn version incompatibility",
        ),
        "look for the library in the message: compare LD_LIBRARY_PATH, the container's image, and the torch and"
        " CUDA wheels with the other nodes'",
        "ld.so(8)",
        check="software.versions_are_the_same_on_every_node",
        weight=4,
        unless=(
            r"\(ignored\)$",
            r"nccl info",
            r"could not load dynamic library '",
            r"couldn't load driver",
        ),
    ),
    Cause(
        "environment-module",
        "an environment module cannot be loaded on this node: it is not installed here, or the shell does not know `module`",
        (
            r"module: command not found",
            r"the following module\(s\) are unknown",
            r"these module\(s\) .*cannot be loaded as requested",
            r"unable to locate a modulefile for",
        ),
        "`module avail` on that node; in a script that no login shell runs, `source /etc/profile.d/modules.sh` (Lmod: lmod.sh) "
        "before `module load`",
        "Lmod; Environment Modules",
        Kind.SUSPICION,
        check="software.versions_are_the_same_on_every_node",
        weight=2,
    ),
    Cause(
        "kernel-too-old",
        "the node's kernel is older than what the C library of the image or environment needs",
        (r"fatal: kernel too old",),
        "compare `uname -r` on every node; use an image with an older C library, or a newer kernel on that node",
        "glibc, sysdeps/unix/sysv/linux/dl-sysdep.c",
        weight=6,
    ),
    Cause(
        "version-differs-between-nodes",
        "nodes run different versions of the same software",
        (
            r"version mismatch",
            r"unsupported pickle protocol",
        ),
        "use the same image or environment on every node, built once",
        "ray-project/ray; pytorch/pytorch",
        check="software.versions_are_the_same_on_every_node",
        weight=4,
        unless=(r"driver/library", r"warning(?!.*the cluster was started with)"),
    ),
    Cause(
        "compile-failed",
        "a CUDA or C++ extension could not be built on this node",
        (
            r"cannot import name 'helpers\w*' from 'megatron",  # compiled by rank 0 alone
            r"error building extension",
            r"ninja is required to load c\+\+ extensions",
            r"ninja: build stopped",
            r"nvcc.*(?:not found|fatal)",
            r"command '\['ninja'",
            r"cuda_home does not exist",
            r"unable to jit load",
            r"torch_extensions/\S+\.so: cannot open shared object",
            r"failed to find c compiler",
            r"unsupported gnu version",
            r"fatal error: \S+\.h: no such file",
            r"error: command '\S*(?:gcc|g\+\+|nvcc)\S*' failed",
            r"gcc: .*(?:not found|cannot execute)",
        ),
        "install compiler, ninja and the CUDA toolkit of torch's version on every node, or build once into a"
        " shared TORCH_EXTENSIONS_DIR",
        "deepspeedai/DeepSpeed; pytorch/pytorch",
        check="software.a_compiler_is_there_for_deepspeed",
        weight=5,
    ),
    Cause(
        "extension-lock",
        "a build of an extension left its lock behind, and ranks wait for it forever",
        (
            r"waited on lock file",
            r"no modifications detected for re-loaded extension module .*skipping build",
        ),
        "remove ~/.cache/torch_extensions/*/*/lock on the node, and point TORCH_EXTENSIONS_DIR at a local disk",
        "pytorch/pytorch#45082; deepspeedai/DeepSpeed#2816",
        Kind.NOTE,
        weight=2,
    ),
    Cause(
        "triton-failed",
        "Triton or torch.compile could not compile a kernel here",
        (
            r"triton\.(?:compiler|runtime)\.errors\.\w+",
            r"torch\._dynamo\.exc\.\w+",
            r"ptxas.*(?:fatal|error|not found)",
            r"triton error \[",
            r"torch\._inductor\.exc\.\w+",
            r"outofresources: out of resource",
            r"libcuda\.so cannot be found",
            r"cannot find a working triton installation",
        ),
        "give every node a C compiler and write access to TRITON_CACHE_DIR (local disk, not NFS); install the"
        " Triton that this torch requires",
        "triton-lang/triton; pytorch/pytorch",
        Kind.SUSPICION,
        check="software.a_compiler_is_there_for_deepspeed",
        weight=3,
    ),
    Cause(
        "compile-cache",
        "ranks write one cache of compiled kernels at the same time, on storage that nodes share or that is cleaned meanwhile",
        (
            r"errno 2\] no such file .*(?:triton|inductor)",
            r"errno 2\] no such file .*\.(?:ttir|ttgir|llir|ptx|cubin|hsaco)\b",
            r"device or resource busy && (?:triton|inductor|torch_extensions|flashinfer)",
            r"stale file handle && (?:triton|inductor|torch_extensions|flashinfer)",
            r"text file busy && (?:triton|inductor|torch_extensions|flashinfer)",
            r"directory not empty && (?:triton|inductor|torch_extensions|flashinfer)",
        ),
        "set TRITON_CACHE_DIR and TORCHINDUCTOR_CACHE_DIR to a local folder of the job's own on every node (/tmp/$JOB), not in a home on NFS",
        "triton-lang/triton#2688, #11512; pytorch/pytorch#173679",
        weight=6,
    ),
    Cause(
        "flash-attention",
        "flash-attention does not fit this torch, CUDA or GPU",
        (
            r"flash_attn\S*.*undefined symbol",
            r"flashattention only supports ampere",
            r"does not support flash attention",
            r"flashattention\d has been toggled on, but",
        ),
        "install a flash-attn wheel built for this torch and CUDA; on older GPUs use another attention (sdpa)",
        "Dao-AILab/flash-attention",
        weight=5,
    ),
    Cause(
        "numa-affinity",
        "the process was bound to CPUs that it may not use",
        (
            r"sched_setaffinity.*(?:failed|invalid argument)",
            r"set_mempolicy.*operation not permitted",
            r"numactl: command not found",
            r"cpu binding outside of job step allocation",
            r"unable to satisfy cpu bind request",
            r"libnuma: warning: (?:cpu|node) argument \S+ is out of range",
            r"taskset: failed to set pid \d+'s affinity",
        ),
        "check which CPUs the scheduler allows (`taskset -pc $$`); start with --cpu-bind=none and without"
        " numactl; give a container the capability SYS_NICE",
        "numactl(8)",
        Kind.SUSPICION,
        weight=2,
    ),
    Cause(
        "omp-conflict",
        "two OpenMP or MKL libraries were loaded together",
        (
            r"omp: error #15",
            r"mkl-service .*incompatible with libgomp",
            r"intel mkl fatal error",
        ),
        "set MKL_THREADING_LAYER=GNU, or use one OpenMP only (conda's and pip's torch do not mix)",
        "pytorch/pytorch#37377",
        weight=4,
    ),
    Cause(
        "python-version",
        "Python is too old, or too new, for the program",
        (
            r"requires a different python",
            r"python \d\.\d+ or (?:newer|later|higher) is required",
        ),
        "use the same Python as on the other nodes (`python -V` where the launcher starts it)",
        "Python",
        Kind.SUSPICION,
        check="software.versions_are_the_same_on_every_node",
        weight=2,
    ),
    Cause(
        "syntax-error",
        "Python cannot read a source file: there is a mistake in it, or it is written for a newer Python than this one",
        (
            r"syntaxerror: ",
            r"^indentationerror: ",
            r"^taberror: ",
        ),
        "look at the file and line that the lines above name; where they are right, use a newer Python (`python -V` on each node)",
        "Python",
        Kind.SUSPICION,
        check="software.versions_are_the_same_on_every_node",
        weight=2,
    ),
)
