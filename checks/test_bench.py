"""Do collectives give the right result, as fast as the links allow?"""

import pytest

from preflight.judge.tables import devices
from preflight.said import joined
from preflight.said.errors import Blame, BlameMany


def test_all_reduce_is_correct(bench):
    """Every element that an all-reduce returned, on every rank, is the exact sum.

    A wrong sum is silent: the loss is a little off, and the model never trains well. Broken memory, a broken GPU or
    a broken NIC causes it.
    Fix: leave the nodes named out, and test their GPUs (`dcgmi diag -r 3`) and memory.
    """
    bench.needs_correct(bench.all_reduce().op)


def test_other_collectives_are_correct(bench):
    """Every element that the other collectives returned, on every rank, is exactly right.

    Sharded training depends on all_gather and reduce_scatter, mixtures of experts on all_to_all: wrong parameters are
    as silent as a wrong sum.
    Fix: leave the nodes named out, and test their GPUs (`dcgmi diag -r 3`) and memory.
    """
    bench.needs_correct(*bench.others())


def test_every_rank_maps_the_same_nccl(bench):
    """The NCCL that each rank really loaded is the same everywhere.

    LD_LIBRARY_PATH and LD_PRELOAD can put another library before the one that was installed with torch: ranks of
    different versions refuse each other or hang.
    Fix: `LD_DEBUG=libs python -c 'import torch' 2>&1 | grep nccl` on the nodes named; unset what points to
    another copy.
    """
    bench.same_nccl()


def test_no_node_is_slower_than_its_peers(bench):
    """No node sends or receives much more slowly than the others do.

    A ring is as fast as its slowest link: one bad cable, port or negotiated rate slows every rank of the job. Where
    NCCL does not go over TCP its own pairs are measured: rail by rail between nodes, GPU by GPU within them; and each
    RDMA port by itself with ib_write_bw, where perftest is installed on every node.
    Fix: `ethtool <interface>` or `ibstat <device>`, and their error counters, on the nodes named; change the cable or
    the port of the switch, or leave the nodes out; within a node `nvidia-smi nvlink -s`.
    """
    slow = bench.slow_blames()
    if slow:
        raise BlameMany(slow)


def test_both_ends_of_a_stream_agree(bench):
    """Both ends of a stream between two nodes measure about the same bandwidth.

    The lower of the two figures counts; where they are far apart, neither does: a node with a broken clock, or one
    that reports false figures, would make its peers look slow or hide that it is slow itself. A stream that never
    reached its receiver counts for neither as well. A node that explains several such streams is named alone.
    Fix: `cat /sys/devices/system/clocksource/clocksource0/current_clocksource` and `chronyc tracking` on the nodes
    named; where the clock is right, leave the node out until it is known who runs what there.
    """
    apart = bench.contradictions()
    if apart:
        raise BlameMany(apart)


def test_no_group_is_slower_than_the_others(bench, settings):
    """Where groups of ranks are measured separately, none is much slower than the others.

    A slow group within a node (--scope intra) means that node's NVLink or PCIe, a slow rail (--scope rails) its
    adapters, cables or leaf switch: the ring over all ranks is as slow as they are.
    Fix: `nvidia-smi nvlink -s` and `nvidia-smi topo -m` on a node named; for a rail look at its ports and its switch.
    """
    slow = bench.slow_groups(share=settings.bench.slow_below)
    if slow:
        raise BlameMany(slow)


def test_gpus_multiply_alike_every_time(bench):
    """A GPU that multiplies the same matrices again gets the same product.

    One that does not corrupts gradients silently: the loss is a little off, or NaN after days. The numbers are whole
    and small: there is one right product, in whatever order a library adds.
    Fix: leave the nodes named out; `dcgmi diag -r 3` there, and have the GPU replaced.
    """
    wrong = devices.wrong(bench.gpus())
    if wrong:
        raise BlameMany(wrong)


def test_no_gpu_is_slower_than_its_equals(bench, settings):
    """No GPU computes, or moves data, much more slowly than the others of its model.

    Every rank waits for the slowest: one GPU that is hot, short of power or on a narrow slot holds back all the others.
    Fix: `nvidia-smi -q -d PERFORMANCE,CLOCK,POWER,TEMPERATURE` on the nodes named; look at fans, power, the PCIe slot.
    """
    slow = devices.outliers(bench.gpus(), share=settings.bench.gpu_below)
    if slow:
        raise BlameMany(slow)


