"""Does every node grant the job the CPUs and the memory it needs, and did its kernel see anything break?"""

import pytest

from preflight.judge.tables import faults
from preflight.judge.tables.gpus import pcie_limits
from preflight.judge.tables.kernel import fragile, log, parity
from preflight.said.errors import BlameMany


@pytest.mark.advisory
def test_node_is_at_its_best(cluster):
    """CPUs run at full speed, memory is free, quotas fit the GPUs, and all members of a bond are up.

    Data loaders and NCCL's own threads share the CPUs: with too few or slow ones the GPUs wait, on every node.
    Fix: the command in each finding, on the nodes named.
    """
    faults.judge(cluster, fragile.FRAGILE, faults.itself)


@pytest.mark.advisory
def test_settings_are_the_same_on_every_node(cluster):
    """CPUs, governors, huge pages, quotas and boot options are the same on every node.

    The node with fewer CPUs or a tighter quota holds all others back, or is the one where ranks are killed.
    Fix: the command in each finding, on the nodes named.
    """
    cluster.needs_peers()
    cluster.same_rows(parity.SAME)


@pytest.mark.advisory
def test_memory_is_the_same_on_every_node(cluster):
    """Every node has as much memory as the others.

    A node with a lost memory module runs out of memory first, and has less bandwidth to it.
    Fix: `dmidecode -t memory` on the nodes named; reseat or replace the module.
    """
    cluster.needs_peers()
    parity.needs_as_much_memory(cluster)


@pytest.mark.advisory
@pytest.mark.needs("root")
def test_log_tells_of_nothing_broken(cluster):
    """The kernel's log of the last day has no OOM kill, and no error of PCIe, an adapter, memory, a CPU or storage.

    What broke yesterday breaks again: the same job on the same node. Nor does it report that a PCIe link above the slot
    limits a GPU or adapter here and none of that model elsewhere, or that its slot gives an adapter too little power.
    Fix: `dmesg -T` on the nodes named.
    """
    blames = faults.blames(cluster, log.LOG, faults.itself)
    blames += [*pcie_limits.limited(cluster), *pcie_limits.underpowered(cluster)]
    if blames:
        raise BlameMany(blames)


@pytest.mark.advisory
def test_no_process_was_killed_during_the_run(ending):
    """No process of a node was OOM-killed while preflight ran.

    The next to be killed is a rank of the job, and its peers wait for it.
    Fix: `dmesg -T | grep -i "killed process"` on the nodes named; end what holds the memory.
    """
    faults.judge(ending, log.KILLED, faults.itself)
