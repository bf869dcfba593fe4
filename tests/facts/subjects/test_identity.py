"""Does a node say who it is, and where its own name leads?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.subjects.identity import Identity
from preflight.facts.value import Missing
from preflight.said.errors import BlockedBy, FactMissing
from tests.facts.answers import decoded, wire

BROKEN = Missing("the tool broke")
NODE1 = Identity(
    hostname="node1",
    fqdn="node1.lan",
    boot_id="boot",
    kernel="6.8.0",
    machine="x86_64",
    cpu_count=64,
    memory_bytes=1 << 40,
    user_id=0,
    hostname_address="10.0.0.1",
    hostname_addresses=("10.0.0.1",),
    context="ssh",
)


def identity(**fields) -> Identity:
    return msgspec.structs.replace(NODE1, **fields)


def test_gloo_is_told_the_address_of_the_nodes_own_name():
    """A name that resolves to nothing is one check's business, and blocks the others."""
    assert identity().own_address == "10.0.0.1"
    with pytest.raises(BlockedBy, match=r"names\.own_hostname_is_an_address_of_the_node"):
        _ = identity(hostname_address=BROKEN, hostname_addresses=()).own_address
    with pytest.raises(FactMissing, match="the tool broke"):
        _ = identity(hostname_address=BROKEN, hostname_addresses=("10.0.0.1",)).own_address


@pytest.mark.parametrize(("address", "named"), [("127.0.1.1", True), ("10.0.0.1", False), (BROKEN, False)])
def test_a_node_named_loopback_is_known(address, named):
    """As Debian's installer writes it into /etc/hosts."""
    assert identity(hostname_address=address).is_named_loopback is named


def test_an_identity_is_read_as_the_node_sent_it():
    """Also where its own name resolves to nothing."""
    nameless = identity(hostname_address=Missing("Name or service not known"), hostname_addresses=())
    assert decoded("identity", wire(NODE1)) == NODE1
    assert decoded("identity", wire(nameless)) == nameless


def test_localhost_leads_to_loopback_and_nowhere_else():
    """Either family's address is right; a node that has not said it is no node with the name astray."""
    assert identity(localhost_addresses=("127.0.0.1", "::1")).wrong_localhost == ""
    assert "10.0.0.9" in identity(localhost_addresses=("10.0.0.9",)).wrong_localhost
    assert identity(localhost_addresses=()).wrong_localhost == "localhost does not resolve there"
    with pytest.raises(FactMissing):
        _ = identity().wrong_localhost


@pytest.mark.parametrize("field", ["hostname", "boot_id", "cpu_count", "memory_bytes", "hostname_addresses"])
def test_who_a_node_is_has_no_reason_in_its_place(field):
    """A node that cannot say it has no identity; only the address of its name may be missing."""
    with pytest.raises(FactMissing, match=f"malformed: .*{field}"):
        decoded("identity", wire(NODE1, **{field: {"missing": "denied", "kind": "denied"}}))
