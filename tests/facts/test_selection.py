"""Which interface NCCL and Gloo choose, by their own rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.facts import selection
from preflight.facts.subjects.environment import Environment, Variable
from preflight.facts.subjects.identity import Identity
from preflight.facts.subjects.network import Address, Interface, Network
from preflight.facts.value import Missing
from preflight.knowledge.variables.interfaces import parse_patterns
from preflight.said.errors import FactMissing


def interface(name, *addresses, index=None, is_up=True):
    """An interface with addresses "10.0.0.1" or "fd00::1"; its index is its place unless given."""
    held = tuple(Address(a, 24, "inet6" if ":" in a else "inet") for a in addresses)
    return Interface(
        name=name,
        index=index if index is not None else 0,
        addresses=held,
        mtu=1500,
        speed_mbps=0,
        is_up=is_up,
        is_loopback=name.startswith("lo"),
        is_physical=False,
    )


def network(*interfaces):
    """A network of interfaces in index order."""
    return Network(interfaces=tuple(interfaces), gateways=(), ephemeral_ports=(32768, 60999))


def identity(hostname_address):
    """An identity of which only the hostname's address matters."""
    return Identity(
        hostname="n1",
        fqdn="n1",
        boot_id="b",
        kernel="6",
        machine="x86_64",
        cpu_count=2,
        memory_bytes=1,
        user_id=0,
        hostname_address=hostname_address,
        hostname_addresses=(),
        context="ssh",
    )


def environment(**variables):
    """The job's variables."""
    return Environment(variables={name: Variable(value, "node") for name, value in variables.items()})


LO = interface("lo", "127.0.0.1", "::1", index=1)
ETH0 = interface("eth0", "10.0.0.1", "fe80::1", index=2)
ETH1 = interface("eth1", "10.1.0.1", index=3)
ETH10 = interface("eth10", "10.10.0.1", index=4)
IB0 = interface("ib0", "10.2.0.1", index=5)
DOCKER = interface("docker0", "172.17.0.1", index=6)
VIRBR = interface("virbr0", "192.168.122.1", index=7)
NODE = network(LO, ETH0, ETH1, ETH10, DOCKER)


def names(found):
    """The names of interfaces."""
    return [each.name for each in found]


@pytest.mark.parametrize(
    ("value", "chosen"),
    [
        ("eth0", ["eth0"]),
        ("eth1", ["eth1", "eth10"]),  # a prefix
        ("eth", ["eth0", "eth1", "eth10"]),
        ("=eth1", ["eth1"]),
        ("=eth", []),
        ("^eth1", ["lo", "eth0", "docker0"]),
        ("^=eth1", ["lo", "eth0", "eth10", "docker0"]),
        ("^docker,lo", ["eth0", "eth1", "eth10"]),
        ("eth1,eth0", ["eth0", "eth1", "eth10"]),  # the order of interfaces, not of the list
        ("eth0:7", ["eth0"]),  # a port means nothing for interfaces
        ("=eth0:7,eth1:8", ["eth0", "eth1"]),
        ("eth9,,eth0", ["eth0"]),
        ("eth9, eth0", []),  # blanks belong to the name
        ("eth7", []),
        ("lo", ["lo"]),
        ("^=", []),
        ("e", ["eth0", "eth1", "eth10"]),  # one character is ignored, the default holds
        ("", ["eth0", "eth1", "eth10"]),
    ],
)
def test_nccl_reads_its_variable_as_its_sources_do(value, chosen):
    """Prefixes, `^`, `=`, both, ports and blanks."""
    assert names(selection.nccl_interfaces(NODE, value)) == chosen


@pytest.mark.parametrize(
    ("interfaces", "chosen"),
    [
        ((LO, ETH0, IB0, DOCKER), ["ib0"]),
        ((LO, DOCKER, VIRBR, ETH0), ["eth0"]),
        ((LO, DOCKER, VIRBR), ["docker0"]),
        ((LO, VIRBR), ["lo"]),
        ((VIRBR,), ["virbr0"]),
        ((), []),
    ],
)
def test_nccl_default_order(interfaces, chosen):
    """InfiniBand first, then what is real, then docker, then loopback."""
    assert names(selection.nccl_interfaces(network(*interfaces))) == chosen


