"""Are whole logs of versions, forks and plugins of NCCL read that write some lines in another way?"""

from __future__ import annotations

import pytest

from preflight.job.measure.nccl_log import parse_nccl_log

CASES = (
    (
        "2.10 IB",
        """@ NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/IB ; OOB eno1:10.0.0.1<0>
@ Using network IB
@ Channel 00 : 1[1c000] -> 0[1a000] via P2P/IPC
@ Channel 00/02 :    0   1   2   3
@ Channel 00 : 0[1a000] -> 8[1a000] [send] via NET/IB/0/GDRDMA
@ 2 coll channels, 2 p2p channels, 1 p2p channels per peer
""",
        {
            "network": "IB",
            "ports": ("mlx5_0:1/IB", "mlx5_1:1/IB", "mlx5_2:1/IB"),
            "between_nodes": ("NET/IB/GDRDMA",),
            "within_node": ("P2P/IPC",),
            "channels": 2,
        },
    ),
    (
        "plugin IBext_v8",
        """@ NET/Plugin: Loaded net plugin IBext_v8 (v8)
@ P2P plugin v8 IBext_v8
@ NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_3:1/RoCE [RO]; OOB bond0:10.0.0.1<0>
@ Using network IBext_v8
@ Channel 00/0 : 0[0] -> 8[0] [send] via NET/IBext_v8/0/GDRDMA
""",
        {"network": "IBext_v8", "ports": ("mlx5_0:1/RoCE", "mlx5_3:1/RoCE"), "between_nodes": ("NET/IBext_v8/GDRDMA",)},
    ),
    (
        "time stamps, mpirun",
        """[1,0]<stdout>:[2025-05-10 23:09:41] @ Using network AWS Libfabric
[1,0]<stdout>:[2025-05-10 23:09:41] @ Channel 00/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/1(4)/Shared
[1,0]<stdout>:[2025-05-10 23:09:41] @ 24 coll channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer
""",
        {"network": "AWS Libfabric", "between_nodes": ("NET/AWS Libfabric",), "channels": 24},
    ),
    (
        "gdr disabled",
        """@ NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>
@ NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'
@ Using network IB
@ Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0
""",
        {"network": "IB", "other_ports": ("mlx5_0",), "gpudirect_ports": (), "between_nodes": ("NET/IB",)},
    ),
    (
        "p2p disabled",
        """@ NCCL_P2P_DISABLE set by environment to 1
@ NCCL_P2P_LEVEL set by environment to LOC
@ Channel 00 : 0[0] -> 1[1] via SHM/direct/direct
@ Channel 01/0 : 0[0] -> 1[1] via NET/Socket/0/Shared
""",
        {"within_node": ("SHM/direct/direct",), "between_nodes": ("NET/Socket",)},
    ),
    (
        "merged ports 2.26",
        """@ NET/IB : Made virtual device [4] name=mlx5_0+mlx5_1 speed=800000 ndevs=2
@ NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/IB [3]mlx5_3:1/IB [RO]; OOB eth0:10.0.0.1<0>
@ Assigned NET plugin IB to comm
@ Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/4/GDRDMA
""",
        {"network": "IB", "ports": tuple(f"mlx5_{i}:1/IB" for i in range(4)), "between_nodes": ("NET/IB/GDRDMA",)},
    ),
    (
        "rccl 2.18",
        """@ NET/IB : Using [0]rocep65s0:1/RoCE [1]rocep97s0:1/RoCE [RO]; OOB ens51:10.0.0.1<0>
@ Using non-device net plugin version 0
@ Using network IB
@ Channel 03/0 : 0[c1000] -> 1[c6000] via P2P/IPC comm 0x560a nRanks 08
@ Channel 04/0 : 0[c1000] -> 8[c1000] [send] via NET/IB/1/GDRDMA comm 0x560a nRanks 16 busId c1000
@ 56 coll channels, 0 collnet channels, 0 nvls channels, 64 p2p channels, 64 p2p channels per peer
""",
        {"network": "IB", "within_node": ("P2P/IPC",), "between_nodes": ("NET/IB/GDRDMA",), "channels": 56},
    ),
    (
        "fastrak",
        """@ NET/Plugin: Loaded net plugin FasTrak (v7)
@ NET/FasTrak : Using [0]eth1:10.1.0.2<0> [1]eth2:10.2.0.2<0>
@ NET/FasTrak : GPU Direct RDMA Enabled for HCA 0 'eth1'
@ Using network FasTrak
@ Channel 00/0 : 0[0] -> 8[0] [send] via NET/FasTrak/0(8)/GDRDMA/Shared
""",
        {
            "network": "FasTrak",
            "ports": ("eth1:10.1.0.2<0>", "eth2:10.2.0.2<0>"),
            "gpudirect_ports": ("eth1",),
            "between_nodes": ("NET/FasTrak/GDRDMA",),
        },
    ),
    (
        "2.27 symmetric and 2.28 tuning",
        """@ AllReduce: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}
@ AllReduce [Symmetric]: 1048576 Bytes -> Kernel AllReduce_RSxLDMC_AGxSTMC nchannels 16 nthreads 512 nWorks 1
@ AllReduce: 268435456 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}
@ MNNVL 1 cliqueId 7ffe cliqueSize 72 cliqueRank 3
""",
        {"algorithm": "NVLS SIMPLE", "is_rack": True, "rack_ranks": 72},
    ),
    (
        "nccl lines with ip and name blanks",
        """worker 3:77:90 [0] NCCL INFO Using network Cloud RDMA X
worker 3:77:90 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [receive] via NET/Cloud RDMA X/12(3)/GDRDMA(PCI)/Shared
""",
        {"network": "Cloud RDMA X", "between_nodes": ("NET/Cloud RDMA X/GDRDMA(PCI)",)},
    ),
)


@pytest.mark.parametrize(("text", "wanted"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_log_is_read_whatever_wrote_it(text, wanted):
    """Network, ports, ways and algorithm, each as this version has it."""
    use = parse_nccl_log(text.replace("@ ", "n1:77:90 [0] NCCL INFO ").splitlines())
    assert {name: getattr(use, name) for name in wanted} == wanted
