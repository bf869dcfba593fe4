"""Do the routes to the other nodes say what was found, and what was not?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.subjects.peers import Peers, Route
from preflight.facts.value import Missing
from preflight.said.errors import FactMissing
from tests.facts.answers import decoded, wire

NO_PEERS = Peers(routes=(), master_addresses=(), master_port_error="", master_port_holder="")
ROUTE = Route("node2", "10.0.0.2", ("10.0.0.2",), (), "eth0", "10.0.0.1")


def test_routes_and_the_master_say_what_they_lack():
    """A route that could not be read, and a name that does not resolve, are different things."""
    assert Route("node2", "10.0.0.2", (), (), "eth0", "10.0.0.1").leaves_by() == "eth0"
    with pytest.raises(FactMissing, match="route to node2"):
        Route("node2", "10.0.0.2", (), (), Missing("no route"), Missing("no route")).leaves_by()
    assert (
        Peers(routes=(), master_addresses=(), master_port_error="", master_port_holder="").addresses_of_master() == ()
    )
    with pytest.raises(FactMissing, match="MASTER_ADDR"):
        Peers(
            routes=(), master_addresses=Missing("not set", "absent"), master_port_error="", master_port_holder=""
        ).addresses_of_master()


@pytest.mark.parametrize(
    ("words", "is_unknown_name"),
    [
        ("[Errno -3] Temporary failure in name resolution", True),
        ("[Errno -2] Name or service not known", False),
        ("timed out", False),
    ],
)
def test_a_resolver_that_cannot_tell_knows_no_address_of_the_master(words, is_unknown_name):
    """No name server is the same to a job as no such name; another failure says nothing of the name."""
    peers = msgspec.structs.replace(NO_PEERS, master_addresses=Missing(words))
    if is_unknown_name:
        assert peers.addresses_of_master() == ()
    else:
        with pytest.raises(FactMissing):
            peers.addresses_of_master()


def test_slow_lookups_are_those_that_took_longer_than_the_limit():
    """Exactly the limit is not longer; a lookup that was not made is not slow."""
    seconds = {"node2": 4.5, "node3": 2.0, "node4": Missing("not asked", "absent")}
    routes = tuple(msgspec.structs.replace(ROUTE, name=name, reverse_seconds=taken) for name, taken in seconds.items())
    assert msgspec.structs.replace(NO_PEERS, routes=routes).slow_lookups(2.0) == {"node2": 4.5}


def test_an_address_is_slow_as_a_store_sees_it():
    """It is named in that form, for by itself it may be answered at once."""
    route = msgspec.structs.replace(ROUTE, name="node2", address="10.0.0.2", accepted_seconds=4.5)
    fast = msgspec.structs.replace(route, address="10.0.0.3", accepted_seconds=2.0)
    peers = msgspec.structs.replace(NO_PEERS, routes=(route, fast))
    assert peers.slow_when_accepted(2.0) == {"::ffff:10.0.0.2 (node2)": 4.5}
    assert peers.slow_lookups(2.0) == {}


def test_routes_are_read_as_the_node_sent_them():
    """Without the lookups of addresses, which are asked for only where they may matter."""
    peers = Peers(
        routes=(ROUTE,),
        master_addresses=("10.0.0.1",),
        master_port_error="Address already in use",
        master_port_holder="nginx (7)",
    )
    assert decoded("peers", wire(peers)) == peers
    route = {name: value for name, value in wire(ROUTE).items() if not name.startswith("reverse")}
    assert decoded("peers", wire(peers, routes=[route])).routes[0].reverse == Missing("not asked", "absent")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("resolved", "10.0.0.2"),
        ("resolved", None),
        ("interface", 2),
        ("reverse_seconds", "0.1"),
        ("address", {"missing": "no address"}),
    ],
)
def test_a_route_of_another_form_is_malformed(field, value):
    """A name that resolves to nothing is an empty list."""
    with pytest.raises(FactMissing, match=f"malformed: .*{field}"):
        decoded("peers", wire(NO_PEERS, routes=[wire(ROUTE, **{field: value})]))
