"""Which facts of a node must be unchanged for earlier measurements to hold?

Everything counts except the facts listed here as moving by themselves: a new fact counts until it is listed.
Listed facts are still judged again in every run; they just do not invalidate a measurement.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from preflight.facts.decode import Document
from preflight.judge.tables.rdma.counters import ERROR_COUNTERS

# Paths of facts; "*" is every key or element.
MOVING = (
    "clock",  # compared with a tolerance
    "ending",  # read after the jobs
    "ports",
    "environment.shells_unread",
    "kernel.memory_available_bytes",
    "kernel.swap_used_bytes",
    "kernel.files_held",
    "kernel.connections_held",
    "kernel.cgroup_processes_held",
    "kernel.log.*.age_seconds",
    "limits.shm_free_bytes",
    "limits.leftovers",
    "limits.held",
    "peers.routes.*.reverse_seconds",
    "peers.routes.*.accepted_seconds",
    "peers.routes.*.card",  # the neighbour is known from the first packet on
    "peers.routes.*.is_written",
    "peers.routes.*.mtu",
    "peers.master_port_error",
    "peers.master_port_holder",
    "files.places.*.free_bytes",
    "files.places.*.free_inodes",
    "files.caches",
    "files.shared.*.writer",
    "files.shared.*.seconds",
    "files.shared.*.write_mbytes_per_s",
    "files.shared.*.leftovers",
    "trust.logins.*.seconds",
    "vendor.*",
    "engine",  # what is reserved, as the programs that use a GPU
    # What a GPU does when it idles, and who uses it.
    "gpu.devices.*.processes",
    "gpu.devices.*.pci.speed",
    "gpu.devices.*.link_errors",
    "gpu.devices.*.status.slowdowns",
    "gpu.devices.*.status.performance_state",
    "gpu.devices.*.status.pcie_generation",
    "gpu.devices.*.status.memory_used_mib",
    "gpu.devices.*.status.temperature_celsius",
    "gpu.devices.*.status.memory_celsius",
    "gpu.counted",
)
# Interfaces that come and go with containers and virtual machines; jobs of the host use none of them.
OF_CONTAINERS = ("veth", "cali", "lxc", "cilium", "vnet", "tap")
OF_ANOTHER_JOB = "SLURM_"  # variables that are new with each allocation
COUNTED = frozenset((*ERROR_COUNTERS, "link_downed"))
NAMES = ("name", "path", "number", "index", "peer")  # the key that names an element of a list
Tree = dict[str, Any]


def fingerprint(document: Document) -> dict[str, str]:
    """``subject.field`` -> digest of its value, of all that counts; counters as they stood after the jobs."""
    return {key: _digest(value) for key, value in fields(document).items()}


def fields(document: Document) -> dict[str, Any]:
    """``subject.field`` -> its value, without what moves by itself."""
    found = {
        f"{subject}.{name}": value
        for subject, facts in _without_moving(_as_it_ended(document.subjects), _moving()).items()
        for name, value in facts.items()
    }
    found["address"] = document.address
    reasons = {name: [reason.missing, reason.kind] for name, reason in document.missing.items() if name != "ending"}
    return {**found, "missing": reasons}


def leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every single fact below a field, as a path and its value in words."""
    if isinstance(value, dict) and set(value) != {"missing", "kind"}:
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}")
    elif isinstance(value, (list, tuple)) and any(isinstance(inner, dict) for inner in value):
        for place, inner in enumerate(value):
            yield from leaves(inner, f"{path}.{_called(inner, place)}")
    else:
        yield path, value if isinstance(value, str) else json.dumps(value)


def _called(element: Any, place: int) -> str:
    named = element if isinstance(element, dict) else {}
    names = ("index",) if "uuid" in named else NAMES  # the name of a GPU is that of its model
    return str(next((named[key] for key in names if key in named), place))


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=msgspec.to_builtins)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


@cache
def _moving() -> Tree:
    """The paths as a tree; a leaf is an empty one."""
    tree: Tree = {}
    for path in MOVING:
        place = tree
        for word in path.split("."):
            place = place.setdefault(word, {})
    return tree


def _without_moving(value: Any, moving: Tree) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_moving(inner, tree) if (tree := moving.get(key, moving.get("*"))) else inner
            for key, inner in value.items()
            if moving.get(key) != {}
        }
    if isinstance(value, (list, tuple)):
        return [_without_moving(inner, moving.get("*", {})) for inner in value]
    return value


def _as_it_ended(subjects: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The subjects with the counters that the jobs left behind: those alone may have moved by our own doing."""
    found: dict[str, dict[str, Any]] = dict(subjects)
    ending: dict[str, Any] = subjects.get("ending", {})
    if "kernel" in found:
        later: dict[str, Any] = {name: ending[name] for name in ("oom_kills", "link_errors") if name in ending}
        kernel: dict[str, Any] = {**found["kernel"], **later}
        errors: dict[str, int] = kernel.get("link_errors", {})
        found["kernel"] = {
            **kernel,
            "link_errors": {name: errors[name] for name in errors if not _comes_and_goes(name)},
        }
    if "rdma" in found:
        found["rdma"] = {**found["rdma"], "devices": _counted_devices(found["rdma"], ending.get("ports", {}))}
    if "network" in found:
        lasting = [one for one in found["network"].get("interfaces", ()) if not _comes_and_goes(one["name"])]
        found["network"] = {**found["network"], "interfaces": lasting}
    if "environment" in found:
        variables = found["environment"].get("variables", {})
        own = {name: value for name, value in variables.items() if not name.startswith(OF_ANOTHER_JOB)}
        found["environment"] = {**found["environment"], "variables": own}
    return found


def _comes_and_goes(interface: str) -> bool:
    return interface == "lo" or interface.startswith(OF_CONTAINERS)


def _counted_devices(rdma: Mapping[str, Any], ending: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The adapters with those counters of their ports that count errors and lost links."""
    devices = []
    for device in rdma.get("devices", ()):
        ports = []
        for port in device["ports"]:
            end = ending.get(f"{device['name']}:{port['number']}", {})
            counters = {**port["counters"], **end.get("counters", {})}
            ports.append({**port, "counters": {name: counters[name] for name in counters if name in COUNTED}})
        devices.append({**device, "ports": ports})
    return devices
