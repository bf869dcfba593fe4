"""What does the name of an interface say that carries no packets between machines, or few?"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

CONTAINERS = "a bridge to containers of this machine"
SLINGSHOT = re.compile(r"hsn\d+")  # each port of a node, as the fabric's own network configuration names it
SOURCE = "https://docs.docker.com/engine/network/drivers/bridge/"


@dataclass(frozen=True)
class Kind:
    """Interfaces by the first letters of their names; ``is_home`` where none of them leads off the machine.

    ``example`` is such a name, ``neighbour`` that of another kind which begins alike.
    """

    pattern: str
    what: str
    is_home: bool
    example: str
    neighbour: str
    source: str


KINDS = (
    Kind(r"docker", CONTAINERS, True, "docker0", "dock0", SOURCE),
    Kind(r"br-[0-9a-f]{12}$", CONTAINERS, True, "br-0123456789ab", "br-ex", SOURCE),
    Kind(
        r"(cni-)?podman",
        CONTAINERS,
        True,
        "cni-podman0",
        "pod0",
        "https://docs.podman.io/en/stable/markdown/podman-network.1.html",
    ),
    Kind(
        r"lxcbr|lxdbr",
        CONTAINERS,
        True,
        "lxdbr0",
        "lxc0",
        "https://documentation.ubuntu.com/lxd/en/latest/reference/network_bridge/",
    ),
    Kind(r"cni(?!-podman)", CONTAINERS, False, "cni0", "cn0", "https://www.cni.dev/plugins/current/main/bridge/"),
    Kind(
        r"virbr|vmnet|vboxnet",
        "a bridge to virtual machines of this machine",
        True,
        "virbr0",
        "vm0",
        "https://wiki.libvirt.org/VirtualNetworking.html",
    ),
    Kind(
        r"flannel|cali|vxlan|weave|cilium",
        "a network of pods, wrapped in another one",
        False,
        "flannel.1",
        "fl0",
        "https://kubernetes.io/docs/concepts/cluster-administration/networking/",
    ),
    Kind(
        r"tailscale|wg|tun|tap|ppp|zt",
        "a VPN",
        False,
        "wg0",
        "w0",
        "https://docs.kernel.org/networking/tuntap.html",
    ),
)


def kind(name: str, rows: Iterable[Kind] = KINDS) -> Kind | None:
    """The row of an interface by its name; None where nothing is known against it."""
    return next((row for row in rows if re.match(row.pattern, name)), None)


def virtual(name: str) -> str:
    """What is known against an interface by its name, "" where nothing is."""
    row = kind(name)
    return row.what if row else ""
