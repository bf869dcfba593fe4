"""Does every node offer the same GPUs, whole, free and at full speed?"""

import pytest

from preflight.facts.value import Missing, or_none, present
from preflight.judge.tables import faults, gpu_models, visible
from preflight.judge.tables.gpus import broken, counters, domains, log, parity, pcie_paths, peers, readiness, slowed
from preflight.said import said
from preflight.said.errors import Blame, BlameMany, BlockedBy, NotApplicable


def test_devices_are_readable(node):
    """Where a node has a GPU driver, the driver lists the GPUs.

    nvidia-smi that hangs or ends with an error means a driver that no rank can use either, or one that was updated
    and not reloaded ("Driver/library version mismatch").
    Fix: `nvidia-smi` on the nodes named; reload the driver (`rmmod nvidia_uvm nvidia && modprobe nvidia`) or reboot.
    """
    message = node.gpu.trouble()
    assert not message, said("the GPUs cannot be read: {message}", message)
    if not node.gpu.readable() and or_none(node.gpu.driver, "driver") == "none":
        raise NotApplicable("no GPU, and no driver of one")


def test_count_is_the_same_on_every_node(cluster):
    """Every node has the same number of GPUs, and shows the same number to the job.

    A launcher starts as many ranks on each node as on the others: where a GPU has fallen off the bus, a rank ends with
    "invalid device ordinal" and the job hangs.
    Fix: `nvidia-smi -L` and `dmesg | grep -i -e xid -e nvrm` on the nodes named; reboot, or name fewer ranks per node;
    where a variable hides some, unset it.
    """
    faults.needs_gpus(cluster)
    cluster.needs_peers()
    cluster.same(lambda node: len(node.gpu.countable()), "number of GPUs")
    cluster.same(
        lambda node: len(visible.gpus(node)) if node.gpu.countable() else 0, "number of GPUs that the job sees"
    )


def test_every_gpu_on_the_bus_is_listed(node):
    """Every GPU that the kernel finds on the PCI bus is one that the driver lists.

    Where the driver is gone a node looks like one without GPUs, and a job runs on its CPUs; where a GPU has fallen off
    the bus, a rank ends with "invalid device ordinal".
    Fix: `lspci -k -d 10de:`, `nvidia-smi -L` and `dmesg | grep -i -e xid -e nvrm` on the nodes named; load the driver,
    or reboot. Where nouveau holds them, `blacklist nouveau` in /etc/modprobe.d; Secure Boot refuses unsigned modules.
    """
    hidden = node.gpu.why_bus_says_nothing()
    if hidden:
        raise NotApplicable(hidden)
    if isinstance(node.gpu.on_bus, Missing) and node.gpu.on_bus.kind == "absent" and node.gpu.readable():
        raise NotApplicable(node.gpu.on_bus.missing)
    message = node.gpu.are_all_listed()
    if message:
        raise Blame(message, nodes=[node.name], is_advisory=node.backend != "nccl")
    if not node.gpu.readable():
        raise NotApplicable(faults.NO_GPU)


def test_visible_devices_exist(node, cluster):
    """Every GPU that CUDA_VISIBLE_DEVICES (or the variable of HIP, ROCr or NVIDIA's containers) names is there.

    CUDA silently ends the list at the first one that does not exist: ranks end with "invalid device ordinal" or find no
    GPU.
    Fix: `unset CUDA_VISIBLE_DEVICES` in ~/.bashrc, the image or the batch file of the nodes named.
    """
    if not visible.choice(node)[0]:
        raise NotApplicable("no variable chooses among the GPUs")
    message = visible.trouble(node)
    most = cluster.once("most GPUs of a node", lambda: max(peer.gpu_count() for peer in cluster))
    if message and cluster.has_peers and len(node.gpu.readable()) < most:
        raise BlockedBy("gpu.count_is_the_same_on_every_node")
    assert not message, said("{message} (set by {source})", message, node.setting(visible.choice(node)[0]).source())


def test_model_is_the_same_on_every_node(cluster):
    """Every GPU of every node is of the same model, with the same memory, and none is partitioned where others are not.

    A smaller GPU runs out of memory first, a slower one holds every step back, and a MIG slice cannot join NCCL.
    Fix: leave the nodes named out, or set the same MIG mode everywhere (`nvidia-smi -mig 0`).
    """
    faults.needs_gpus(cluster)
    cluster.needs_peers()
    cluster.same(lambda node: node.gpu.models(), "GPU model")


