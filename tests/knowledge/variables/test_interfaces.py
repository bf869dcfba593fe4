"""Is what the variables of interfaces choose, and what no machine can choose by them, read as NCCL and Gloo do?"""

from __future__ import annotations

import pytest

from preflight.knowledge.variables.interfaces import GLOO, NCCL, leads_home, matches_nothing, parse_patterns


@pytest.mark.parametrize(
    ("written", "port"),
    [("mlx5_0:1", 1), ("mlx5_0", None), ("mlx5_0:1:2:3", 1), ("mlx5_0::1", None), ("mlx5_0:::2", None)],
)
def test_rail_and_plane_may_follow_the_port(written, port):
    """As NCCL 2.30 reads them; an empty port is any."""
    (entry,) = parse_patterns(written).entries
    assert (entry.name, entry.port) == ("mlx5_0", port)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        *((NCCL, value) for value in ("10.0.0.1", "=10.0.0.1", "fd00::1", "10.0.0.0/24", "10.0.0.1,10.0.0.2")),
        *((NCCL, value) for value in ("a_name_of_sixteen", "/dev/eth0")),
        *((GLOO, value) for value in ("10.0.0.1", "eth0,10.0.0.1", "^lo", "=eth0", "eth0 ", "eth0, eth1")),
    ],
)
def test_a_value_that_no_machine_has_an_interface_for(variable, value):
    """Addresses, paths and names that the kernel does not take; for Gloo also NCCL's own signs."""
    assert matches_nothing(variable, value).startswith(f"{variable}={value}: ")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        *((NCCL, value) for value in ("eth", "=eth0", "^10.0.0.1,lo", "eth0,10.0.0.1", "bond0.2093", "eth0:1", "10")),
        *((GLOO, value) for value in ("eth0", "eth0,eth1", "enp1s0f0np0", "eth0,", "e")),
    ],
)
def test_a_value_that_some_machine_has_an_interface_for(variable, value):
    """NCCL goes on with the entries that match, and both ignore a single letter."""
    assert matches_nothing(variable, value) == ""


@pytest.mark.parametrize(
    ("variable", "value", "is_home"),
    [
        *((NCCL, value, True) for value in ("lo", "=lo", "docker0", "^docker0", "^docker", "^=docker0", "lo,eth0")),
        *((NCCL, value, True) for value in ("docker0,virbr0", "^=loo", "^")),
        *((NCCL, value, False) for value in ("eth", "^docker,lo", "^lo", "^=lo,docker0", "docker0,eth0", "br0", "^=")),
        *((GLOO, value, True) for value in ("lo", "docker0", "lo,eth0")),
        *((GLOO, value, False) for value in ("eth0", "eth0,docker0")),
    ],
)
def test_a_value_that_leads_to_no_other_node(variable, value, is_home):
    """NCCL starts on lo unless it is left out; Gloo offers the address of the first name."""
    assert bool(leads_home(variable, value)) is (is_home and len(value) > 1)


def test_the_loopback_address_of_ipv6_is_not_taken():
    """NCCL leaves it out by itself."""
    assert leads_home(NCCL, "^docker0", family="AF_INET6") == ""
