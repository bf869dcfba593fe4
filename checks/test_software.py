"""Does every node run the job with the same software?"""

import shlex

import pytest

from preflight.facts import fabric
from preflight.facts.value import or_none
from preflight.judge.tables import packages
from preflight.said import joined, said
from preflight.said.errors import Blame, BlameMany, NotApplicable

# What is compared, the fact of a node, the fix, and the row whose consequence a difference is: CUDA, cuDNN and NCCL
# come with torch. A row in HARD stops a job or makes it wrong; one in SOFT is fragile.
HARD = (
    (
        "Python",
        lambda node: node.software.python_minor,
        "use one Python on every node: `--python PATH`, or create the environment again on the nodes named",
        "",
    ),
    (
        "torch",
        lambda node: node.software.torch_version,
        "`pip install torch==<the others' version>` into the job's environment on the nodes named",
        "",
    ),
    (
        "CUDA runtime of torch",
        lambda node: node.software.library_of_torch("torch_cuda"),
        "install torch from the same index on every node (`--index-url https://download.pytorch.org/whl/cuXYZ`)",
        "torch",
    ),
    (
        "ROCm of torch",
        lambda node: node.software.library_of_torch("torch_hip"),
        "install torch from the same index on every node (`--index-url https://download.pytorch.org/whl/rocmX.Y`)",
        "torch",
    ),
    (
        "cuDNN",
        lambda node: node.software.library_of_torch("cudnn"),
        "`pip install --force-reinstall torch==<the others' version>` on the nodes named brings its own cuDNN back",
        "torch",
    ),
    (
        "NCCL",
        lambda node: node.software.library_of_torch("nccl"),
        "`pip install --force-reinstall torch==<the others' version>` on the nodes named brings its own NCCL back",
        "torch",
    ),
    (
        "GPU driver",
        lambda node: node.gpu.driver_version(),
        "install the others' driver on the nodes named, and reboot them",
        "",
    ),
)
PACKAGES = (
    *(
        "accelerate",
        "deepspeed",
        "transformers",
        "flash-attn",
        "flash-attn-3",
        "transformer-engine",
        "apex",
        "xformers",
    ),
    *("megatron-core", "megatron-fsdp", "bitsandbytes", "triton", "vllm", "ray", "lightning", "pytorch-lightning"),
    *("peft", "trl", "datasets", "torchvision", "torchaudio", "numpy", "cupy-cuda12x", "mpi4py"),
)
IMAGE = "run the job in the same container image or distribution on every node"
SOFT = (
    (
        "Python",
        lambda node: node.software.python,
        "use one Python on every node: `--python PATH`, or create the environment again on the nodes named",
        "",
    ),
    ("C library", lambda node: node.software.libc, IMAGE, ""),
    ("kernel", lambda node: node.identity.kernel, "boot the others' kernel on the nodes named", ""),
    ("processor architecture", lambda node: node.identity.machine, "leave the nodes named out", ""),
    ("processor", lambda node: or_none(node.machine.cpu_model, "processor"), "leave the nodes named out", ""),
    ("rdma-core", lambda node: or_none(node.machine.rdma_core, "rdma-core"), IMAGE, ""),
    (
        "RDMA driver",
        lambda node: or_none(node.machine.rdma_driver, "RDMA driver"),
        "install the others' OFED on the nodes named, and reboot them",
        "",
    ),
    (
        "firmware of the RDMA adapters",
        lambda node: fabric.firmwares(node.rdma),
        "bring the adapters of the nodes named to the others' firmware (`mlxfwmanager`), and reboot",
        "",
    ),
    (
        "libraries put first by LD_LIBRARY_PATH",
        lambda node: ", ".join(node.software.put_first) or "none",
        "take the folder with them out of the job's LD_LIBRARY_PATH on the nodes named, or give all nodes the same",
        "",
    ),
    (
        "compilers",
        lambda node: ", ".join(sorted(node.machine.compilers)) or "none",
        "install the others' compilers",
        "",
    ),
    *(
        (
            package,
            lambda node, package=package: node.software.packages.get(package, "none"),
            said("`pip install {package}==<the others' version>` on the nodes named", package),
            "",
        )
        for package in PACKAGES
    ),
)