@pytest.mark.advisory
def test_none_is_partitioned(cluster):
    """No GPU of a job over several nodes is split into MIG slices.

    NCCL has neither NVLink nor PCIe between slices, and two slices of one GPU cannot be in one communicator.
    Fix: `nvidia-smi -mig 0` on the nodes named, then reset the GPUs.
    """
    faults.needs_gpus(cluster)
    cluster.needs_peers()
    split = cluster.gather(lambda node: any(gpu.is_partitioned for gpu in node.gpu.readable()))
    if any(split.values()):
        raise Blame("GPUs are in MIG mode", nodes=[name for name, is_split in split.items() if is_split])


def test_driver_runs_the_cuda_of_torch(cluster):
    """The driver is new enough for the CUDA that torch was built with.

    torch then finds no GPU, or ends with "CUDA driver version is insufficient for CUDA runtime version".
    Fix: a newer driver on the nodes named, or torch for an older CUDA (`--index-url https://download.pytorch.org/whl/cuXYZ`).
    """
    faults.needs_gpus(cluster)
    faults.judge(cluster, readiness.DRIVER, faults.itself)


def test_torch_has_code_for_them(cluster):
    """The CUDA that torch was built with knows the GPUs of the node.

    torch then ends with "no kernel image is available for execution on the device", often at the first operation only.
    Fix: torch for another CUDA (`--index-url https://download.pytorch.org/whl/cuXYZ`) on the nodes named.
    """
    faults.needs_gpus(cluster)
    faults.judge(cluster, gpu_models.CODE, faults.itself)


def test_none_is_broken(cluster):
    """No GPU has memory errors, waits for a reset, or stays out of the NVLink fabric.

    A broken row of memory ends a job hours later or spoils its numbers; without the fabric CUDA ends with "system not
    yet initialized" (802).
    Fix: `nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT` on the nodes named; reset the GPU, reboot or replace it.
    """
    faults.needs_gpus(cluster)
    faults.judge(cluster, broken.BROKEN, faults.gpus, noun="GPU", kind=faults.model, board=lambda gpu: gpu.board)


@pytest.mark.advisory
def test_none_is_held_back(cluster):
    """No GPU is slowed down by heat or power, sits on a narrow link, or is in a mode that makes a job fail.

    One slow GPU sets the pace of all ranks on all nodes.
    Fix: `nvidia-smi -q -d PERFORMANCE,CLOCK,POWER` on the nodes named.
    """
    faults.needs_gpus(cluster)
    faults.judge(cluster, slowed.SLOWED, faults.gpus, noun="GPU", kind=faults.model, board=lambda gpu: gpu.board)


@pytest.mark.advisory
def test_settings_are_the_same_on_every_node(cluster):
    """Power limit, persistence, ECC and PCIe links of the GPUs are the same on every node.

    A lower power limit or a narrower link on one node holds every step of all the others back.
    Fix: `nvidia-smi -q` on a node named and on one that is not; set what differs.
    """
    faults.needs_gpus(cluster)
    cluster.needs_peers()
    faults.judge_equals(cluster, lambda equals: equals.same_rows(parity.SAME))


@pytest.mark.advisory
def test_firmware_is_the_same_on_every_node(cluster):
    """Every part of the GPUs runs the same firmware on every node, where the driver reports it.

    Boards with other firmware clock, throttle and recover differently: one node is slower, or hangs, and others do not.
    Fix: `amd-smi firmware` or `nvidia-smi -q | grep -i firmware` on a node named and on one that is not; install
    the same bundle of the vendor on all of them.
    """
    faults.needs_gpus(cluster)
    cluster.needs_peers()
    faults.judge_equals(cluster, lambda equals: faults.same_by_name(equals, parity.firmware, "GPU firmware"))


def test_fabric_manager_runs_where_it_is_needed(cluster):
    """Where there are NVSwitches, Fabric Manager has joined the GPUs to the fabric.

    Without it no CUDA program starts on that node: "system not yet initialized" (802).
    Fix: `systemctl enable --now nvidia-fabricmanager` in the driver's own version on the nodes named.
    """
    faults.needs_gpus(cluster)
    faults.judge(cluster, readiness.FABRIC, faults.itself)


