"""Is a node ready to give its GPUs to a job: a driver that fits torch, its Fabric Manager, and no other programs?"""

from __future__ import annotations

from collections.abc import Sequence

from preflight.facts.node import NodeFacts
from preflight.facts.subjects.gpu import Gpu
from preflight.facts.subjects.gpus.engine import Engine, Group
from preflight.facts.value import present
from preflight.judge.tables.faults import MOST_BOARDS, Fault
from preflight.said import joined, said
from preflight.said.errors import FactMissing, NotApplicable

NOT_OURS = "wait for them to end, or end them: `ray list actors --filter state=ALIVE` and `ray list tasks` name them"


def driver_runs(*, cuda_of_driver: str, cuda_of_torch: str) -> bool:
    """Whether a driver runs programs of a CUDA version: since CUDA 11 any of the same major version, or older."""
    driver, torch = _version(cuda_of_driver), _version(cuda_of_torch)
    return torch[0] <= driver[0] if driver[0] >= 11 else torch <= driver


def _version(text: str) -> tuple[int, ...]:
    parts = text.split(".")[:2]
    if not all(part.isdecimal() for part in parts):
        raise FactMissing("version of CUDA", said("{text!r} is no version", text))
    return tuple(map(int, parts))


def _driver(node: NodeFacts) -> str:
    if not node.gpu.readable():
        raise NotApplicable("no GPU")
    wanted, most = node.software.library_of_torch("torch_cuda"), present(node.gpu.cuda_driver, "CUDA of the driver")
    if wanted == "none" or driver_runs(cuda_of_driver=most, cuda_of_torch=wanted):
        return ""
    driver = present(node.gpu.driver, "driver")
    return said("torch is built for CUDA {wanted}; driver {driver} runs CUDA {most} at most", wanted, driver, most)


def _fabric_manager(node: NodeFacts) -> str:
    if not node.gpu.switches:
        raise NotApplicable("no NVSwitch")
    if node.gpu.is_joined() or present(node.gpu.fabric_manager, "Fabric Manager"):
        return ""
    return said("{switches} NVSwitches, and nvidia-fabricmanager does not run", node.gpu.switches)


def _which(gpus: Sequence[Gpu]) -> str:
    """The driver's numbers of GPUs, of a few with their PCI addresses: numbers move when a GPU falls off the bus."""
    names = [f"{gpu.index} ({gpu.board})" if gpu.board and len(gpus) <= MOST_BOARDS else str(gpu.index) for gpu in gpus]
    return ", ".join(names)


def _busy(node: NodeFacts) -> str:
    if not node.gpu.readable():
        raise NotApplicable("no GPU")
    busy = _which([gpu for gpu in node.gpu.readable() if gpu.is_busy()])
    held = _which([gpu for gpu in node.gpu.readable() if not gpu.is_busy() and gpu.is_filled()])
    words = [said("other programs use GPU {busy}", busy)] if busy else []
    words += [said("memory of GPU {held} is held by programs that cannot be seen from here", held)] if held else []
    return joined(words)


def _counting(node: NodeFacts) -> Engine:
    try:
        engine = node.engine
    except FactMissing as missing:
        if missing.kind != "absent":
            raise
        raise NotApplicable("no engine counts its GPUs") from None
    if not engine.gpus:
        raise NotApplicable(said("{name} counts no GPU", engine.name))
    return engine


def _reserved(node: NodeFacts) -> str:
    engine = _counting(node)
    others = [group for group in present(engine.groups, "placement groups") if not group.is_own]
    which = joined((_called(group) for group in others), ", ")
    gpus = sum(group.gpus for group in others)
    if not others:
        return ""
    return said(
        "{engine} reserved {gpus:g} of {all_gpus:g} GPUs: placement group {which}",
        engine.name,
        gpus,
        engine.gpus,
        which,
    )


def _called(group: Group) -> str:
    if not group.name:
        return said("{id} ({state}, job {job})", group.id, group.state, group.job)
    return said("{name} ({id}, {state}, job {job})", group.name, group.id, group.state, group.job)


def _given(node: NodeFacts) -> str:
    engine = _counting(node)
    taken = present(engine.taken, "GPUs that are taken")
    rest = round(taken - sum(group.gpus for group in present(engine.groups, "placement groups")), 4)
    if rest <= 0:
        return ""
    return said(
        "{engine} gave {gpus:g} of {all_gpus:g} GPUs to actors or tasks outside of placement groups",
        engine.name,
        rest,
        engine.gpus,
    )


# Rows about a node as a whole; an empty fix is the check's own.
DRIVER = (Fault("driver", _driver, "", "CUDA Compatibility: minor version compatibility; NVIDIA/nccl-tests#98"),)
FABRIC = (Fault("Fabric Manager", _fabric_manager, "", "NVIDIA/nccl-tests#264"),)
RESERVED = (
    Fault("placement groups", _reserved, "", "ray.util.placement_group_table"),
    Fault("actors and tasks", _given, NOT_OURS, "ray.available_resources"),
)
BUSY = (Fault("other programs", _busy, "", "nvidia-smi --query-compute-apps"),)
