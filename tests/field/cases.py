"""How was each failure of the field planted, which finding must catch it, and which ones can no preflight see?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from preflight.facts.subjects.ending import Ending
from preflight.facts.subjects.environment import Variable
from preflight.facts.subjects.gpu import Gpus
from preflight.facts.subjects.network import Address
from preflight.facts.subjects.rdma import Rdma
from preflight.facts.subjects.software import Software
from preflight.facts.value import Missing
from preflight.testing import FakeRun, healthy, infiniband, roce
from preflight.testing.hardware import gpus, topology
from tests.checks.samples import (
    debian_name,
    device,
    files_have,
    leads_to,
    looks_up,
    resolves,
    with_gateways,
    with_interface,
    without_gid,
)
from tests.checks.test_rdma import tables

ALL = ("node1", "node2", "node3", "node4")


@dataclass(frozen=True)
class Caught:
    """A broken cluster, the check that names its nodes, and words of the message."""

    run: Callable[[], FakeRun]
    check: str
    nodes: tuple[str, ...]
    words: str
    verdict: str = "fail"  # "warn" where a job may start all the same, "error" where the run ends unmeasured


@dataclass(frozen=True)
class Written:
    """Launch files by name, the rule that finds the mistake, and the nodes where a cluster is needed to see it."""

    texts: dict[str, str]
    rule: str
    run: Callable[[], FakeRun] | None = None
    nodes: tuple[str, ...] = field(default=())
    verdict: str = "fail"


@dataclass(frozen=True)
class Unseen:
    """Why no preflight can see it."""

    why: str


def with_ifname(value: str, *lacking: str) -> FakeRun:
    """NCCL_SOCKET_IFNAME on all, and its interface on all but some."""
    run = healthy(4).with_variables(NCCL_SOCKET_IFNAME=value)
    for number, name in enumerate(run.names, 1):
        if name not in lacking:
            run = with_interface(run, name, value, f"10.7.0.{number}")
    return run


def over_tcp(count: int = 3) -> FakeRun:
    """NCCL without RDMA."""
    return replace(healthy(count), backend="nccl")


def on_every_node(run: FakeRun, change: Callable[[FakeRun, str], Any]) -> FakeRun:
    """The same change on every node."""
    for name in run.names:
        run = change(run, name)
    return run


def packages(run: FakeRun, node: str, **versions: str) -> FakeRun:
    """More packages on one node; _ stands for - in their names."""
    held = run.subjects[node]["software"]
    assert isinstance(held, Software)
    more = {name.replace("_", "-"): version for name, version in versions.items()}
    return run.broken(node, "software", packages={**held.packages, **more})


def shadowed() -> FakeRun:
    """cupy with a system NCCL that is older than the wheel's."""
    run = packages(roce(), "node2", cupy_cuda12x="13.0")
    return run.broken("node2", "software", nccl_copies={"/usr/lib64/libnccl.so.2.16.2": "2.16.2"})


def from_conf(node: str, name: str) -> FakeRun:
    """A variable that /etc/nccl.conf sets on one node."""
    return healthy().broken(node, "environment", variables={name: Variable("1", "/etc/nccl.conf")})


def gid_moved(run: FakeRun, node: str, address: str) -> FakeRun:
    """Another address at GID index 3 of a node's first port."""
    rdma = run.subjects[node]["rdma"]
    assert isinstance(rdma, Rdma)
    rows = rdma.devices[0].ports[0].gids
    moved = tuple(msgspec.structs.replace(row, gid=address) if row.index == 3 else row for row in rows)
    return run.broken_rdma_port(node, gids=moved)


def flapped(node: str) -> FakeRun:
    """A link that went down three times while the jobs ran."""
    run = roce()
    ending = run.subjects[node]["ending"]
    assert isinstance(ending, Ending)
    port = msgspec.structs.replace(ending.ports["mlx5_7:1"], counters={"link_downed": 3})
    return run.broken(node, "ending", ports={**ending.ports, "mlx5_7:1": port})


