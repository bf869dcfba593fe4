"""How is a fault planted on one lab host, the way it occurs in the field?

Each function plants one and returns a Planted: keep it until the lab ends, call `undo()`, or use it in `with`. Undo in
reverse order of planting.
"""

import json
import re
import signal
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import rdma, residue
from .network import add_bridge, attach, ip, port_name, shape, use_cubic
from .quota import limit_cpu
from .spaces import LabError, call

if TYPE_CHECKING:
    from .host import LabHost

HOLD_PORT = """
import os, signal, socket, sys
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", int(sys.argv[1])))
listener.listen()
pid = os.fork()
if pid:
    print(pid, flush=True)
    os._exit(0)
os.setsid()
nothing = os.open(os.devnull, os.O_RDWR)
for standard in range(3):
    os.dup2(nothing, standard)
signal.pause()
"""
FIND_TORCH = """
import importlib.metadata, importlib.util, json
package = importlib.util.find_spec("torch").submodule_search_locations[0]
metadata = importlib.metadata.distribution("torch")._path / "METADATA"
print(json.dumps([package + "/version.py", str(metadata)]))
"""
# An existing one (Debian's Python brings one) would win over ours in site-packages.
FIND_SITECUSTOMIZE = """
import importlib.util, sysconfig
found = importlib.util.find_spec("sitecustomize")
print(found.origin if found else sysconfig.get_path("purelib") + "/sitecustomize.py")
"""

# A Python that runs sitecustomize.py although the loader starts it without (-S).
WITH_SITE = "/usr/local/bin/python-with-site"
RUN_WITH_SITE = """#!/bin/bash
for word; do
  shift
  [ "$word" = -S ] || set -- "$@" "$word"
done
exec {python} "$@"
"""


ASK_FOR_KEYS = "AuthorizedKeysFile none\nAuthorizedKeysCommand /usr/bin/sleep 300\nAuthorizedKeysCommandUser root\n"


@dataclass(frozen=True)
class Planted:
    """A fault in place."""

    undo: Callable[[], None]

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()


def mtu(host: "LabHost", mtu_bytes: int, interface: str = "eth0") -> Planted:
    """Another MTU than the peers'; the switch goes on sending frames of the old size, which then get lost."""
    before = host.run(["cat", f"/sys/class/net/{interface}/mtu"]).stdout.strip()
    ip(host.space, [f"link set dev {interface} mtu {mtu_bytes}"])
    return Planted(lambda: ip(host.space, [f"link set dev {interface} mtu {before}"]))


def hostname_resolves_to(host: "LabHost", address: str) -> Planted:
    """The host's own name has another address in its own /etc/hosts, as Debian's installer writes it."""
    lines = host.space.root("/etc/hosts").read_text().splitlines()
    others = [line for line in lines if host.name not in line.split()[1:]]
    return host.write_file("/etc/hosts", "\n".join([others[0], f"{address} {host.name}", *others[1:]]) + "\n")


def hold_port(host: "LabHost", port: int) -> Planted:
    """Another process listens on this port."""
    pid = host.check([sys.executable, "-I", "-S", "-c", HOLD_PORT, str(port)]).strip()
    return Planted(lambda: host.check(["kill", "-KILL", pid]) and None)


def drop_incoming_high_ports(host: "LabHost") -> Planted:
    """A firewall drops new connections to ports from 1024 on; ssh and what the host itself opens go on working."""
    nft = [*host.space.enter("net"), "nft", "-f", "-"]
    rules = """table inet preflight_lab {
      chain input {
        type filter hook input priority 0; policy accept;
        iifname != "lo" tcp flags & (syn | ack) == syn tcp dport >= 1024 drop
      }
    }
    """
    call(nft, text=rules)
    return Planted(lambda: call(nft, text="delete table inet preflight_lab\n") and None)


def torch_version(host: "LabHost", version: str, python: str = sys.executable) -> Planted:
    """Another torch is installed: what version.py and the distribution's METADATA say."""
    version_py, metadata = json.loads(host.check([python, "-I", "-c", FIND_TORCH]))
    code = re.sub(r"__version__ = .*", f"__version__ = {version!r}", Path(version_py).read_text())
    text = re.sub(r"(?m)^Version: .*", f"Version: {version}", Path(metadata).read_text(), count=1)
    return host.change([["write", version_py, code], ["write", metadata, text]])