def test_nccl_leaves_out_what_is_down_or_has_no_address_for_peers():
    """Down, addressless and link-local-only interfaces are no choice, even when named."""
    down = interface("eth2", "10.0.2.1", index=8, is_up=False)
    bare = interface("eth3", index=9)
    local = interface("eth4", "fe80::4", "169.254.3.4", index=10)
    found = selection.nccl_interfaces(network(down, bare, local, ETH0), "eth")
    assert names(found) == ["eth0"]


@pytest.mark.parametrize(
    ("value", "comm_id", "chosen"),
    [
        ("", "10.1.0.77:29500", ["eth1"]),  # instead of all that is left
        ("", "[fd00:1::9]:29500", ["eth2"]),
        ("", "192.168.7.7:29500", ["eth0", "eth1", "eth2"]),  # of no subnet here
        ("", "master:29500", ["eth0", "eth1", "eth2"]),  # a name says nothing here
        ("eth0", "10.1.0.77:29500", ["eth1", "eth0"]),  # data over what is named, the start over the other
        ("eth7", "10.1.0.77:29500", []),
    ],
)
def test_nccl_starts_in_the_subnet_of_its_comm_id(value, comm_id, chosen):
    """NCCL_COMM_ID is looked at before the rest, and by the bootstrap whatever else is set."""
    six = interface("eth2", "10.3.0.1", "fd00:1::1", index=4)
    nodes = network(LO, ETH0, ETH1, six)
    assert names(selection.nccl_interfaces(nodes, value, comm_id=comm_id)) == chosen


def test_an_interface_of_infiniband_comes_before_the_subnet_of_the_comm_id():
    """For data; the bootstrap is in the subnet."""
    assert names(selection.nccl_interfaces(network(LO, ETH1, IB0), comm_id="10.1.0.77:29500")) == ["eth1", "ib0"]


def test_nccl_takes_ipv4_interfaces_first_unless_the_family_is_set():
    """The kernel tells IPv4 before IPv6; NCCL_SOCKET_FAMILY=AF_INET6 leaves only the latter."""
    six = interface("eth0", "fd00::1", index=2)
    both = interface("eth1", "10.0.0.1", "fd00::2", index=3)
    nodes = network(six, both)
    assert names(selection.nccl_interfaces(nodes)) == ["eth1", "eth0"]
    assert names(selection.nccl_interfaces(nodes, socket_family="AF_INET6")) == ["eth0", "eth1"]
    assert names(selection.nccl_interfaces(nodes, socket_family="AF_INET")) == ["eth1"]
    assert names(selection.nccl_interfaces(nodes, socket_family="inet")) == ["eth1", "eth0"]


@given(st.text(alphabet="eth01lo^=,:b ", max_size=12))
def test_exclusion_is_the_complement_of_inclusion(value):
    """For any list without its own sign, `^LIST` chooses exactly what `LIST` leaves."""
    plain = value.lstrip("^=")
    given_names = {each.name for each in NODE.interfaces}
    taken = {name for name in given_names if parse_patterns(plain).accepts(name)}
    left = {name for name in given_names if parse_patterns("^" + plain).accepts(name)}
    assert taken | left == given_names
    assert not taken & left


@pytest.mark.parametrize(
    ("value", "address", "chosen"),
    [
        ("eth1", "10.0.0.1", "eth1"),
        ("eth1,eth0", "10.0.0.1", "eth1"),
        ("eth1,", "10.0.0.1", "eth1"),
        ("", "10.1.0.1", "eth1"),
        ("", "127.0.1.1", "lo"),
        ("x", "10.1.0.1", "eth1"),
    ],
)
def test_gloo_takes_the_named_interface_or_that_of_its_hostname(value, address, chosen):
    """Exact names in a comma list, else the holder of the hostname's address."""
    assert selection.gloo_interface(NODE, identity(address), value).name == chosen


@pytest.mark.parametrize("value", ["eth", "eth7", "=eth0", "eth0,eth7"])
def test_gloo_knows_no_prefixes(value):
    """A name that no interface has exactly is told with the names there are."""
    with pytest.raises(FactMissing, match=r"matches no interface \(has lo, eth0, eth1, eth10, docker0\)"):
        selection.gloo_interface(NODE, identity("10.0.0.1"), value)


def test_gloo_without_a_resolvable_hostname_is_missing_with_the_reason():
    """An unresolvable or foreign address is a missing fact, not a guess."""
    with pytest.raises(FactMissing, match="name not known"):
        selection.gloo_interface(NODE, identity(Missing("name not known")))
    with pytest.raises(FactMissing, match="no interface of this node has it"):
        selection.gloo_interface(NODE, identity("203.0.113.7"))


