"""Is the command for an interface the one that an operator would type?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.subjects.network import Address, Gateway
from preflight.facts.value import Missing
from preflight.testing import healthy
from tests.checks.samples import with_interface
from tests.judge.commands.typed import as_root, typed

HOSTILE = "eth0; rm -rf ~ #"


def test_the_mtu_of_the_others_is_set():
    """On the node that differs, with sudo only where the user is not root."""
    run = as_root(healthy()).broken_interface("node3", mtu=1400)
    assert typed(run, "network.mtu_is_the_same_on_every_node") == {"node3": "ip link set dev eth0 mtu 9000"}
    run = run.broken("node3", "identity", user_id=1000)
    assert typed(run, "network.mtu_is_the_same_on_every_node") == {"node3": "sudo ip link set dev eth0 mtu 9000"}


def test_of_two_nodes_nobody_knows_which_is_right():
    """The check's own words stand alone."""
    assert typed(as_root(healthy(2)).broken_interface("node2", mtu=1400), "network.mtu_is_the_same_on_every_node") == {}


def test_a_hostile_name_stays_one_word():
    """Whatever a node calls its interface."""
    run = as_root(healthy(4)).broken_interface("node3", mtu=1400, name=HOSTILE)
    network = msgspec.structs.replace(run.subjects["node3"]["network"], training=HOSTILE)
    run = run.broken("node3", "network", interfaces=network.interfaces, training=HOSTILE)
    run = run.with_variables("node3", NCCL_SOCKET_IFNAME=HOSTILE)
    found = typed(run, "network.mtu_is_the_same_on_every_node")
    assert found in ({}, {"node3": f"ip link set dev '{HOSTILE}' mtu 9000"})


@pytest.mark.parametrize("lacking", ["node1", "node3"])
def test_the_gateway_of_the_others_is_added(lacking):
    """Where a node has no default route."""
    run = as_root(healthy(4))
    run = run.broken(run.names, "network", gateways=(Gateway("eth0", "10.0.0.254", "inet"),))
    run = run.broken(lacking, "network", gateways=())
    assert typed(run, "network.default_routes_are_alike") == {lacking: "ip route replace default via 10.0.0.254"}


@pytest.mark.parametrize(
    ("manager", "command"),
    [
        ("netplan", "netplan set ethernets.eth0.mtu=9000 && netplan apply"),
        (
            "NetworkManager",
            'nmcli connection modify "$(nmcli -g GENERAL.CONNECTION device show eth0)" 802-3-ethernet.mtu 9000',
        ),
        ("systemd-networkd", "MTUBytes=9000"),
    ],
)
def test_the_mtu_lasts_by_the_manager_of_the_node(manager, command):
    """As the manager keeps it; a plain command would be gone after a boot."""
    run = as_root(healthy()).broken_interface("node3", mtu=1400)
    run = run.broken("node3", "machine", network_manager=manager)
    found = typed(run, "network.mtu_is_the_same_on_every_node", lasting=True)["node3"]
    assert command in found
    assert not found.startswith("#")


def test_a_manager_that_is_not_known_gets_a_remark_and_no_command():
    """What cannot be typed is a comment, so pasting it changes nothing."""
    run = as_root(healthy()).broken_interface("node3", mtu=1400)
    run = run.broken("node3", "machine", network_manager=Missing("no manager runs"))
    assert typed(run, "network.mtu_is_the_same_on_every_node", lasting=True)["node3"].startswith("#")


@pytest.mark.parametrize(
    ("manager", "command"),
    [
        ("netplan", 'netplan set \'ethernets.eth0.routes=[{"to": "0.0.0.0/0", "via": "10.0.0.254"}]\''),
        (
            "NetworkManager",
            'nmcli connection modify "$(nmcli -g GENERAL.CONNECTION device show eth0)" ipv4.gateway 10.0.0.254',
        ),
    ],
)
def test_the_gateway_lasts_by_the_manager_of_the_node(manager, command):
    """The address that the others have, for the interface that the node trains on."""
    run = as_root(healthy(4)).broken("node3", "machine", network_manager=manager)
    run = run.broken(run.names, "network", gateways=(Gateway("eth0", "10.0.0.254", "inet"),))
    run = run.broken("node3", "network", gateways=())
    assert typed(run, "network.default_routes_are_alike", lasting=True) == {"node3": command}


def test_an_interface_of_link_local_addresses_leads_to_no_peer():
    """All nodes share their subnet, each on a link of its own; one in the peers' subnet is taken instead."""
    run = as_root(healthy(4)).with_variables("node3", NCCL_SOCKET_IFNAME="ens9")
    run = with_interface(run, "node3", "ens7", "192.168.7.3", first=True)
    local = (Address("192.168.7.3", 24, "inet"), Address("fe80::7", 64, "inet6"))
    run = run.broken_interface("node3", "ens7", addresses=local, is_physical=True, speed_mbps=400000)
    for name in run.names:
        held = run.subjects[name]["network"].interfaces
        own = next(one for one in held if one.name == "eth0").addresses
        run = run.broken_interface(name, "eth0", addresses=(*own, Address(f"fe80::{name[-1]}", 64, "inet6")))
    found = typed(run, "network.interface_variables_match_an_interface")
    assert found == {"node3": "export NCCL_SOCKET_IFNAME==eth0"}
