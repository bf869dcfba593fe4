"""Do interfaces and addresses answer as the job's libraries would ask?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.subjects.network import Address, Interface, Network, is_loopback
from preflight.facts.value import Missing
from preflight.said.errors import BlockedBy, FactMissing

V4 = Address("10.1.2.3", 16, "inet")
V6 = Address("fd00::7", 64, "inet6")
LINK_LOCAL = (Address("169.254.9.9", 16, "inet"), Address("fe80::1%eth0", 64, "inet6"))


def interface(*addresses: Address, **fields) -> Interface:
    healthy = Interface(
        name="eth0",
        index=2,
        addresses=addresses,
        mtu=9000,
        speed_mbps=25000,
        is_up=True,
        is_loopback=False,
        is_physical=True,
    )
    return msgspec.structs.replace(healthy, **fields)


def network(*interfaces: Interface, training: str | Missing = "eth0") -> Network:
    return Network(interfaces=interfaces, gateways=(), ephemeral_ports=(32768, 60999), training=training)


LO = interface(Address("127.0.0.1", 8, "inet"), Address("::1", 128, "inet6"), name="lo", is_loopback=True)


@pytest.mark.parametrize(
    ("address", "leads_back"),
    [
        ("127.0.0.1", True),
        ("127.0.1.1", True),
        ("::1", True),
        ("::1%lo", True),
        ("10.0.0.1", False),
        ("fd00::1", False),
    ],
)
def test_loopback_is_more_than_one_address(address, leads_back):
    """Debian's 127.0.1.1 leads nowhere else either."""
    assert is_loopback(address) is leads_back


def test_the_address_of_an_interface_is_one_that_peers_can_use():
    """Link-local ones are skipped; the family is the one asked for."""
    held = interface(*LINK_LOCAL, V4, V6)
    assert held.address() == "10.1.2.3"
    assert held.address("inet6") == "fd00::7"
    with pytest.raises(FactMissing) as caught:
        interface(*LINK_LOCAL).address()
    assert caught.value.kind == "absent"


def test_the_subnet_is_that_of_the_address_peers_connect_to():
    """IPv6 where there is no IPv4."""
    assert interface(*LINK_LOCAL, V4, V6).subnet() == "10.1.0.0/16"
    assert interface(*LINK_LOCAL, V6).subnet() == "fd00::/64"
    with pytest.raises(FactMissing):
        interface(*LINK_LOCAL).subnet()


def test_only_a_devices_rate_above_zero_is_a_rate():
    """veth says 10000 and means nothing; a driver that tells none is not slow."""
    assert interface(V4).rate_mbps() == 25000
    assert interface(V4).rate_text() == "25000 Mbit/s"
    for virtual in (interface(V4, is_physical=False), interface(V4, speed_mbps=0)):
        with pytest.raises(FactMissing) as caught:
            virtual.rate_mbps()
        assert caught.value.kind == "absent"
        assert virtual.rate_text() == "no rate reported"
    with pytest.raises(FactMissing, match="sysfs of another namespace"):
        interface(V4, is_physical=Missing("sysfs of another namespace")).rate_text()


def test_the_training_interface_is_the_one_chosen():
    """Where none could be chosen, whatever needs it is blocked by the check that says so."""
    other = interface(V6, name="eth1", index=3)
    assert network(interface(V4), other, training="eth1").training_interface == other
    with pytest.raises(BlockedBy, match=r"network\.training_interface_exists"):
        _ = network(interface(V4), training=Missing("no interface matches")).training_interface


def test_trouble_with_the_training_interface_is_told():
    """Why there is none."""
    assert network(interface(V4)).training_trouble() == ""
    assert network(training=Missing("no interface matches")).training_trouble() == "no interface matches"


def test_an_interface_is_found_by_name():
    """What is not there is absent."""
    given = network(LO, interface(V4))
    assert given.interface("eth0").name == "eth0"
    with pytest.raises(FactMissing) as caught:
        given.interface("ib0")
    assert caught.value.kind == "absent"


def test_a_node_holds_its_own_addresses_and_all_of_loopback():
    """With or without a zone; `reachable` leaves out what only the node itself can use."""
    given = network(LO, interface(V4, *LINK_LOCAL))
    assert given.holds_any(["10.9.9.9", "10.1.2.3"])
    assert given.holds_any(["fe80::1"])
    assert given.holds_any(["127.0.1.1"])
    assert not given.holds_any(["127.0.1.1"], reachable=True)
    assert not given.holds_any([])
    assert given.reachable_addresses == {"10.1.2.3", "169.254.9.9", "fe80::1%eth0"}
    assert interface(V4).holds_any(["10.1.2.3"])
    assert not interface(V4).holds_any(["10.1.2.4"])