def test_torch_is_installed(node):
    """The job's interpreter has torch on every node.

    A rank without torch ends at its first import, and all the others wait for it until the start times out.
    Fix: `--python PATH` with the Python of your job; where that has none yet, `<python> -m pip install torch`.
    """
    software = node.software
    if not software.has_torch():
        for path, version in list(software.torch_elsewhere.items())[:1]:
            right, executable = shlex.quote(path), shlex.quote(software.executable)
            fix = said(
                "`--python={right}`, which has torch there (`python={right}` on the node's line of a "
                "hostfile that has another one), or `{executable} -m pip install torch`",
                right,
                executable,
            )
            message = said(
                "torch is not installed for {executable}; {path} has torch {version}",
                software.executable,
                path,
                version,
            )
            raise Blame(message, nodes=[node.name], fix=fix)
        raise Blame(said("torch is not installed for {executable}", software.executable), nodes=[node.name])


def test_torch_is_built_for_the_gpus(node):
    """Where a node has GPUs, torch is a build for CUDA or ROCm.

    A build for the CPU installs and imports without a warning; the job then ends with "Torch not compiled with CUDA
    enabled", or trains on the CPU.
    Fix: `<python> -m pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu128`, or the
    index that fits the driver.
    """
    if not node.gpu.has_any():
        raise NotApplicable("the node has no GPUs")
    if node.backend != "nccl":
        raise NotApplicable(said("the job's backend is {backend}", node.backend))
    builds = {node.software.library_of_torch("torch_cuda"), node.software.library_of_torch("torch_hip")}
    assert builds != {"none"}, said(
        "torch {torch_version} is a build for the CPU, and the node has GPUs", node.software.torch_version
    )


def test_versions_are_the_same_on_every_node(cluster):
    """Python, torch, CUDA, cuDNN, NCCL and the GPU driver have the same version on every node.

    Ranks of different versions disagree on messages, pickles or kernels: NCCL refuses to connect or hangs, results
    differ, checkpoints of one node cannot be read on another.
    Fix: make the environments equal, best from one lock file or one container image.
    """
    cluster.needs_peers()
    cluster.same_rows(HARD)


@pytest.mark.advisory
def test_companions_are_the_same_on_every_node(cluster):
    """Python to the last digit, kernel, processor, RDMA libraries, compilers and accelerate are the same.

    Most jobs run in spite of such a difference, until an option, a default or a checkpoint format has changed.
    Fix: make the environments equal, best from one lock file or one container image.
    """
    cluster.needs_peers()
    cluster.same_rows(SOFT)


@pytest.mark.advisory
def test_environments_are_the_same_on_every_node(cluster):
    """All other Python packages are the same on every node too.

    What differs is found weeks later: another default, a checkpoint that only some nodes can read.
    Fix: `pip install <package>==<the others' version>` on the nodes named, best of all from one lock file or image.
    """
    cluster.needs_peers()
    if not any(cluster.gather(lambda node: node.software.packages).values()):
        raise NotApplicable("no package is installed on any node")
    blames = packages.differing(cluster, (*PACKAGES, "torch"))
    if blames:
        raise BlameMany(blames)


@pytest.mark.advisory
def test_no_versions_break_together(node):
    """No two packages of a node are in versions that are known to break together.

    Bug reports about such pairs end with "upgrade one of them": an import that fails, a crash, a hang of larger jobs
    only.
    Fix: install the version that the message names, on every node.
    """
    held = packages.installed(node.software)
    if not held:
        raise NotApplicable("no package is installed")
    found = packages.bad_pairs(node.software)
    messages = [
        said(
            "{package} {held}{other}: {what}; wanted {fix} ({source})",
            pair.package,
            held[pair.package],
            said(" with {other} {held}", pair.other, held[pair.other]) if pair.other else "",
            pair.what,
            pair.fix,
            pair.source,
        )
        for pair in found
    ]
    assert not messages, joined(messages)


