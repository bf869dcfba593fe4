"""Is what NCCL used read from its log as it is written, by old and new versions?"""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.measure.nccl_log import NcclUse, parse_nccl_log

FIELD_DATA = Path(__file__).parents[3] / "shared/field-data/nccl-logs"
NEW = """\
n1:77:77 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0
n1:77:90 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>
n1:77:90 [0] NCCL INFO Using network IB
n1:77:90 [0] NCCL INFO 16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer
n1:77:95 [0] NCCL INFO Channel 00/0 : 15[7] -> 0[0] [receive] via NET/IB/0/GDRDMA
n1:77:95 [0] NCCL INFO Channel 08/0 : 0[0] -> 8[0] [send] via NET/IB/1(3)/GDRDMA
n1:77:95 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
step 1: loss 3.2
n1:77:99 [0] NCCL INFO AllReduce: 8 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0}
n1:77:99 [0] NCCL INFO AllReduce: 268435456 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}
n1:77:99 [0] NCCL INFO AllReduce: 4 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0}
"""
SOCKETS = """\
n2:5:5 [0] NCCL INFO NET/IB : No device found.
n2:5:5 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.2<0> [1]eth1:10.1.0.2<0>
n2:5:5 [0] NCCL INFO Using network Socket
n2:5:5 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[0] [send] via NET/Socket/0
n2:5:5 [0] NCCL INFO Channel 01 : 1[3000] -> 0[2000] via SHM/direct/direct
n2:5:5 [0] NCCL INFO AllReduce: 1048576 Bytes -> Algo 1 proto 2 time 12.5
"""


def test_a_log_of_rdma_with_gpudirect():
    """Network, ports, paths, channels and the algorithm of the largest operation."""
    assert parse_nccl_log(NEW.splitlines()) == NcclUse(
        network="IB",
        ports=("mlx5_0:1/RoCE", "mlx5_1:1/RoCE"),
        between_nodes=("NET/IB/GDRDMA",),
        within_node=("P2P/CUMEM/read",),
        channels=16,
        algorithm="RING SIMPLE",
    )


def test_a_log_of_sockets():
    """Numbers of algorithm and protocol, as older versions write them, become names."""
    assert parse_nccl_log(SOCKETS.splitlines()) == NcclUse(
        network="Socket",
        ports=("eth0:10.0.0.2<0>", "eth1:10.1.0.2<0>"),
        between_nodes=("NET/Socket",),
        within_node=("SHM/direct/direct",),
        channels=0,
        algorithm="RING SIMPLE",
    )


def test_a_log_that_tells_nothing():
    """No line, no claim."""
    assert parse_nccl_log(["Traceback (most recent call last):", ""]) == NcclUse()


@pytest.mark.parametrize(
    ("name", "network", "port", "between"),
    [
        ("bigscience-v100-n16-opa/n16_32gb_all_reduce_bench.txt", "IB", "hfi1_0:1/IB", ("NET/IB",)),
        ("bigscience-meg-ds-zero-n16/meg_ds_zero_gpt2_perf_n16-1999616.out", "IB", "hfi1_0:1/IB", ()),
        ("mle-net-lines/fastsocket.log", "FastSocket", "ibs108:10.0.19.12<0>", ()),
    ],
)
def test_logs_from_the_field(name, network, port, between):
    """Real logs, lines of many ranks mixed: what is alike on all of them is read."""
    if not FIELD_DATA.is_dir():
        pytest.skip("the field data is not here")
    used = parse_nccl_log((FIELD_DATA / name).read_text(errors="replace").splitlines())
    assert used.network == network
    assert port in used.ports
    assert used.between_nodes == between
