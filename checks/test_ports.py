"""Are there enough ports for the connections of a job?"""

import pytest

from preflight.said import said


@pytest.mark.advisory
def test_ephemeral_ports_are_enough(node, settings):
    """The range of ports that the kernel hands out is wide, and mostly free.

    NCCL and gloo take one of its ports for every listener and every connection: a job of hundreds of ranks ends with
    "Address already in use" or "Cannot assign requested address" at its start.
    Fix: `sysctl -w net.ipv4.ip_local_port_range="32768 60999"` on the nodes named; `ss -tan` lists what uses it.
    """
    low, high = node.network.ephemeral_ports
    reserved = node.network.ports_kept_back()
    width, wanted = high - low + 1 - reserved, settings.network.ephemeral_ports_min
    kept = said(" beside the {reserved} of net.ipv4.ip_local_reserved_ports", reserved) if reserved else ""
    assert width >= wanted, said(
        "the ephemeral range {low}-{high} has {width} ports{kept}; wanted at least {wanted}",
        low,
        high,
        width,
        kept,
        wanted,
    )
    used, share = node.ports.used_ephemeral(), settings.network.ephemeral_used_share
    assert used <= share * width, said(
        "{used} of {width} ephemeral ports are in use; wanted at most {share:.0%}", used, width, share
    )
