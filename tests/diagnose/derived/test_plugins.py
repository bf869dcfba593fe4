"""Is the network plug-in named that was asked for, not the network that NCCL took last?"""

from __future__ import annotations

import pytest

from preflight.diagnose import diagnose

ASKED = "n1:11:11 [0] NCCL INFO NCCL_NET_PLUGIN set by environment to {}"
LOST = "n1:11:11 [0] NCCL INFO NET/Plugin: Could not find: {} libnccl-net-{}.so. Using internal network plugin."
GOES_ON = (
    "n1:11:11 [0] NCCL INFO NET/IB : No device found.",
    "n1:11:11 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>",
    "n1:11:11 [0] NCCL INFO Using network Socket",
    *(f"step {n} loss 2.{n}" for n in range(9)),
)


def notes(*lines):
    """What is noted beside, by name."""
    return {one.cause.name: one.detail for one in diagnose(lines).notes}


def test_a_plugin_that_was_asked_for_and_lost_is_named():
    """It is a reason why the job is slow."""
    found = diagnose([ASKED.format("ofi"), LOST.format("ofi", "ofi"), *GOES_ON])
    assert [one.detail for one in found.slowing if one.cause.name == "nccl-plugin-lost"] == [
        "ofi was asked for and was not found; NCCL uses socket"
    ]
    assert not found.has_failed


@pytest.mark.parametrize(
    "lines",
    [
        (LOST.format("", "x"), *GOES_ON),
        (ASKED.format("IB"), LOST.format("", "x"), *GOES_ON),
        (ASKED.format("AWS Libfabric"), LOST.format("", "x"), "n1:1:1 [0] NCCL INFO Using network AWS Libfabric"),
    ],
)
def test_a_plugin_that_nobody_asked_for_or_that_runs_is_not_missed(lines):
    """NCCL always looks for one."""
    assert "nccl-plugin-lost" not in notes(*lines)


@pytest.mark.parametrize(
    ("line", "network"),
    [
        ("n1:11:11 [0] NCCL INFO NET/OFI Selected Provider is efa (found 4 nics)", "efa (4 adapters)"),
        ("n1:11:11 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found 16 nics)", "efa (16 adapters)"),
    ],
)
def test_the_provider_of_libfabric_counts_as_the_network(line, network):
    """With as many adapters as it found."""
    assert diagnose([line]).job.networks == (network,)