def test_nvlinks_are_up(cluster):
    """Every GPU has all its NVLinks, or AMD's xGMI links, up, as many as the same GPU of other nodes.

    NCCL works around a lost link: over the remaining ones, or over PCIe at a tenth of the speed; NVSwitch systems may
    not start.
    Fix: `nvidia-smi nvlink -s` or `amd-smi xgmi --link-status` on the nodes named; reset the GPUs, then have the
    baseboard looked at.
    """
    faults.needs_gpus(cluster)
    links = cluster.gather(lambda node: node.gpu.nvlinks())
    whole = [cluster[name].gpu.models() for name in links if cluster[name].gpu.has_every_nvlink()]
    down = {
        name: words
        for name in links
        if (words := _inactive_nvlinks(cluster[name].gpu, is_usual=2 * len(whole) >= len(links), whole=whole))
    }
    if down:
        raise BlameMany(Blame(words, nodes=[name]) for name, words in down.items())
    cluster.same(lambda node: node.gpu.nvlinks(), "active NVLinks of the GPUs")


def test_gpus_reach_each_others_memory(cluster):
    """GPUs that NVLink joins may read and write each other's memory, and the others as on nodes of the same GPUs.

    NCCL ends with "P2P is disabled between NVLINK connected GPUs"; without NVLink the data goes through host memory,
    and a node where it has to is slower than its equals. Cards that never have peer access are not a fault.
    Fix: `nvidia-smi topo -p2p r` on the nodes named; restart nvidia-fabricmanager, reset the GPUs, and switch ACS and a
    translating IOMMU off as on the others.
    """
    faults.needs_gpus(cluster)
    blames = peers.closed_peers(cluster)
    if blames:
        raise BlameMany(blames)


@pytest.mark.advisory
def test_an_nvlink_domain_is_of_one_clique(cluster):
    """Nodes whose GPUs are in one NVLink domain (NVL72) are in one clique of the domain.

    NCCL otherwise does not use NVLink between them and goes over the network: a tenth of the bandwidth.
    Fix: `nvidia-smi -q | grep -A6 Fabric` on the nodes named; put their GPUs into one partition of the NVLink switches,
    or take nodes of one clique.
    """
    faults.needs_gpus(cluster)
    blames = domains.cliques_apart(cluster)
    if blames:
        raise BlameMany(blames)


def test_imex_joins_an_nvlink_domain(cluster):
    """Where NVLink joins several nodes (NVL72), IMEX runs on each, knows them all, and has a channel for the job.

    NCCL finds the NVLink between the nodes and takes it: where IMEX fails it, every rank there ends with "MNNVL is
    available but not working on this system". NCCL_MNNVL_ENABLE=0 goes over the network instead, ten times slower.
    Fix: `nvidia-imex-ctl -N` on the nodes named; `systemctl enable --now nvidia-imex`, the same nodes_config.cfg
    everywhere, and for containers the device /dev/nvidia-caps-imex-channels/channel0.
    """
    faults.needs_gpus(cluster)
    blames = domains.judge_imex(cluster)
    if blames:
        raise BlameMany(blames)


@pytest.mark.needs("root")
def test_kernel_log_tells_of_no_broken_gpu(cluster):
    """The kernel's log of the last day has no Xid or SXid after which a GPU or switch needs a reset or a replacement.

    Such a GPU may still answer nvidia-smi, and takes the job down at the next step. What only indicates wear, such as a
    remapped row, is a warning. What the driver has recovered since is over; a GPU that it lost and does not list counts
    however long ago.
    Fix: `dmesg -T | grep -e Xid -e NVRM` on the nodes named; reset the GPU or reboot, and replace it if it comes back.
    """
    faults.needs_gpus(cluster)
    faults.judge(cluster, log.LOG, faults.itself)


@pytest.mark.needs("root")
def test_none_broke_during_the_run(ending):
    """The kernel's log has no Xid or SXid that came while preflight ran and asks for a reset or a replacement.

    A GPU or an NVSwitch that breaks under a few minutes of load takes the job down within its first hours.
    Fix: `dmesg -T | grep -e Xid -e NVRM` on the nodes named; take the node out, and have the GPU or switch replaced.
    """
    faults.needs_gpus(ending)
    faults.judge(ending, log.LOG_OF_RUN, faults.itself)


def test_none_counted_pcie_errors_during_the_run(ending):
    """No GPU had an uncorrected error on PCIe while preflight ran, nor hundreds that were corrected.

    After an uncorrected one the GPU falls off the bus, or what it sent is wrong; corrected ones slow every copy down.
    Fix: `cat /sys/bus/pci/devices/<address>/aer_dev_*` on the nodes named; reseat the GPU or its riser, or replace it.
    """
    faults.needs_gpus(ending)
    faults.judge(ending, counters.PCIE_ERRORS, counters.watched_errors, noun="GPU at")


