"""Do the vendors' own tests of GPUs find nothing, where they are installed and were asked for?"""

from preflight.judge.tables.gpus import vendor
from preflight.said.errors import BlameMany


def test_dcgm_finds_no_fault(cluster):
    """NVIDIA's DCGM passes every GPU in the tests of its level (`--vendor-tests dcgmi` is `dcgmi diag -r 2`).

    What it fails, memory, PCIe, power or arithmetic, fails a job within days; NVIDIA accepts it as grounds to replace a
    board.
    Fix: `dcgmi diag -r 3` on the nodes named, with nothing else on their GPUs; take them out, have the GPU replaced.
    """
    blames = vendor.blames(cluster, "dcgmi")
    if blames:
        raise BlameMany(blames)


def test_rvs_finds_no_fault(cluster):
    """ROCm's Validation Suite finds every GPU as fast as AMD's file for the model demands (`--vendor-tests rvs`).

    A GPU below its target is throttled, badly cooled or broken, and every rank waits for it.
    Fix: `rvs -c <gst_single.conf>` on the nodes named, with nothing else on their GPUs; look at power and cooling, then
    have the GPU replaced.
    """
    blames = vendor.blames(cluster, "rvs")
    if blames:
        raise BlameMany(blames)


def test_agfhc_finds_no_fault(cluster):
    """AMD's field health check (AGFHC) passes every test of its level (`--vendor-tests agfhc` is `agfhc -r all_lvl1`).

    What it fails, memory, xGMI, PCIe or matrices, makes a job slow or ends it; AMD accepts it as grounds to replace a
    board.
    Fix: `agfhc -r all_lvl3` as root on the nodes named, with nothing else on their GPUs; take them out, have the GPU or
    the board replaced.
    """
    blames = vendor.blames(cluster, "agfhc")
    if blames:
        raise BlameMany(blames)


def test_nvbandwidth_is_the_same_on_every_gpu(cluster, settings):
    """Host and GPUs copy to each other as fast as on the other nodes, and what they copy arrives unchanged.

    A copy much slower than its equals has a worse PCIe slot, NVLink or NUMA node behind it (`--vendor-tests
    nvbandwidth`); one that arrives changed corrupts gradients silently.
    Fix: `nvbandwidth -t host_to_device_memcpy_ce device_to_device_memcpy_read_ce` on a node named and on one that is
    not; `nvidia-smi topo -m` and `nvidia-smi nvlink -s` there.
    """
    blames = vendor.slow_copies(cluster, share=settings.bench.slow_below)
    if blames:
        raise BlameMany(blames)
