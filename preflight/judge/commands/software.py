"""Which commands give a node's interpreter the others' packages?"""

from __future__ import annotations

import re
import shlex

from preflight.facts.node import NodeFacts
from preflight.facts.value import Missing, or_none
from preflight.judge.commands.words import (
    Case,
    Remedy,
    Row,
    counted,
    exported,
    of_the_others,
    one_of_the_others,
    sudo,
    unset,
    wanted_here,
)
from preflight.judge.tables import packages
from preflight.judge.tables.gpus import readiness
from preflight.knowledge.versions import is_within
from preflight.said import said, values_in
from preflight.said.errors import FactMissing

INDEX = "https://download.pytorch.org/whl"
# The CUDA versions that torch has wheels for, the newest first: https://pytorch.org/get-started/previous-versions/
WHEELS_OF_CUDA = ("13.0", "12.9", "12.8", "12.6", "12.4", "12.1", "11.8")
# An index keeps torch by its public version; what follows the plus sign says the build.
PUBLIC = re.compile(r"[0-9A-Za-z.!-]+")
# What pip takes for a package and its version, and not for an option, an address or a file.
EXACTLY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+_-]+")


NEW_ENVIRONMENT = "venv"  # in the home of the job's user


def pip(node: NodeFacts, *words: str) -> Remedy:
    """pip of the job's own interpreter, as the node's facts name it.

    Where the system manages that one, pip refuses: what has torch already was made in spite of it and is kept so; for
    the rest there is an environment of its own.
    """
    if any("==" in word and not EXACTLY.fullmatch(word) for word in words):
        raise FactMissing("package", f"{' '.join(words)[:80]} is no version of one")
    python = node.software.executable
    if not node.software.keeps_pip_out or isinstance(node.software.torch, str):
        return Remedy(shlex.join([*_pip(node, "install"), *words]))
    home = next((place.path for place in node.files.places if place.purpose == "home"), "")
    folder = f"{home.rstrip('/')}/{NEW_ENVIRONMENT}"
    new = f"{folder}/bin/python3"
    made = shlex.join([python, "-m", "venv", folder])
    return Remedy(
        f"{made} && {shlex.join([new, '-m', 'pip', 'install', *words])}",
        said("# the system manages {quote}; run again with --python={quote2}", shlex.quote(python), shlex.quote(new)),
    )


def _pip(node: NodeFacts, verb: str) -> list[str]:
    allowed = ["--break-system-packages"] if node.software.keeps_pip_out else []
    return [node.software.executable, "-m", "pip", verb, *allowed]


def _index(node: NodeFacts) -> list[str]:
    """Where the torch of a node comes from, by the CUDA or ROCm that it was built for."""
    cuda = or_none(node.software.torch_cuda, "CUDA of torch")
    hip = or_none(node.software.torch_hip, "ROCm of torch")
    tag = "cpu"
    if cuda != "none":
        tag = f"cu{''.join(cuda.split('.')[:2])}"
    elif hip != "none":
        tag = f"rocm{'.'.join(hip.split('.')[:2])}"
    return ["--index-url", f"{INDEX}/{tag}"]


def _model(case: Case) -> NodeFacts:
    """A node with the torch that most of the others have."""

    def torch(node: NodeFacts) -> tuple[str, object]:
        return node.software.torch_version, or_none(node.software.torch_cuda, "CUDA of torch")

    wanted = of_the_others(case, torch, "torch of the others")
    return one_of_the_others(case, torch, wanted, "torch")


def _torch(case: Case) -> Remedy:
    """The others' torch from the others' index."""
    model = _model(case)
    version = model.software.torch_version.partition("+")[0]
    if not PUBLIC.fullmatch(version):
        raise FactMissing("torch", f"{version} is in no index")
    return pip(case.node, "--force-reinstall", f"torch=={version}", *_index(model))


def _missing_torch(case: Case) -> Remedy:
    """The others' torch for the job's own interpreter, where no other one of the node has it."""
    if case.node.software.torch_elsewhere:
        raise FactMissing("torch", "another interpreter has it: --python names that one")
    try:
        return _torch(case)
    except FactMissing:
        return pip(case.node, "torch")


def _library(name: str) -> Row:
    """cuDNN or NCCL, in the version of the others, as the package of their torch's CUDA."""

    def row(case: Case) -> Remedy:
        def held(node: NodeFacts) -> tuple[str, str]:
            found = {
                package: version
                for package, version in node.software.packages.items()
                if package.startswith(f"nvidia-{name}-cu")
            }
            if not found:
                raise FactMissing(name, "it came by no package", "absent")
            return max(found.items())

        try:
            package, version = wanted_here(case, held, f"{name} of the others")
        except FactMissing:
            return _torch(case)
        return pip(case.node, f"{package}=={version}")

    return row


def _companion(case: Case) -> Remedy:
    """The package that differs, as most others have it."""
    package = case.value("about")
    if not counted(case, lambda node: package in node.software.packages, f"whether there is {package}")[True]:
        raise FactMissing(package, "it is no package")
    wanted = wanted_here(case, lambda node: node.software.packages.get(package, ""), f"{package} of the others")
    if not wanted:
        return Remedy(shlex.join([*_pip(case.node, "uninstall"), "-y", package]))
    return pip(case.node, f"{package}=={wanted}")


def _environment(case: Case) -> Remedy:
    """Every package that most of the others have in another version."""
    held = wanted_here(case, lambda node: tuple(sorted(node.software.packages.items())), "packages of the others")
    own = case.node.software.packages
    skipped = packages.TOOLS.union({"torch"})
    wanted = [f"{name}=={version}" for name, version in held if own.get(name) != version and name not in skipped]
    changed = [exact for exact in wanted if EXACTLY.fullmatch(exact)]
    extra = sorted(name for name in set(own) - dict(held).keys() - skipped if EXACTLY.fullmatch(f"{name}==0"))
    commands = [shlex.join([*_pip(case.node, "install"), *changed])] if changed else []
    commands += [shlex.join([*_pip(case.node, "uninstall"), "-y", *extra])] if extra else []
    if not commands:
        raise FactMissing("packages", "they do not differ")
    return Remedy(" && ".join(commands))