@pytest.mark.advisory
def test_no_gpu_is_slowed_down_under_load(bench):
    """Under load no GPU lowers its clock for heat or power, has hot memory, a slow PCIe link or all its cores far away.

    It happens under load only: an idle GPU looks healthy. All ranks wait for it, and it comes and goes with the
    temperature of the room.
    Fix: `nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER` under load on the nodes named; look at fans and cables;
    for a PCIe link below its generation check how the GPU is seated, its riser and the BIOS. Give each rank cores
    beside its GPU: `srun --gpus-per-task=1 --gpu-bind=closest`, `mpirun --bind-to numa`, the topology manager of
    Kubernetes.
    """
    measured = bench.gpus()
    devices.needs_sensors(measured)
    slowed = [*devices.slowed(measured), *devices.strained(measured)]
    if slowed:
        raise BlameMany(slowed)


@pytest.mark.advisory
def test_gpus_are_what_their_data_sheet_says(bench, settings):
    """Every GPU reaches the share of its data sheet that GPUs of its kind usually reach.

    Where all are equally slow, a power limit, a low clock, a virtual machine or an older slot is the cause.
    Fix: `nvidia-smi -q -d POWER,CLOCK` and `nvidia-smi -q | grep -A9 "GPU Link Info"` on the nodes named.
    """
    limits = settings.bench
    shares = {
        "matmul_tflops_per_s": limits.matmul_below,
        "memory_gbytes_per_s": limits.memory_below,
        "host_gbytes_per_s": limits.host_below,
    }
    below = devices.below_model(bench.gpus(), shares=shares)
    if below:
        raise BlameMany(below)


def test_all_reduce_reaches_the_expected_bandwidth(bench, settings):
    """An all-reduce over all ranks is as fast as the links' rate lets it be.

    Bandwidth that is lost here is lost in every step of the job, whatever its size. NCCL is told to use a ring here
    (NCCL_ALGO=Ring), because only a ring's bandwidth is that of the links. Where even healthy nodes differ, the result
    is compared with a floor.
    Fix: `NCCL_DEBUG=INFO` shows which network NCCL took (NET/IB or NET/Socket); `ethtool <interface>` the link's rate.
    """
    measured = tuple(dict.fromkeys((bench.by_ring(), bench.all_reduce())))
    for result in measured:
        bench.needs_rate(result)
    share, impossible = settings.bench.fail_below, settings.bench.impossible_above
    words = [
        bench.shortfall(result, share=share, impossible_above=impossible, needs_certainty=True) for result in measured
    ]
    if any(words):
        bench.needs_equal_gpus(share=settings.bench.gpu_below)
        raise Blame(joined(filter(None, words)), nodes=bench.nodes_in(bench.all_reduce()))


def test_other_collectives_reach_the_expected_bandwidth(bench, settings):
    """The other collectives over all ranks are as fast as the links' rate lets them be.

    This judges the collectives that the links limit: with Gloo sendrecv, and broadcast between two ranks; with NCCL
    all but gather and scatter, where sendrecv and all_to_all are measured against the ports of one GPU.
    Fix: `NCCL_DEBUG=INFO` shows which network NCCL took (NET/IB or NET/Socket); `ethtool <interface>` the link's rate.
    """
    share, impossible = settings.bench.fail_below, settings.bench.impossible_above
    gated = bench.gated()
    for result in gated:
        bench.needs_rate(result)
    values = {
        bench.shortfall(result, share=share, impossible_above=impossible, needs_certainty=True): result
        for result in gated
    }
    if any(values):
        bench.needs_equal_gpus(share=settings.bench.gpu_below)
        raise BlameMany([Blame(words, nodes=bench.nodes_in(result)) for words, result in values.items() if words])


def test_nccl_uses_the_rdma_ports(bench):
    """NCCL talks over RDMA wherever a node has an active RDMA port.

    Without a usable port, or without the plugin that EFA needs, NCCL falls back to TCP sockets and says so in its log
    only: the job runs, but slowly.
    Fix: read the rank's log under logs/ of this run with `NCCL_DEBUG=INFO`; look at NCCL_IB_HCA, NCCL_IB_DISABLE, the
    memlock limit, and whether the container has /dev/infiniband.
    """
    blames = bench.nccl.sockets_beside_rdma()
    if blames:
        raise BlameMany(blames)


def test_nccl_uses_every_port(bench):
    """NCCL takes every active RDMA port that NCCL_IB_HCA names, or that it takes on the other nodes.

    NCCL silently leaves out a port that it cannot open: the node has one rail fewer, and every ring waits for it.
    Fix: `ibv_devinfo -d <device>` in the job's container on the nodes named; the same devices for all containers.
    """
    blames = bench.nccl.ports_left_out()
    if blames:
        raise BlameMany(blames)


