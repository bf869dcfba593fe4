"""How is a twin put under the hosts of a lab, so that a whole run over ssh finds it there?

The host's own interface takes the place of the platform's first one, whose network the lab's can stand for; the others
are there as the platform has them, and lead nowhere.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.lab.host import LabHost
from tests.lab.lab import Lab
from tests.lab.network import ip, port_name

from . import node
from .folder import INTERPRETER, Folder
from .platform import Platform


def lay(lab: Lab, platform: Platform) -> list[Folder]:
    """Every host of the lab becomes a node of the platform."""
    folders = node.make(platform, len(lab.hosts), lab.shared / platform.name)
    for host, folder in zip(lab.hosts, folders, strict=True):
        answers = folder.answers()
        _wire(host, answers)
        links = host.interfaces()
        for nic in answers["interfaces"]:
            folder.path(f"sys/class/net/{nic['name']}/ifindex").write_text(f"{links[nic['name']]['ifindex']}\n")
        host.check(["hostname", answers["hostname"]])
        host.check(["mount", "-o", f"remount,size={answers['shared_memory_bytes']}", "/dev/shm"])
        host.change([["lay", str(folder.root)]])
        host.restart_sshd(answers["environment"])
    return folders


def _wire(host: LabHost, answers: dict[str, Any]) -> None:
    first, *others = answers["interfaces"]
    name, port = first["name"], port_name(host.name, "eth0")
    address = f"{host.address}/24"
    lines = ["link set eth0 down", f"link set eth0 name {name}"] if name != "eth0" else []
    further = [other for other in first["addresses"] if other != address]
    lines += [f"link set {name} mtu {first['mtu']}", f"link set {name} up"]
    lines += [f"addr add {each} dev {name}{' nodad' * (':' in each)}" for each in further]
    ip(host.switch, [f"link set {port} mtu {first['mtu']}"])
    ip(host.space, lines)
    for number, nic in enumerate(others):
        end = f"{host.name}.{number}"
        peer = f"type veth peer name {nic['name']} netns {host.pid}"
        ip(
            host.switch,
            [f"link add name {end} {peer}", f"link set {end} mtu {max(nic['mtu'], 1500)}", f"link set {end} up"],
        )
        lines = [f"link set {nic['name']} mtu {nic['mtu']}"]
        lines += [f"addr add {each} dev {nic['name']}{' nodad' * (':' in each)}" for each in nic["addresses"]]
        ip(host.space, [*lines, *([f"link set {nic['name']} up"] if nic["is_up"] else [])])


def run(lab: Lab, report: Path, *words: str, timeout_s: float = 120) -> tuple[int, dict[str, Any], str]:
    """`pytest --hosts=...` of what reads facts and connects: its exit code, its report, and what it printed."""
    argv = [
        sys.executable,
        "-m",
        "pytest",
        f"--hosts={lab.names}",
        f"--python={INTERPRETER}",
        "--preflight-profile=quick",
    ]
    argv += ["--color=no", "-p", "no:hypothesispytest", f"--report-dir={report}", *words]
    done = lab.run(argv, timeout_s=timeout_s)
    output = done.stdout + done.stderr
    file = report / "report.json"
    assert file.exists(), output
    return done.returncode, json.loads(file.read_text()), output
