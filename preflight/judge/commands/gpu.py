"""Which commands put GPUs, their driver and their bridges right?"""

from __future__ import annotations

import re
from collections.abc import Callable

from preflight.facts.node import NodeFacts
from preflight.facts.subjects.gpu import Gpu
from preflight.facts.value import Missing, present
from preflight.judge.commands.words import Case, Remedy, Row, as_root, unset, wanted_here
from preflight.judge.tables import visible
from preflight.knowledge import xids
from preflight.said.errors import FactMissing

PCI = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")
XID_PCI = re.compile(r"(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?")
PERSISTENT = ("systemctl", "enable", "--now", "nvidia-persistenced")


def _indexes(case: Case) -> list[str]:
    """The GPUs that show the fault; those of the node where it is the node's."""
    try:
        return list(case.value("things"))
    except FactMissing:
        return [str(gpu.index) for gpu in case.node.gpu.readable()]


def _each(*words: str, lasting: str = "") -> Row:
    """nvidia-smi for each GPU named."""

    def row(case: Case) -> Remedy:
        return Remedy(as_root(case.node, "nvidia-smi", "-i", ",".join(_indexes(case)), *words), lasting)

    return row


RESET = _each("--gpu-reset", lasting="# end all programs on the GPU before; where it refuses, reboot")


def _service(name: str) -> Row:
    def row(case: Case) -> Remedy:
        now = as_root(case.node, "systemctl", "start", name)
        return Remedy(now, as_root(case.node, "systemctl", "enable", name))

    return row


def _reboot(case: Case) -> Remedy:
    return Remedy(as_root(case.node, "systemctl", "reboot"))


def _recovery(case: Case) -> Remedy:
    """What the driver itself asks for."""
    asked: dict[str, Row] = {"Reset": RESET, "Reboot": _reboot}
    action = case.value("action")
    if action not in asked:
        raise FactMissing("command", f"none does what the driver calls {action}")
    return asked[action](case)


def _reload(case: Case) -> Remedy:
    """The driver that was updated under a kernel that still runs the old one."""
    drop = as_root(case.node, "modprobe", "-r", "nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia")
    return Remedy(f"{drop} && {as_root(case.node, 'modprobe', 'nvidia')}", "# where it is in use: reboot")


def _load(case: Case) -> Remedy:
    if case.node.gpu.readable():
        raise FactMissing("driver", "it runs, and one GPU is gone")
    return Remedy(as_root(case.node, "modprobe", "nvidia"))


def _visible(case: Case) -> Remedy:
    name, _ = visible.choice(case.node)
    return unset(*[name] * bool(name))


def _whole(case: Case) -> Remedy:
    """All of the GPUs that are split, where the others' are not."""
    split = [str(gpu.index) for gpu in case.node.gpu.readable() if gpu.is_partitioned]
    if not split:
        raise FactMissing("MIG mode", "no GPU is split")
    now = as_root(case.node, "nvidia-smi", "-i", ",".join(split), "-mig", "0")
    return Remedy(now, "# then nvidia-smi --gpu-reset, where it says that the mode is pending")


def _power(case: Case) -> Remedy:
    """The default of each GPU named, as its driver tells it."""
    return _limits(
        case, _indexes(case), lambda gpu: present(gpu.status.power_default_watts, "default power limit of a GPU")
    )


def _limits(case: Case, indexes: list[str], watts: Callable[[Gpu], float]) -> Remedy:
    wanted: dict[float, list[str]] = {}
    for gpu in case.node.gpu.readable():
        if str(gpu.index) in indexes:
            wanted.setdefault(watts(gpu), []).append(str(gpu.index))
    if not wanted:
        raise FactMissing("power limit", "no such GPU")
    commands = [
        as_root(case.node, "nvidia-smi", "-i", ",".join(of), "-pl", f"{limit:g}") for limit, of in wanted.items()
    ]
    return Remedy(" && ".join(commands), "# lost at a reboot: the same line in a unit that runs at boot")


def _same_power(case: Case) -> Remedy:
    def limits(node: NodeFacts) -> tuple[float, ...]:
        held = {present(gpu.status.power_limit_watts, "power limit") for gpu in node.gpu.readable()}
        return tuple(sorted(held))

    wanted = wanted_here(case, limits, "power limit of the others")
    if len(wanted) != 1:
        raise FactMissing("power limit", "the others have several")
    return _limits(case, [str(gpu.index) for gpu in case.node.gpu.readable()], lambda _: wanted[0])