def test_nccl_does_the_same_on_every_node(bench):
    """NCCL took the same network, the same ways between nodes and GPUs, and the same channels on every node.

    All ranks wait for the one that goes through host memory, without GPUDirect, or without NVLS.
    Fix: compare the logs of two nodes under logs/ of this run.
    """
    blames = bench.nccl.differences()
    if blames:
        raise BlameMany(blames)


@pytest.mark.advisory
def test_nccl_finds_the_same_topology_on_every_node(bench):
    """NCCL finds the same PCIe links, NVLinks, adapters and CPUs on every node, and plans the same channels over them.

    What a virtual machine, a container or a slot hides from it on one node makes the rings of all nodes slower.
    Fix: `NCCL_TOPO_DUMP_FILE=/tmp/topo.xml` in the job's environment of a node named and of one that is not; correct
    BIOS, virtual machine or container, or give all nodes the same NCCL_TOPO_FILE.
    """
    blames = bench.other_topologies()
    if blames:
        raise BlameMany(blames)


def test_nccl_loads_the_plugin_that_was_asked_for(bench):
    """Where NCCL_NET_PLUGIN names a network plugin, NCCL uses it.

    What cannot be loaded is replaced by NCCL's own InfiniBand or sockets, with a line in its log only.
    Fix: `ldd` on the plugin's library in the job's environment on the nodes named; add its folder to LD_LIBRARY_PATH.
    """
    blames = bench.nccl.lost_plugins()
    if blames:
        raise BlameMany(blames)


def test_nccl_stays_on_nvlink_within_a_node(bench):
    """GPUs that are all joined by NVLink talk over it, and not through the host's memory.

    Shared memory is ten times slower: NCCL takes it where peer access is switched off or a container hides the GPUs.
    Fix: unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL; `nvidia-smi topo -p2p r` on the nodes named must say OK everywhere.
    """
    blames = bench.nccl.detours_within()
    if blames:
        raise BlameMany(blames)


@pytest.mark.advisory
def test_nccl_takes_the_fast_ways(bench):
    """NCCL moves data between GPU and adapter directly, and lets NVSwitches add up, wherever the nodes can.

    Every transfer through the host's memory halves the bandwidth; without NVLS a node loses a quarter of it.
    Fix: look for GPU Direct RDMA and NVLS in the logs under logs/ of this run.
    """
    blames = bench.nccl.slow_ways()
    if blames:
        raise BlameMany(blames)


@pytest.mark.advisory
def test_all_reduce_is_near_the_expected_bandwidth(bench, settings):
    """An all-reduce over all ranks reaches nearly all of the bandwidth that the links have.

    A small loss is often a setting: packet size, a missing GPUDirect, a firewall that looks at every packet.
    Fix: compare with `preflight bench` on fewer nodes; look for the node or the step at which it drops.
    """
    measured = bench.by_ring()
    bench.needs_a_sure_figure(measured)
    share = settings.bench.slow_below if bench.is_by_streams(measured) else settings.bench.warn_below
    impossible = settings.bench.impossible_above
    message = bench.shortfall(measured, share=share, impossible_above=impossible, needs_certainty=False)
    if message:
        bench.needs_equal_gpus(share=settings.bench.gpu_below)
        raise Blame(message, nodes=bench.nodes_in(bench.all_reduce()))


@pytest.mark.advisory
def test_collectives_are_as_fast_as_in_the_baseline(bench, settings):
    """No collective is slower than in the earlier run that --baseline names, by more than the uncertainty of both runs.

    What these nodes once reached they should reach again: a link that renegotiated, a driver or a setting has changed.
    Fix: `preflight report <earlier run> <this run>` shows what changed.
    """
    slower = bench.below_baseline(share=settings.bench.warn_below)
    if slower:
        raise Blame(joined(slower), nodes=bench.names)


@pytest.mark.advisory
def test_torch_is_imported_in_time(bench, settings):
    """Every rank has imported torch in time, and none takes much longer for it than the others.

    From a shared file system with many small files an import takes minutes: meanwhile the rendezvous of the other ranks
    times out.
    Fix: put the job's environment on a disk of the nodes named, or into one image (squashfs, a container).
    """
    blames = bench.slow_imports(limit_seconds=settings.start.import_max_seconds, ratio=settings.start.import_ratio)
    if blames:
        raise BlameMany(blames)