def python_site(host: "LabHost", text: str, python: str = sys.executable) -> Planted:
    """The host's Python runs this at every start (sitecustomize.py), unless started with -S, as our node agent is."""
    return host.write_file(host.check([python, "-I", "-c", FIND_SITECUSTOMIZE]).strip(), text)


def python_with_site(host: "LabHost", python: str = sys.executable) -> Planted:
    """The host has a Python at WITH_SITE for which -S is nothing."""
    return host.change([["write", WITH_SITE, RUN_WITH_SITE.format(python=python), 0o755]])


def rdma_tree(
    host: "LabHost",
    devices: Sequence[rdma.RdmaDevice] = (rdma.RdmaDevice(),),
    missing_gids: Collection[int] = frozenset(),
) -> Planted:
    """RDMA adapters in sysfs; of `missing_gids` the entries are empty, as when an address was not there at start."""
    files, links = rdma.tree(devices, address=host.address, missing_gids=missing_gids)
    return host.change([["tree", rdma.ROOT, files, links]])


def environment(host: "LabHost", **variables: str) -> Planted:
    """Every ssh session starts with these variables."""
    before = host.session_environment
    host.restart_sshd({**before, **variables})
    return Planted(lambda: host.restart_sshd(before))


def cpu_quota(host: "LabHost", percent: float) -> Planted:
    """All processes of the host together get this share of one core (100 is one core)."""
    return Planted(limit_cpu(host.space, name=f"{host.tag}-{host.name}", percent=percent))


def link_down(host: "LabHost", interface: str = "eth0") -> Planted:
    """The cable is pulled: no carrier, the address stays."""
    port = port_name(host.name, interface)

    def plug_in() -> None:
        ip(host.switch, [f"link set dev {port} up"])
        use_cubic(host.space, interface)

    ip(host.switch, [f"link set dev {port} down"])
    return Planted(plug_in)


def login_stalls(host: "LabHost") -> Planted:
    """Whoever logs in waits while sshd asks for keys and nobody answers, as where a directory of users is down."""
    before = host.session_environment
    host.restart_sshd(before, more=ASK_FOR_KEYS)
    return Planted(lambda: host.restart_sshd(before))


def slow_path(host: "LabHost", peer: "LabHost", *, rate: str, usual_rate: str, interface: str = "eth0") -> Planted:
    """What the host sends to this one peer is limited to `rate`, all else to `usual_rate`."""
    tc = [*host.space.enter("net"), "tc"]
    nft = [*host.space.enter("net"), "nft", "-f", "-"]
    # A packet's priority chooses its class: many kernels have no other classifier.
    rules = f"""table ip preflight_lab_path {{
      chain output {{
        type filter hook postrouting priority 0; policy accept;
        oifname "{interface}" ip daddr {peer.address} meta priority set 1:2
      }}
    }}
    """
    call([*tc, "qdisc", "replace", "dev", interface, "root", "handle", "1:", "htb", "default", "1"])
    for number, limit in ((1, usual_rate), (2, rate)):
        call([*tc, "class", "add", "dev", interface, "parent", "1:", "classid", f"1:{number}", "htb", "rate", limit])
    call(nft, text=rules)

    def undo() -> None:
        call(nft, text="delete table ip preflight_lab_path\n")
        shape(host.space, interface, usual_rate)

    return Planted(undo)


def stop_sshd(host: "LabHost") -> Planted:
    """Connections to sshd are accepted by the kernel and never answered."""
    pid = residue.listener_pid(host.space)
    if not pid:
        raise LabError(f"{host.name}: no sshd to stop")
    host.signal(pid, signal.SIGSTOP)
    return Planted(lambda: host.signal(pid, signal.SIGCONT))


def add_interface(host: "LabHost", interface: str, address: str) -> Planted:
    """A further interface at `address` (10.78.0.1/24); those of one name share a network of their own."""
    add_bridge(host.switch, f"bridge-{interface}")
    attach(host.switch, host.space, interface=interface, address=address, bridge=f"bridge-{interface}")
    use_cubic(host.space, interface)
    return Planted(lambda: ip(host.space, [f"link del dev {interface}"]))
