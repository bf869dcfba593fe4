"""Is the node with too few ports named?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.subjects.ports import Listener, Ports
from preflight.judge.tables.network import sidecars
from preflight.node.subjects import ports
from preflight.testing import healthy
from tests.checks.samples import Broken

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
ROW = (
    "   0: 00000000:{:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1337        0 {} 1 0 100 0 0 10 0\n"
)
ISTIO = tuple(Listener("0.0.0.0", port, "envoy", 7) for port in (15001, 15006, 15090))

BROKEN = (
    Broken(
        "ports.ephemeral_ports_are_enough",
        healthy().broken("node2", "network", ephemeral_ports=(40000, 40999)),
        ("node2",),
        "the ephemeral range 40000-40999 has 1000 ports; wanted at least 4096",
    ),
    Broken(
        "ports.ephemeral_ports_are_enough",
        healthy().broken("node2", "network", reserved_ports=28000),
        ("node2",),
        "has 232 ports beside the 28000 of net.ipv4.ip_local_reserved_ports; wanted at least 4096",
    ),
    Broken(
        "ports.ephemeral_ports_are_enough",
        healthy().broken("node2", "ports", ephemeral_in_use=25000),
        ("node2",),
        "25000 of 28232 ephemeral ports are in use",
    ),
    Broken(
        "ports.no_proxy_takes_every_connection",
        healthy().broken("node2", "ports", listeners=ISTIO),
        ("node2",),
        "the proxy of Istio takes the connections of this pod (it listens on 15001, 15006)",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to fix it."""
    broken.assert_named()


@pytest.mark.parametrize(
    ("held", "name"), [((15001, 15006, 22), "Istio"), ((4140, 4143), "Linkerd"), ((15001, 22), ""), ((), "")]
)
def test_a_proxy_is_known_by_what_the_kernel_lists(tmp_path, held, name):
    """All of its ports, in the table of a pod whose processes are not to be seen."""
    (tmp_path / "net").mkdir()
    (tmp_path / "sys/net/ipv4").mkdir(parents=True)
    (tmp_path / "sys/net/ipv4/ip_local_port_range").write_text("32768\t60999\n")
    (tmp_path / "net/tcp").write_text(HEADER + "".join(ROW.format(port, port) for port in held))
    found = msgspec.convert(ports.collect({"proc": str(tmp_path)}), type=Ports, strict=False)
    sidecar = sidecars.listening(found)
    assert (sidecar.name if sidecar else "") == name
