"""Are variables told that a login to another node, or sudo, leaves behind?"""

from __future__ import annotations

import pytest

from tests.launch.samples import judged

RUN = "torchrun --nnodes=2 --nproc_per_node=8 --node_rank={} --master_addr=n0 --master_port=29500 t.py"
LOOP = 'export {}\nfor i in 0 1; do\n  ssh n$i "{}{}" &\ndone\nwait\n'


@pytest.mark.parametrize(
    ("exported", "inside", "is_told"),
    [
        ("NCCL_SOCKET_IFNAME=eth0", "", True),
        ("NCCL_SOCKET_IFNAME=eth0", "source ~/venv/bin/activate; ", True),
        ("NCCL_SOCKET_IFNAME=eth0", "NCCL_SOCKET_IFNAME=eth0 ", False),
        ("NCCL_SOCKET_IFNAME=eth0", "export NCCL_SOCKET_IFNAME=eth0; ", False),
        ("NCCL_SOCKET_IFNAME=eth0", "source /opt/env.sh; ", False),
        ("NCCL_DEBUG=INFO", "", False),
        ("OMP_NUM_THREADS=4", "", False),
    ],
)
def test_what_ssh_leaves_behind_is_told(exported, inside, is_told):
    """Not what the other side sets itself, or may read from a file, nor what steers nothing."""
    found = judged({"go.sh": LOOP.format(exported, inside, RUN.format("$i"))})
    assert ("launch.variables_are_exported" in [finding.check for finding in found]) is is_told


@pytest.mark.parametrize(
    ("given", "is_told"),
    [("sudo", True), ("sudo -E", False), ("sudo --preserve-env", False), ("sudo NCCL_SOCKET_IFNAME=eth0", False)],
)
def test_what_sudo_leaves_behind_is_told(given, is_told):
    """It clears the variables unless it is told to keep them."""
    found = judged({"n0.sh": f"export NCCL_SOCKET_IFNAME=eth0\n{given} {RUN.format(0)}\n"})
    assert ("launch.variables_are_exported" in [finding.check for finding in found]) is is_told