def training(backend, *, hostname="10.0.0.1", reached="10.0.0.1", nodes=NODE, has_peers=False, **variables):
    """What `with_training_interface` chooses."""
    who = identity(hostname)
    found = selection.with_training_interface(
        nodes, who, environment(**variables), backend=backend, reached_address=reached, has_peers=has_peers
    )
    assert found.interfaces == nodes.interfaces
    return found.training


@pytest.mark.parametrize(
    ("backend", "options", "chosen"),
    [
        ("nccl", {"NCCL_SOCKET_IFNAME": "eth1"}, "eth1"),
        ("nccl", {"NCCL_SOCKET_IFNAME": "^lo,docker", "reached": "10.1.0.1"}, "eth0"),
        ("nccl", {"GLOO_SOCKET_IFNAME": "eth1"}, "eth0"),
        ("nccl", {"reached": "10.1.0.1"}, "eth0"),
        ("nccl", {"reached": "203.0.113.7"}, "eth0"),
        ("nccl", {"nodes": network(LO, ETH0, IB0)}, "ib0"),
        ("gloo", {"GLOO_SOCKET_IFNAME": "eth1", "NCCL_SOCKET_IFNAME": "eth0"}, "eth1"),
        ("gloo", {"NCCL_SOCKET_IFNAME": "=eth1"}, "eth1"),
        ("gloo", {"NCCL_SOCKET_IFNAME": "eth", "hostname": "10.1.0.1"}, "eth1"),
        ("gloo", {"hostname": "10.1.0.1"}, "eth1"),
        ("gloo", {"hostname": "127.0.1.1", "reached": "10.1.0.1"}, "eth1"),
        ("gloo", {"hostname": "127.0.1.1", "reached": "::ffff:10.1.0.1"}, "eth1"),
        ("gloo", {"hostname": "127.0.1.1", "reached": "127.0.0.1"}, "eth0"),
        ("gloo", {"hostname": "203.0.113.7", "reached": "172.17.0.1"}, "docker0"),
        ("gloo", {"hostname": "127.0.1.1", "reached": "127.0.0.1", "nodes": network(LO)}, "lo"),
        ("nccl", {"reached": "127.0.0.1", "nodes": network(LO)}, "lo"),
    ],
)
def test_the_training_interface(backend, options, chosen):
    """The backend's variable, the hostname, the address we came by, NCCL's order; loopback when nothing else is."""
    assert training(backend, **options) == chosen


@pytest.mark.parametrize(("backend", "name"), [("nccl", "NCCL_SOCKET_IFNAME"), ("gloo", "GLOO_SOCKET_IFNAME")])
def test_a_variable_that_matches_nothing_is_told(backend, name):
    """The reason names variable, value and what there is; it is an error, not "does not apply"."""
    found = training(backend, nodes=network(ETH0, ETH1), **{name: "eth7"})
    assert found == Missing(f"{name}=eth7 matches no interface (has eth0, eth1)", "failed")


def test_among_peers_loopback_is_no_training_interface():
    """No address of it may be advised to anybody; alone, a node may well train on it."""
    for backend, name in (("nccl", "NCCL_SOCKET_IFNAME"), ("gloo", "GLOO_SOCKET_IFNAME")):
        assert training(backend, nodes=network(LO, ETH0), **{name: "lo"}) == "lo"
        found = training(backend, nodes=network(LO, ETH0), has_peers=True, **{name: "lo"})
        assert found == Missing("the training interface is lo: no peer can reach it", "failed")


def test_no_usable_interface_is_absent():
    """A node without any address has no training interface."""
    for backend in ("nccl", "gloo"):
        found = training(backend, nodes=network(interface("eth0")))
        assert found == Missing("no interface is up with an address (has eth0)", "absent")


def test_without_the_variables_nothing_is_guessed():
    """A node whose environment could not be read has no known training interface; one without identity may."""
    lost = Missing("timed out", "failed")
    found = selection.with_training_interface(
        NODE, identity("10.0.0.1"), lost, backend="nccl", reached_address="10.0.0.1"
    )
    assert found.training == lost
    found = selection.with_training_interface(NODE, lost, environment(), backend="gloo", reached_address="10.1.0.1")
    assert found.training == "eth1"