def _pair(case: Case) -> Remedy:
    """The first package of each pair, beyond the versions that break."""
    wanted = []
    for pair in packages.bad_pairs(case.node.software):
        package = pair.package if pair.package != "nccl" else _nccl_package(case.node)
        bounds = [part.strip() for part in pair.versions.split(",")]
        wanted += [f"{package}>={part.lstrip('<=')}" for part in bounds if part.startswith("<")]
    if not wanted:
        raise FactMissing("packages", "which version works is not known")
    return pip(case.node, *dict.fromkeys(wanted))


def _nccl_package(node: NodeFacts) -> str:
    return max(
        (name for name in node.software.packages if name.startswith("nvidia-nccl-cu")), default="nvidia-nccl-cu12"
    )


def _unmet(case: Case) -> Remedy:
    """What is required, of what is installed in another version."""
    held = packages.installed(case.node.software)
    wanted = [
        f"{name}{versions}"
        for package, requirements in case.node.software.requirements.items()
        for name, versions in requirements.items()
        if package in held and held.get(name) and not is_within(held[name], versions)
    ]
    if not wanted:
        raise FactMissing("requirements", "all are met")
    return pip(case.node, *dict.fromkeys(wanted))


def _one_nccl(case: Case) -> Remedy:
    """Without the folders and the library that hold another one."""
    software = case.node.software
    if software.nccl_preloaded:
        kept = [word for word in case.node.value("LD_PRELOAD").replace(":", " ").split() if "libnccl" not in word]
        return exported(LD_PRELOAD=":".join(kept)) if kept else unset("LD_PRELOAD")
    wheels = packages.nccl_wheels(software)
    own = f"nvidia-nccl-cu{or_none(software.torch_cuda, '').partition('.')[0]}"
    if len(set(wheels.values())) > 1 and own in wheels:
        return pip(case.node, "--force-reinstall", "--no-deps", f"{own}=={wheels[own]}")
    folders = [folder for folder in case.node.value("LD_LIBRARY_PATH").split(":") if folder]
    others = [path for path, version in software.nccl_copies.items() if version not in ("", or_none(software.nccl, ""))]
    kept = [folder for folder in folders if not any(path.startswith(f"{folder.rstrip('/')}/") for path in others)]
    if kept == folders:
        raise FactMissing("copy of NCCL", "no variable leads to it")
    return exported(LD_LIBRARY_PATH=":".join(kept)) if kept else unset("LD_LIBRARY_PATH")


def _compiler(case: Case) -> Remedy:
    root = sudo(case.node)
    tools = {"apt-get": "g++", "dnf": "gcc-c++", "zypper": "gcc-c++"}
    ways = [f"command -v {tool} >/dev/null && {root}{tool} install -y {name}" for tool, name in tools.items()]
    return Remedy(" || ".join(ways))


def _older_cuda(case: Case) -> Remedy:
    """torch for the newest CUDA that the driver of the node runs and that it has wheels for."""
    most = case.node.gpu.cuda_driver
    if isinstance(most, Missing):
        raise FactMissing("CUDA of the driver", most.missing)
    for cuda in WHEELS_OF_CUDA:
        if readiness.driver_runs(cuda_of_driver=most, cuda_of_torch=cuda):
            return pip(case.node, "--force-reinstall", "torch", "--index-url", f"{INDEX}/cu{cuda.replace('.', '')}")
    raise FactMissing("torch", f"none is built for CUDA {most}")


def _fitting_cuda(case: Case) -> Remedy:
    """torch for a CUDA that has code for the GPU, and that the driver of the node runs where that is known."""
    wanted = list(values_in(case.sentence, "wanted"))
    if not wanted:
        raise FactMissing("CUDA", "which one has code for the GPU is not known")
    most = case.node.gpu.cuda_driver
    for cuda in WHEELS_OF_CUDA:
        runs = isinstance(most, Missing) or readiness.driver_runs(cuda_of_driver=most, cuda_of_torch=cuda)
        if runs and all(is_within(cuda, one) for one in wanted):
            return pip(case.node, "--force-reinstall", "torch", "--index-url", f"{INDEX}/cu{cuda.replace('.', '')}")
    raise FactMissing("torch", "none has code for the GPU and runs with the driver")


VERSIONS = "software.versions_are_the_same_on_every_node"
ROWS: dict[str, Row] = {
    "software.torch_is_installed": _missing_torch,
    f"{VERSIONS}: torch": _torch,
    f"{VERSIONS}: CUDA runtime of torch": _torch,
    f"{VERSIONS}: ROCm of torch": _torch,
    f"{VERSIONS}: cuDNN": _library("cudnn"),
    f"{VERSIONS}: NCCL": _library("nccl"),
    "bench.every_rank_maps_the_same_nccl": _library("nccl"),
    "software.companions_are_the_same_on_every_node": _companion,
    "software.environments_are_the_same_on_every_node": _environment,
    "software.no_versions_break_together": _pair,
    "software.packages_meet_each_others_requirements": _unmet,
    "software.one_nccl_can_be_met": _one_nccl,
    "software.a_compiler_is_there_for_deepspeed": _compiler,
    "software.torch_is_built_for_the_gpus": _older_cuda,
    "gpu.driver_runs_the_cuda_of_torch": _older_cuda,
    "gpu.torch_has_code_for_them": _fitting_cuda,
}
