"""Does every node offer the same GPUs, and are they free?"""

import pytest

from preflight.errors import NotApplicable


def test_devices_are_readable(node):
    """The driver of a node that has one tells its GPUs.

    nvidia-smi that hangs or ends with an error means a driver that no rank can use either, or one that was updated
    and not reloaded ("Driver/library version mismatch").
    Fix: `nvidia-smi` on the nodes named; reload the driver (`rmmod nvidia_uvm nvidia && modprobe nvidia`) or reboot.
    """
    told = node.gpu.trouble()
    assert not told, f"the GPUs cannot be read: {told}"


def test_count_is_the_same_on_every_node(cluster):
    """Every node has the same number of GPUs.

    A launcher starts as many ranks on each node as on the others: where a GPU has fallen off the bus, a rank ends
    with "invalid device ordinal" and the job hangs.
    Fix: `nvidia-smi -L` and `dmesg | grep -i -e xid -e nvrm` on the nodes named; reboot, or name fewer ranks per node.
    """
    cluster.needs_peers()
    if not any(cluster.gather(lambda node: node.gpu.readable()).values()):
        raise NotApplicable("no GPU on any node")
    cluster.same(lambda node: len(node.gpu.readable()), "number of GPUs")


def test_model_is_the_same_on_every_node(cluster):
    """Every GPU of every node is of the same model, with the same memory, and none is partitioned where others are not.

    A smaller GPU runs out of memory first, a slower one holds every step back, and a MIG slice cannot join NCCL.
    Fix: leave the nodes named out, or set the same MIG mode everywhere (`nvidia-smi -mig 0`).
    """
    cluster.needs_peers()
    cluster.same(lambda node: node.gpu.models(), "GPU model")


@pytest.mark.advisory
def test_no_other_program_uses_them(node):
    """No program holds a GPU of the node before the job starts.

    What a program left behind still holds is missing to the job: it runs out of memory, or shares its time.
    Fix: `nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv` on the nodes named; end those programs.
    """
    if not node.gpu.readable():
        raise NotApplicable("no GPU on this node")
    busy = [str(gpu.index) for gpu in node.gpu.readable() if gpu.is_busy()]
    assert not busy, f"other programs use GPU {', '.join(busy)}"