def test_ray_that_runs_is_the_one_installed(node):
    """Where Ray runs already, it is of the version that the job's Python has.

    A job that joins it with another version ends at once: "Version mismatch: The cluster was started with Ray ...".
    Fix: install the version that runs (`pip install ray==<version>`), or `ray stop` and start it by the job's Python.
    """
    own, running = node.software.packages.get("ray", ""), node.software.ray_running
    if not own or not running:
        raise NotApplicable("no Ray runs here" if own else "ray is not installed")
    others = {folder: version for folder, version in running.items() if version != own}
    message = ", ".join(said("Ray {version} of {folder} runs", version, folder) for folder, version in others.items())
    assert not others, said("{message}, and the job's Python has {own}", message, own)


@pytest.mark.advisory
def test_packages_meet_each_others_requirements(node):
    """The versions that torch, torchvision, transformers and others require of each other are installed.

    One of them upgraded by itself ends with "operator torchvision::nms does not exist", an ImportError, or "undefined
    symbol"; another NCCL or cuDNN than torch was built with crashes, or is slow.
    Fix: `pip check` on the nodes named; install the version that the message names, best all from one lock file.
    """
    if not node.software.requirements:
        raise NotApplicable("no installed package names the version of another that it requires")
    unmet = packages.unmet(node.software)
    assert not unmet, joined(unmet)


@pytest.mark.advisory
def test_one_nccl_can_be_met(node):
    """A rank finds only one version of NCCL.

    With an older copy on LD_LIBRARY_PATH, in LD_PRELOAD or beside cupy, what is imported first decides: torch ends
    with "undefined symbol: ncclCommRegister", or ranks of one job speak different versions. NVIDIA's wheels for two
    CUDA versions install the same file: only that of the wheel installed last is there, whatever pip says.
    Fix: take the folder out of LD_LIBRARY_PATH and LD_PRELOAD, or remove the copy (`apt remove libnccl2`); of two
    wheels uninstall the other CUDA's, and install torch's again with `--force-reinstall`.
    """
    software = node.software
    own = or_none(software.nccl, "NCCL")
    preloaded = software.nccl_preloaded
    assert not preloaded, said("LD_PRELOAD puts {preloaded} before NCCL {own} of torch", preloaded, own)
    wheels = packages.nccl_wheels(software)
    if own == "none" and not wheels and not software.nccl_copies:
        raise NotApplicable("no NCCL is installed")
    listed = " and ".join(f"{name} {version}" for name, version in sorted(wheels.items()))
    assert len(set(wheels.values())) < 2, said(
        "{listed} install the same file: NCCL is that of the wheel installed last", listed
    )
    others = {path: version for path, version in software.nccl_copies.items() if version not in ("", own)}
    folders = [folder for folder in node.value("LD_LIBRARY_PATH").split(":") if folder]
    met = [path for path in others if any(path.startswith(f"{folder.rstrip('/')}/") for folder in folders)]
    if any(name.startswith("cupy") for name in software.packages):
        met = list(others)
    message = ", ".join(f"{path} ({others[path]})" for path in met)
    assert not met, said("beside NCCL {own} of torch a rank may load {message}", own, message)


@pytest.mark.advisory
def test_a_compiler_is_there_for_deepspeed(node):
    """Where DeepSpeed is installed, so is a C++ compiler.

    DeepSpeed compiles its operations (CPU Adam, async I/O) at their first use: without a compiler this rank ends, and
    the others wait for it.
    Fix: install g++ (and the CUDA toolkit's nvcc for GPU operations) on the nodes named, or run in a devel image.
    """
    if "deepspeed" not in node.software.packages:
        raise NotApplicable("deepspeed is not installed")
    found = node.machine.compilers
    assert {"c++", "g++", "clang"} & set(found), "deepspeed is installed, but PATH has none of c++, g++ and clang"