def without_fabric(node: str) -> FakeRun:
    """NVSwitches, and nobody who joins the GPUs."""
    run = roce()
    held = run.subjects[node]["gpu"]
    assert isinstance(held, Gpus)
    assert not isinstance(held.devices, Missing)
    out = [
        msgspec.structs.replace(gpu, status=msgspec.structs.replace(gpu.status, fabric_state="Not Started"))
        for gpu in held.devices
    ]
    return run.broken(node, "gpu", devices=tuple(out), fabric_manager=False)


def functions(node: str, **fields: Any) -> FakeRun:
    """Other values for the place of every GPU of a node, whose GPUs have no NVLink."""
    run = roce()
    held = run.subjects[node]["gpu"]
    assert isinstance(held, Gpus)
    assert not isinstance(held.devices, Missing)
    moved = [msgspec.structs.replace(gpu, pci=gpu.pci._replace(**fields)) for gpu in held.devices]  # type: ignore[union-attr]
    plain = topology(8)
    rows = [
        msgspec.structs.replace(
            row, relations=tuple("PHB" if word.startswith("NV") else word for word in row.relations)
        )
        for row in plain.rows
    ]
    return run.broken(node, "gpu", devices=tuple(moved), topology=plain._replace(rows=tuple(rows)))


def bench_ended(node: str, words: str) -> FakeRun:
    """A benchmark that a rank of one node brought down."""
    return roce().bench_has(results=(), not_measured=f"{node}: {words}", not_measured_nodes=(node,))


def accelerate(rank: int, processes: int) -> str:
    """One machine's configuration."""
    return (
        f"distributed_type: MULTI_GPU\nmachine_rank: {rank}\nmain_process_ip: 10.0.0.1\nmain_process_port: 29500\n"
        f"num_machines: 2\nnum_processes: {processes}\nrdzv_backend: static\n"
    )


def torchrun(rank: int, *, address: str = "10.0.0.1", before: str = "") -> str:
    """One node's start script."""
    return (
        f"{before}torchrun --nnodes=2 --nproc_per_node=8 --node_rank={rank} --master_addr={address} "
        "--master_port=29500 train.py\n"
    )


def both(make: Callable[[int], str], ending: str = "sh") -> dict[str, str]:
    """The files of two nodes."""
    return {f"n{rank}.{ending}": make(rank) for rank in (0, 1)}


def batch(*lines: str, command: str) -> str:
    """A batch file."""
    return "#!/bin/bash\n" + "".join(f"#SBATCH {line}\n" for line in lines) + command + "\n"


MESH = "mesh.every_node_reaches_every_other_on_random_ports"
BLOCKED_PORTS = Caught(
    lambda: healthy().mesh_fails(("node1", "node3"), ("node2", "node3"), blamed=(("node3",),)),
    MESH,
    ("node3",),
    "on random ports",
)
LOOPBACK = "names.own_hostname_is_not_loopback"
NOT_HERE = "the token did not appear within 10 s: this node sees another folder"
IN_CONTAINER = (
    "srun --container-image=img bash -c 'export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1); "
    "torchrun --nnodes=2 --nproc_per_node=8 --rdzv_id=a --rdzv_backend=c10d --rdzv_endpoint=$MASTER_ADDR:29500 t.py'"
)

