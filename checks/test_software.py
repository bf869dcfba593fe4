"""Does every node run the job with the same software?"""

import pytest

# What is compared, how a node tells it, how to mend it, and whose consequence a difference is: CUDA, cuDNN and NCCL
# come with torch. A row in HARD stops a job or makes it wrong; one in SOFT is fragile.
HARD = (
    (
        "Python",
        lambda node: node.software.python_minor,
        "use one Python on every node: `--python PATH`, or make the environment anew on the nodes named",
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
PACKAGES = ("accelerate", "deepspeed", "transformers")
SOFT = (
    (
        "Python",
        lambda node: node.software.python,
        "use one Python on every node: `--python PATH`, or make the environment anew on the nodes named",
        "",
    ),
    (
        "C library",
        lambda node: node.software.libc,
        "run the job in the same container image or distribution on every node",
        "",
    ),
    *(
        (
            package,
            lambda node, package=package: node.software.packages.get(package, "none"),
            f"`pip install {package}==<the others' version>` on the nodes named",
            "",
        )
        for package in PACKAGES
    ),
)


def test_torch_is_installed(node):
    """The job's interpreter has torch on every node.

    A rank without torch ends at its first import, and all the others wait for it until the start times out.
    Fix: `<python> -m pip install torch` on the nodes named, or name the right interpreter with --python.
    """
    software = node.software
    assert software.has_torch(), f"torch is not installed for {software.executable}"


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
    """Python to the last digit, the C library, accelerate, deepspeed and transformers are the same on every node.

    Most jobs run in spite of such a difference, until an option, a default or a checkpoint format has changed.
    Fix: make the environments equal, best from one lock file or one container image.
    """
    cluster.needs_peers()
    cluster.same_rows(SOFT)
