"""Are RDMA ports told as they are, those that are down or silent included?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.subjects.rdma import Gid, Rdma, RdmaDevice, RdmaPort
from preflight.facts.value import Missing
from preflight.said.errors import FactMissing
from tests.facts.answers import decoded, wire

replace = msgspec.structs.replace
SILENT = Missing("the driver does not report it", "absent")
PORT = RdmaPort(
    number=1,
    state="ACTIVE",
    physical_state="LinkUp",
    rate_gbps=400.0,
    link_layer="InfiniBand",
    gids=(),
    lid=SILENT,
    sm_lid=SILENT,
    counters={},
)


def device(*ports: RdmaPort, name: str = "mlx5_0") -> RdmaDevice:
    return RdmaDevice(name=name, firmware=SILENT, board=SILENT, node_type=SILENT, ports=ports)


def test_active_ports_are_those_that_are_up():
    """Of all devices."""
    down = replace(PORT, state="DOWN", physical_state="Polling")
    rdma = Rdma(
        devices=tuple(
            RdmaDevice(name=f"mlx5_{i}", firmware=SILENT, board=SILENT, node_type=SILENT, ports=ports)
            for i, ports in enumerate([(PORT, down), ()])
        )
    )
    assert rdma.active_ports() == (PORT,)
    assert (PORT.state_text(), down.state_text()) == ("ACTIVE (LinkUp)", "DOWN (Polling)")
    assert replace(down, physical_state=SILENT).state_text() == "DOWN"


def test_a_rate_is_told_with_its_link():
    """400 Gbit/s of Ethernet is no InfiniBand."""
    assert PORT.rate_text() == "400 Gbit/s InfiniBand"
    assert replace(PORT, rate_gbps=2.5, link_layer="Ethernet").rate_text() == "2.5 Gbit/s Ethernet"
    with pytest.raises(FactMissing):
        replace(PORT, rate_gbps=SILENT).rate_text()


def test_the_rate_of_a_node_is_that_of_its_fastest_active_port():
    """A port that is down or tells none does not count; where none is left, no rate is told."""
    slow, down = replace(PORT, rate_gbps=100.0), replace(PORT, rate_gbps=800.0, state="DOWN")
    silent = replace(PORT, rate_gbps=SILENT)
    assert Rdma(devices=(device(slow, down), device(PORT, silent))).rate_gbps() == 400.0
    for without in (Rdma(devices=()), Rdma(devices=(device(down, silent),))):
        with pytest.raises(FactMissing) as caught:
            without.rate_gbps()
        assert caught.value.kind == "absent"


def test_a_device_is_read_as_the_node_sent_it():
    """With the ports and GIDs that it has; what an older node does not send is absent."""
    rdma = Rdma(
        devices=(device(replace(PORT, gids=(Gid(3, "::ffff:10.0.0.1", "RoCE v2", "eth0"),), counters={"a": 1})),)
    )
    assert decoded("rdma", wire(rdma)) == rdma
    port = wire(PORT)
    for newer in ("width", "active_mtu", "pkeys"):
        del port[newer]
    found = decoded("rdma", {"devices": [{**wire(device()), "ports": [port]}]})
    assert isinstance(found.devices[0].ports[0].width, Missing)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("number", -1),
        ("state", SILENT),
        ("rate_gbps", "400"),
        ("counters", {"symbol_error": -1}),
        ("counters", ["symbol_error"]),
        ("gids", [{"index": 0}]),
        ("gids", {"0": "fe80::1"}),
        ("pkeys", "0xffff"),
        ("width", 4.0),
    ],
)
def test_a_port_of_another_form_is_malformed(field, value):
    """A port has a state in any case; what it may lack is missing with a reason."""
    port = wire(PORT, **{field: msgspec.to_builtins(value)})
    with pytest.raises(FactMissing, match="malformed"):
        decoded("rdma", {"devices": [{**wire(device()), "ports": [port]}]})