@pytest.mark.advisory
def test_nvlinks_counted_no_errors_during_the_run(ending):
    """No NVLink had to recover or to send again while preflight ran.

    A link that does so under load holds up every collective that crosses it, and is the next to go down. A few CRC
    errors are corrected in time and are not a fault.
    Fix: `nvidia-smi nvlink -e` on the nodes named; reset the GPUs, then have the baseboard or the cable looked at.
    """
    faults.needs_gpus(ending)
    faults.judge(
        ending, counters.NVLINK_ERRORS, counters.watched_links, noun="GPU", board=lambda links: links.gpu.board
    )


@pytest.mark.advisory
def test_adapters_are_as_near_on_every_node(cluster):
    """Each GPU has the same network adapters near it on every node, and its own where there is one for each.

    Where a PCIe bridge hides the nearness, two GPUs share an adapter and another lies idle: that node is slower.
    Fix: `nvidia-smi topo -m` on a node named and on one that is not; correct BIOS or VM, or give NCCL_TOPO_FILE.
    """
    faults.needs_gpus(cluster)
    topologies = cluster.gather(lambda node: present(node.gpu.topology, "topology"))
    shared = {name: topology.shared_adapters() for name, topology in topologies.items()}
    blames = [Blame(words, nodes=[name]) for name, words in shared.items() if words]
    # Functions of one adapter are handed out to containers in any order.
    is_named = not all(node.is_confined() for node in cluster)
    groups = cluster.group_by(lambda node: present(node.gpu.topology, "topology").summary(is_named=is_named))
    blames += cluster.differing(groups, "adapters near the GPUs") if cluster.has_peers else []
    if blames:
        raise BlameMany(blames)


@pytest.mark.advisory
def test_iommu_leaves_peer_to_peer_alone(cluster):
    """Where GPUs talk over PCIe, no IOMMU translates what they send each other.

    Peer-to-peer through a translating IOMMU is slow at best; all-reduce hangs, and works with NCCL_P2P_DISABLE=1.
    Fix: start the kernel of the nodes named with `iommu=pt`, or switch the IOMMU off in the BIOS.
    """
    faults.needs_gpus(cluster)
    faults.judge(cluster, pcie_paths.IOMMU, faults.itself)


@pytest.mark.advisory
@pytest.mark.needs("root")
def test_acs_leaves_peer_to_peer_alone(cluster):
    """No PCIe bridge above a GPU redirects what devices send each other (ACS).

    NCCL deadlocks or is slow over such a bridge, between GPUs and between a GPU and its network adapter.
    Fix: `setpci -s <bridge> ECAP_ACS+0x6.w=0000` on the nodes named, or switch ACS off in the BIOS.
    """
    faults.needs_gpus(cluster)
    faults.judge(cluster, pcie_paths.ACS, faults.itself)


@pytest.mark.advisory
def test_no_other_program_uses_them(cluster):
    """No program holds a GPU of the node before the job starts.

    The job lacks the memory that a leftover program still holds, or shares the GPU with it.
    Fix: `nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv` on the nodes named; end those programs.
    """
    faults.needs_gpus(cluster)
    faults.judge(cluster, readiness.BUSY, faults.itself)


@pytest.mark.advisory
def test_none_is_reserved_for_others(cluster):
    """The engine of the cluster, where it counts GPUs as Ray does, has reserved none of them for another job.

    GPUs of a placement group look idle before anything runs there: what is measured on them now is measured beside
    that job, and a job of ours waits for its own, or shares them.
    Fix: wait until the job named has ended (`ray job list`), stop it, or start preflight within it; a group that
    outlives its job, with the ID above: `python -c "import ray; ray.init('auto'); from ray.util.placement_group import
    PlacementGroup as Group; ray.util.remove_placement_group(Group(ray.PlacementGroupID(bytes.fromhex('ID'))))"`.
    """
    counted = cluster.of_those_asked(lambda node: node.engine.gpus)
    if not any(counted.values()) and not cluster.unmeasured:
        raise NotApplicable("no engine counts GPUs of these nodes (Ray does, where --hosts=ray leads to them)")
    faults.judge(cluster, readiness.RESERVED, faults.itself)


def _inactive_nvlinks(gpus, *, is_usual, whole):
    """Links that are down; of cards too, where most nodes have their bridges and one of these has the same cards."""
    return gpus.inactive_nvlinks(is_bridged=is_usual and gpus.models() in whole)