def _all_have(node: NodeFacts, field: str) -> bool:
    held = {present(getattr(gpu.status, field), field) for gpu in node.gpu.readable()}
    if len(held) != 1:
        raise FactMissing(field, "the node's GPUs differ")
    return bool(held.pop())


def _persistence(case: Case) -> Remedy:
    """Turn it on, whatever the others have: without it every start waits for the driver."""
    now = as_root(case.node, "nvidia-smi", "-pm", "1")
    return Remedy(now, as_root(case.node, *PERSISTENT))


def _ecc(case: Case) -> Remedy:
    is_on = wanted_here(case, lambda node: _all_have(node, "has_ecc"), "ECC of the others")
    return Remedy(as_root(case.node, "nvidia-smi", "-e", str(int(is_on))), "# then reboot")


def _logged(case: Case) -> Remedy:
    """A reset of the GPUs that the kernel's log names."""
    events = [*case.node.kernel.events("xid", within_seconds=24 * 3600.0)]
    devices = dict.fromkeys(event.device for event in events if xids.is_fatal(event))
    named = [f"{device}{'.0' * ('.' not in device)}" for device in devices if XID_PCI.fullmatch(device)]
    if not named:
        raise FactMissing("GPU", "the log names none")
    return Remedy(
        " && ".join(as_root(case.node, "nvidia-smi", "-i", device, "--gpu-reset") for device in named),
        "# end all programs on the GPU before; where it refuses, reboot",
    )


def _acs(case: Case) -> Remedy:
    bridges: list[str] = []
    for gpu in case.node.gpu.readable():
        if not isinstance(gpu.pci, Missing):
            bridges += present(gpu.pci.redirecting_bridges, "ACS of the bridges")
    found = [bridge for bridge in dict.fromkeys(bridges) if PCI.fullmatch(bridge)]
    if not found:
        raise FactMissing("bridges", "none is known")
    commands = [as_root(case.node, "setpci", "-s", bridge, "ECAP_ACS+0x6.w=0000") for bridge in found]
    return Remedy(" && ".join(commands), "# lost at a reboot: switch ACS off in the BIOS, or run it at boot")


def _users(case: Case) -> Remedy:
    query = "--query-compute-apps=pid,name,used_memory"
    return Remedy(as_root(case.node, "nvidia-smi", query, "--format=csv"), "# end what it lists, if nobody needs it")


BROKEN, SLOWED = "gpu.none_is_broken", "gpu.none_is_held_back"
IMEX = "gpu.imex_joins_an_nvlink_domain"
SAME = "gpu.settings_are_the_same_on_every_node"
ROWS: dict[str, Row] = {
    "gpu.devices_are_readable": _reload,
    "gpu.every_gpu_on_the_bus_is_listed": _load,
    "gpu.visible_devices_exist": _visible,
    "gpu.count_is_the_same_on_every_node: number of GPUs that the job sees": _visible,
    "gpu.model_is_the_same_on_every_node": _whole,
    "gpu.none_is_partitioned": _whole,
    f"{BROKEN}: uncorrected memory errors": RESET,
    f"{BROKEN}: pending remapping of memory rows": RESET,
    f"{BROKEN}: pending retirement of memory pages": RESET,
    f"{BROKEN}: request for a reset": RESET,
    f"{BROKEN}: recovery action": _recovery,
    f"{BROKEN}: NVLink fabric": _service("nvidia-fabricmanager"),
    f"{BROKEN}: health of the NVLink fabric": RESET,
    f"{BROKEN}: compute mode": _each("-c", "0"),
    f"{SLOWED}: exclusive compute mode": _each("-c", "0"),
    f"{SLOWED}: power limit": _power,
    f"{SLOWED}: ECC": _reboot,
    f"{SLOWED}: MIG": RESET,
    f"{SLOWED}: repair of memory": RESET,
    f"{SAME}: power limit": _same_power,
    f"{SAME}: persistence mode": _persistence,
    f"{SAME}: ECC": _ecc,
    "gpu.fabric_manager_runs_where_it_is_needed": _service("nvidia-fabricmanager"),
    "gpu.nvlinks_are_up": RESET,
    f"{IMEX}: daemon of IMEX": _service("nvidia-imex"),
    f"{IMEX}: channel of IMEX": lambda case: Remedy(as_root(case.node, "nvidia-modprobe", "-c", "0")),
    f"{IMEX}: state of IMEX": lambda case: Remedy(as_root(case.node, "systemctl", "restart", "nvidia-imex")),
    "gpu.kernel_log_tells_of_no_broken_gpu": _logged,
    "gpu.acs_leaves_peer_to_peer_alone": _acs,
    "gpu.no_other_program_uses_them": _users,
}
