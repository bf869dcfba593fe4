"""Is an interface that leads to no other machine known by its name?"""

from __future__ import annotations

import pytest

from preflight.knowledge import interfaces


@pytest.mark.parametrize("name", ["docker0", "br-0123456789ab", "virbr0", "tun0", "tailscale0", "wg0", "cali123"])
def test_names_of_bridges_and_tunnels_are_known(name):
    """By their first letters, as those who make them choose them."""
    assert interfaces.virtual(name)


@pytest.mark.parametrize("name", ["eth0", "ens1f0np0", "bond0", "br-ex", "ib0", "brcm0", "enp1s0.100"])
def test_real_interfaces_are_not_taken_for_them(name):
    """A VLAN, a bond and a bridge over a real port carry packets between machines."""
    assert interfaces.virtual(name) == ""
