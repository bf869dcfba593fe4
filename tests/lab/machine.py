"""What does a lab host look like from inside: its files, its private directories, what it sees of the machine?"""

import os
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import sshd
from .network import SUBNET
from .spaces import ENVIRONMENT

HOST_NAMESPACES = ("net", "mount", "uts", "ipc", "pid")
CONTROLLER_NAMESPACES = ("net", "mount", "uts")
SWITCH_NAMESPACES = ("net",)
PRIVATE = (("/tmp", "1777"), ("/var/tmp", "1777"), ("/dev/shm", "1777"), ("/run", "755"), (ENVIRONMENT["HOME"], "700"))
CONTROLLER_ADDRESS = f"{SUBNET}.254"
LOCALHOST = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"

Files = dict[str, tuple[str, int]]


def switch_spec(*, forever: bool) -> dict[str, Any]:
    """The switch is a network namespace and nothing else."""
    return {"hostname": "switch", "settle": False, "forever": forever}


def controller_spec(directory: Path, files: Files, *, forever: bool) -> dict[str, Any]:
    """The controller is the machine with another network, other names and another ssh configuration."""
    own_ssh = Path(ENVIRONMENT["HOME"], ".ssh")
    private = [(str(own_ssh), "700")] if own_ssh.is_dir() else []
    return _spec(directory, "controller", files, private=private, visible=[], shared=[], forever=forever)


def host_spec(directory: Path, name: str, files: Files, *, forever: bool) -> dict[str, Any]:
    """A host shares the machine's disks, read-only; the Python that runs the lab is visible wherever it lies."""
    private = [(path, mode) for path, mode in PRIVATE if os.path.isdir(path)]
    pythons = {os.path.realpath(prefix) for prefix in (sys.prefix, sys.base_prefix)}
    visible = [path for path in sorted(pythons) if any(path.startswith(f"{hidden}/") for hidden, _ in private)]
    shared = [str(directory / "shared")]
    return _spec(directory, name, files, private=private, visible=visible, shared=shared, forever=forever)


def _spec(directory: Path, name: str, files: Files, *, private: list[tuple[str, str]], **more: Any) -> dict[str, Any]:
    return {
        "settle": True,
        "own_pids": name != "controller",
        "hostname": name,
        "tag": directory.name,
        "scratch": str(directory / "private"),
        "private": private,
        "files": files,
        **more,
    }


def common_files(scratch: str, addresses: Mapping[str, str], client_key: str, host_keys: Mapping[str, str]) -> Files:
    """What the controller and every host have: the names of all hosts and a way in. No name server answers here.

    With one that does not answer, every reverse look-up of torch's rendezvous would cost seconds.
    """
    everyone = {**addresses, "controller": CONTROLLER_ADDRESS}
    names = "".join(f"{address} {name}\n" for name, address in everyone.items())
    return {
        "/etc/hosts": (LOCALHOST + names, 0o644),
        "/etc/resolv.conf": ("", 0o644),
        sshd.CLIENT_CONFIG: (sshd.client_config(addresses, scratch=scratch), 0o644),
        f"{scratch}/key": (client_key, 0o600),
        f"{scratch}/known_hosts": (sshd.known_hosts(host_keys, addresses), 0o644),
    }


def own_files(scratch: str, name: str, host_key: str, authorized_key: str) -> Files:
    """What one host has for itself; its ids, because by them one machine under two names is found out."""
    return {
        "/etc/hostname": (f"{name}\n", 0o644),
        "/etc/machine-id": (f"{uuid.uuid4().hex}\n", 0o444),
        "/etc/shadow": (sshd.unlocked(Path("/etc/shadow").read_text()), 0o600),
        "/proc/sys/kernel/random/boot_id": (f"{uuid.uuid4()}\n", 0o444),
        "/run/sshd/.keep": ("", 0o644),
        f"{scratch}/host_key": (host_key, 0o600),
        f"{scratch}/authorized_keys": (authorized_key, 0o600),
    }