CASES: dict[str, Caught | Written | Unseen] = {
    "F002": Caught(
        lambda: with_ifname("eth2", "node3"),
        "network.interface_variables_match_an_interface",
        ("node3",),
        "NCCL_SOCKET_IFNAME=eth2 matches no interface",
    ),
    "F004": Caught(
        lambda: with_interface(over_tcp(), "node2", "wlp2s0", "192.168.43.5", first=True),
        "network.nccl_starts_on_an_interface_of_the_peers",
        ("node2",),
        "NCCL starts on wlp2s0",
    ),
    "F006": Caught(
        lambda: on_every_node(
            over_tcp(4), lambda run, name: with_interface(run, name, "rsip", "172.16.0.1", first=True)
        ),
        "network.nccl_starts_on_an_interface_of_the_peers",
        ALL,
        "NCCL starts on rsip (172.16.0.1)",
    ),
    "F009": Caught(
        lambda: with_interface(
            over_tcp().broken_interface("node2", name="bond0").with_variables("node2", NCCL_SOCKET_IFNAME="bond0"),
            *("node2", "bond0.2093.1", "10.93.0.2"),
        ),
        "network.nccl_takes_no_more_interfaces_than_meant",
        ("node2",),
        "bond0 takes bond0.2093.1 too",
    ),
    "F010": Caught(
        lambda: on_every_node(
            healthy(2), lambda run, name: run.broken_interface(name, addresses=(Address("172.17.0.2", 16, "inet"),))
        ),
        "network.training_addresses_are_unique",
        ("node1", "node2"),
        "several nodes train on 172.17.0.2",
    ),
    "F011": Caught(
        lambda: with_gateways(healthy(), "node1", "node2"),
        "network.default_routes_are_alike",
        ("node3",),
        "no default route",
        verdict="warn",
    ),
    "F013": BLOCKED_PORTS,
    "F014": Unseen(
        "all TCP passes and only EFA's own protocol is dropped: no fact tells; the NCCL benchmark ends unmeasured"
    ),
    "F017": BLOCKED_PORTS,
    "F019": Caught(lambda: debian_name(healthy(), "node3"), LOOPBACK, ("node3",), "resolves to 127.0.1.1"),
    "F020": Caught(
        lambda: healthy().broken("node3", "identity", hostname_address="127.0.0.1", hostname_addresses=("127.0.0.1",)),
        LOOPBACK,
        ("node3",),
        "resolves to 127.0.0.1",
    ),
    "F021": Caught(
        lambda: looks_up(healthy().broken("node1", "identity", fqdn="node1.local"), "node2", "node1", resolved_fqdn=()),
        "names.full_names_of_peers_lead_to_them",
        ("node2",),
        "cannot resolve node1.local",
        verdict="warn",
    ),
    "F023": Caught(lambda: debian_name(roce(), "node3"), LOOPBACK, ("node3",), "resolves to 127.0.1.1", verdict="warn"),
    "F027": Caught(
        lambda: healthy().broken("node2", "identity", hostname="localhost"),
        "names.own_hostname_is_not_localhost",
        ("node2",),
        "the node calls itself localhost",
    ),
    "F028": Caught(
        lambda: leads_to(roce().with_variables(MASTER_ADDR="jean-zay-ia"), ""),
        "master.address_belongs_to_the_first_node",
        ("node1",),
        "MASTER_ADDR jean-zay-ia is unknown on node1",
    ),
    "F030": Caught(
        lambda: looks_up(healthy(), "node2", "node1", reverse="fake-host", reverse_addresses=("192.0.2.7",)),
        "names.reverse_names_lead_back",
        ("node2",),
        "10.0.0.1 (node1) is called fake-host there",
        verdict="warn",
    ),
    "F036": Caught(shadowed, "software.one_nccl_can_be_met", ("node2",), "libnccl.so.2.16.2 (2.16.2)", verdict="warn"),
    "F037": Caught(
        lambda: healthy().broken("node3", "software", python="3.11.3"),
        "software.companions_are_the_same_on_every_node",
        ("node3",),
        "Python: 3.11.2 on node[1-2], 3.11.3 on node3",
        verdict="warn",
    ),
    "F038": Caught(
        lambda: packages(healthy(), "node2", megatron_core="0.11.0").broken("node2", "software", torch="2.4.0"),
        "software.no_versions_break_together",
        ("node2",),
        "megatron-core 0.11.0 with torch 2.4.0",
        verdict="warn",
    ),
    "F039": Caught(
        lambda: on_every_node(roce(), lambda run, name: run.broken(name, "software", nccl="2.26.3")),
        "software.no_versions_break_together",
        ALL,
        "Could not find NET with id 0",
        verdict="warn",
    ),
    "F040": Caught(
        lambda: roce().broken("node3", "gpu", cuda_driver="10.2"),
        "gpu.driver_runs_the_cuda_of_torch",
        ("node3",),
        "runs CUDA 10.2 at most",
    ),
    "F042": Caught(
        lambda: with_interface(
            leads_to(roce().with_variables(MASTER_ADDR="10.5.0.1"), "10.5.0.1"), *("node1", "eth1", "10.5.0.1")
        ),
        "master.first_node_knows_the_address_for_its_own",
        ("node1",),
        "MASTER_ADDR 10.5.0.1 is 10.5.0.1; node1 is 10.0.0.1",
        verdict="warn",
    ),
    "F044": Written(
        both(lambda rank: accelerate(rank, 10), "yaml"),
        "processes_fit_gpus",
        lambda: roce(2).broken("node2", "gpu", devices=gpus(2)),
        ("node2",),
    ),
    "F045": Written({"n0.yaml": accelerate(0, 7), "n1.yaml": accelerate(1, 2)}, "fields_agree"),
    "F047": Caught(
        lambda: leads_to(roce(), "10.0.0.2"),
        "master.address_belongs_to_the_first_node",
        ("node1",),
        "an address of node2; rank 0 runs on node1",
    ),
    "F052": Caught(
        lambda: with_interface(roce(), "node1", "virbr1", "192.168.121.122", first=True),
        "trust.first_address_of_the_first_node_is_the_one_to_reach",
        ("node1",),
        "begins with 192.168.121.122",
        verdict="warn",
    ),
    "F053": Written(
        # The torch of that report handed node 0's own address to the ranks of all nodes; that of today does not.
        {"n0.sh": torchrun(0, address="localhost"), "n1.sh": torchrun(1)},
        "master_address_leads_to_rank_0",
        verdict="warn",
    ),
    "F054": Written(
        both(lambda rank: torchrun(rank, address="192.168.1.1")),
        "master_address_is_rank_0s",
        lambda: roce(2),
        ("node1",),
        verdict="warn",
    ),
    "F055": Written(
        {
            "ds_config.json": '{"train_batch_size": 256, "train_micro_batch_size_per_gpu": 1, '
            '"gradient_accumulation_steps": 85}',
            "run.sh": "deepspeed --num_gpus 3 train.py --deepspeed_config ds_config.json\n",
        },
        "batch_sizes_multiply",
    ),
    "F058": Written(
        {
            f"n{rank}.sh": "torchrun --nnodes=2 --nproc_per_node=8 --rdzv_id=$RANDOM --rdzv_backend=c10d "
            "--rdzv_endpoint=node1:29500 train.py\n"
            for rank in (0, 1)
        },
        "rendezvous_id_is_the_same_everywhere",
    ),
    "F060": Written(
        both(
            lambda rank: (
                f"export FORCE_TORCHRUN=1 NNODES=2 RANK={rank} MASTER_ADDR=10.0.0.1 MASTER_PORT=29500\n"
                "llamafactory-cli train a.yaml\n"
            )
        ),
        "rank_is_read_where_it_is_set",
    ),
    "F064": Written(
        both(lambda rank: torchrun(rank, before="export CUDA_LAUNCH_BLOCKING=1\n")),
        "cuda_launches_do_not_block",
        verdict="warn",
    ),
    "F066": Caught(
        lambda: from_conf("node2", "NCCL_IB_USE_INLINE"),
        "environment.nothing_is_left_from_debugging",
        ("node2",),
        "(set by /etc/nccl.conf)",
        verdict="warn",
    ),
    "F070": Caught(
        lambda: roce().broken("node3", "kernel", modules=("nvidia", "ib_uverbs"), is_driver_open=False),
        "rdma.adapters_reach_gpu_memory",
        ("node3",),
        "neither nvidia_peermem nor dma-buf",
        verdict="warn",
    ),
    "F071": Caught(
        lambda: device(
            roce().with_variables(NCCL_IGNORE_NET_MISMATCH="1"), "node3", 1, open_error="Operation not permitted"
        ),
        "rdma.devices_can_be_opened",
        ("node3",),
        "mlx5_1:1: it cannot be opened",
    ),
    "F073": Caught(
        lambda: flapped("node3"), "rdma.no_link_went_down_during_the_run", ("node3",), "mlx5_7:1 went down 3 times"
    ),
    "F075": Caught(
        lambda: infiniband().broken_rdma_port("node3", state="DOWN", physical_state="Polling"),
        "rdma.ports_are_active",
        ("node3",),
        "mlx5_0:1 is DOWN (Polling)",
    ),
    "F078": Caught(
        lambda: device(roce(), "node3", 0, open_error="No such file or directory"),
        "rdma.devices_can_be_opened",
        ("node3",),
        "mlx5_0:1: it cannot be opened",
    ),
    "F079": Caught(
        lambda: roce().with_variables(NCCL_IB_GID_INDEX="1"), "rdma.gid_index_is_routable_roce_v2", ALL, "link-local"
    ),
    "F080": Caught(
        lambda: without_gid(roce(), "node3", 3), "rdma.gid_index_exists_on_every_node", ("node3",), "GID index 3"
    ),
    "F082": Caught(
        lambda: tables(odd={"node2"}),
        "rdma.gid_index_leads_to_one_network",
        ("node2",),
        "10.1.0.0/24 on node[1,3-4], 10.1.1.0/24 on node2",
    ),
    "F083": Caught(
        lambda: gid_moved(roce(), "node3", "fe80:0000:0000:0000:0000:0000:0000:0003"),
        "rdma.gid_index_is_routable_roce_v2",
        ("node3",),
        "link-local",
    ),
    "F087": Caught(
        lambda: without_fabric("node3"), "gpu.fabric_manager_runs_where_it_is_needed", ("node3",), "does not run"
    ),
    "F089": Caught(
        lambda: without_fabric("node3"), "gpu.fabric_manager_runs_where_it_is_needed", ("node3",), "does not run"
    ),
    "F090": Caught(
        lambda: bench_ended("node3", "rank 16 ended with 1: NCCL error: unhandled cuda error"),
        "bench.all_reduce_is_correct",
        ALL,
        "node3: rank 16 ended with 1",
        verdict="error",
    ),
    "F091": Caught(
        lambda: roce().broken("node3", "gpu", devices=gpus(8, compute_mode="Exclusive_Process")),
        "gpu.none_is_held_back",
        ("node3",),
        "compute mode Exclusive_Process",
        verdict="warn",
    ),
    "F093": Caught(
        lambda: roce().broken("node3", "limits", memlock_soft_bytes=8192 << 10),
        "limits.memlock_is_enough_for_rdma",
        ("node3",),
        "memlock: 8388608 bytes",
    ),
    "F094": Caught(
        lambda: (
            roce().broken("node3", "limits", memlock_soft_bytes=65536).broken("node3", "identity", context="container")
        ),
        "limits.memlock_is_enough_for_rdma",
        ("node3",),
        "65536 bytes in this container session",
    ),
    "F096": Caught(
        lambda: roce().broken("node3", "limits", shm_free_bytes=64 << 20),
        "limits.shared_memory_is_enough",
        ("node3",),
        "64 of 65536 MiB are free in /dev/shm",
    ),
    "F099": Caught(
        lambda: files_have(roce(), "node3", "same", digest=Missing("No such file or directory")),
        "files.same_paths_hold_the_same",
        ("node3",),
        "/code: No such file or directory",
    ),
    "F103": Unseen(
        "the program itself writes a file that others read, without a barrier: nothing of the nodes is wrong"
    ),
    "F104": Caught(
        lambda: files_have(roce(), "node3", "shared", seconds=6.2),
        "files.shared_files_are_seen_soon",
        ("node3",),
        "/data: 6.2 s",
        verdict="warn",
    ),
    "F106": Caught(
        lambda: files_have(roce(), "node3", "shared", trouble=NOT_HERE),
        "files.shared_paths_are_shared",
        ("node3",),
        "this node sees another folder",
    ),
    "F107": Caught(
        lambda: healthy().broken("node3", "clock", offset_seconds=900.0), "clock.clocks_agree", ("node3",), "+900 s"
    ),
    "F110": Caught(
        lambda: roce().broken_rdma_port("node3", active_mtu=1024),
        "rdma.active_mtu_is_the_same_on_every_node",
        ("node3",),
        "1024 on node3",
    ),
    "F111": Caught(
        lambda: on_every_node(
            infiniband().with_variables(NVSHMEM_IB_ENABLE_IBGDA="1"),
            lambda run, name: run.broken_rdma_port(name, active_mtu=1024),
        ),
        "rdma.active_mtu_is_enough_for_device_initiated_traffic",
        ALL,
        "1024",
    ),
    "F113": Caught(
        lambda: on_every_node(
            roce(), lambda run, name: run.broken(name, "rdma", devices=()).broken_interface(name, speed_mbps=1000)
        ),
        "network.training_interface_is_fast_enough_for_gpus",
        ALL,
        "links at 1000 Mbit/s",
        verdict="warn",
    ),
    "F114": Caught(
        lambda: functions("node3", redirecting_bridges=("0000:40:01.1",)),
        "gpu.acs_leaves_peer_to_peer_alone",
        ("node3",),
        "0000:40:01.1",
        verdict="warn",
    ),
    "F115": Caught(
        lambda: functions("node3", iommu="DMA-FQ"),
        "gpu.iommu_leaves_peer_to_peer_alone",
        ("node3",),
        "IOMMU",
        verdict="warn",
    ),
    "F119": Caught(
        lambda: bench_ended("node3", "rank 17 gave no sign for 30 s"),
        "bench.all_reduce_is_correct",
        ALL,
        "node3: rank 17 gave no sign",
        verdict="error",
    ),
    "F120": Caught(
        lambda: roce().broken("node3", "gpu", topology=topology(8, nearest=(0, 0, 2, 3, 4, 5, 6, 7))),
        "gpu.adapters_are_as_near_on_every_node",
        ("node3",),
        "mlx5_0",
        verdict="warn",
    ),
    "F124": Written(
        {
            "j.sbatch": batch(
                "--ntasks-per-node=1", "--gres=gpu:4", command="srun python train.py --num_nodes 2 --gpus 4"
            )
        },
        "slurm_nodes_fit_the_job",
    ),
    "F126": Written(
        {
            "j.sbatch": batch(
                *("--nodes=2", "--ntasks-per-node=8", "--gpus-per-task=1"), command="srun python train.py --devices 8"
            )
        },
        "slurm_tasks_see_their_gpus",
    ),
    "F128": Written(
        {"j.sbatch": batch("--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=8", command=IN_CONTAINER)},
        "scontrol_runs_outside_the_container",
    ),
    "F130": Caught(
        lambda: resolves(resolves(healthy(), "node1", "node2"), "node1", "node3"),
        "names.peers_can_be_resolved",
        ("node1",),
        "cannot resolve the hostname of any peer",
        verdict="warn",
    ),
    "F131": Written(
        both(lambda rank: torchrun(rank, before="pip install -r requirements.txt\n")),
        "nodes_start_together",
        verdict="warn",
    ),
    "F132": Written(
        {"j.sbatch": batch(*("--nodes=2", "--ntasks-per-node=4", "--gpus-per-task=1"), command="srun python train.py")},
        "slurm_tasks_see_their_gpus",
        verdict="warn",
    ),
}
