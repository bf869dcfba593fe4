"""Reported failures, planted in the raw material of one node: is each told of that node, with its cause?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from preflight.judge.ledger.findings import Verdict
from tests.twins import node, planted
from tests.twins.faults import Plant, answer, both, gone, variables
from tests.twins.faults_field import other_wheel, with_wheel
from tests.twins.faults_rdma import port
from tests.twins.folder import Folder
from tests.twins.platform import Hca, Platform
from tests.twins.platforms import BY_NAME
from tests.twins.twin import Twin, notable

# As where the node has an adapter that is none of EFA's: a job that is not root's may not open its file.
EFA_AND_ANOTHER = replace(
    BY_NAME["aws-p6-b200"],
    name="efa-and-another",
    hcas=(*BY_NAME["aws-p6-b200"].hcas, Hca("mlx5_0", "Ethernet", pci="0000:c1:00.0", state="1: DOWN")),
)
PLATFORMS = {**BY_NAME, EFA_AND_ANOTHER.name: EFA_AND_ANOTHER}
FAULTS = {fault.name: fault for fault in planted.ALL}


def as_in(name: str) -> Plant:
    """One of the faults that are planted on every platform that they fit."""
    return FAULTS[name].plant


def without_ipv4(folder: Folder, platform: Platform) -> None:
    """The adapter has no row of IPv4: the rows of its interface's address are of IPv6."""
    for path in folder.path(f"{port(platform)}/gids").iterdir():
        if path.read_text().startswith("0000:0000:0000:0000:0000:ffff:"):
            folder.write(f"{port(platform)}/gids/{path.name}", "fd93:16d3:59b6:012e:0000:0000:0000:0003\n")


def closed_to_its_user(folder: Folder, platform: Platform) -> None:
    """The device file of the other adapter is there, and the user of the job may not open it."""
    folder.deny(f"dev/infiniband/uverbs{len(platform.hcas) - 1}")
    answer(user_id=1000)(folder, platform)


@dataclass(frozen=True)
class Told:
    """A platform, what is planted on node3, the check that must name it, and words of what it says."""

    platform: str
    plant: Plant
    check: str
    words: str
    verdict: Verdict = Verdict.FAIL


ONE_NETWORK, SAME_ROW = "rdma.gid_index_leads_to_one_network", "rdma.gid_index_means_the_same_on_every_node"
IFNAME = "network.interface_variables_match_an_interface"
BROKEN, LOGGED = "gpu.none_is_broken", "gpu.kernel_log_tells_of_no_broken_gpu"
PROXIES = "environment.proxies_leave_the_peers_out"
PROXY = "http://proxy:3128"
ROWS = {
    "G001": Told("container", as_in("link-local row first"), ONE_NETWORK, "link-local 169.254.7.3), which does not"),
    "G004": Told(
        "aws-p5", gone("dev/infiniband"), "rdma.devices_can_be_opened", "cannot be opened: /dev/infiniband/uverbs"
    ),
    "G005": Told(
        "efa-and-another",
        closed_to_its_user,
        "rdma.libfabric_may_open_every_device",
        "uverbs8: Permission denied",
    ),
    "G006": Told(
        "dgx-a100",
        both(other_wheel("nvidia_nccl_cu12", "2.22.3"), gone("sys/kernel/mm/memory_peers")),
        "rdma.nccl_finds_the_module_of_gpu_memory",
        "NCCL 2.22.3 does not know nvidia_peermem",
    ),
    "G009": Told("dgx-spark", as_in("link-local row first"), ONE_NETWORK, "roceP2p1s0f1:1 (RoCE v2 link-local 169.254"),
    "G010": Told(
        "dgx-spark",
        variables(NCCL_IB_HCA="rocep1s0f0,rocep2s0f0"),
        "rdma.nccl_ib_hca_matches_a_port",
        "its devices: roceP2p1s0f1, rocep1s0f1",
    ),
    "G011": Told(
        "hgx-h200-roce", as_in("missing GID row"), "rdma.gid_index_exists_on_every_node", "GID index 3 (NCCL_IB_GID"
    ),
    "G013": Told("container", as_in("memlock"), "limits.memlock_is_enough_for_rdma", "65536 bytes in this container"),
    "G014": Told("hgx-h200-roce", as_in("row of IPv6"), SAME_ROW, "ipv4 on node[1-2], ipv4, ipv6 on node3"),
    "G015": Told("xe9680-thor2", without_ipv4, SAME_ROW, "ipv6 on node3"),
    "G016": Told(
        "1gbe",
        variables(NCCL_SOCKET_IFNAME="10.77.0.3", GLOO_SOCKET_IFNAME="10.77.0.3"),
        IFNAME,
        "NCCL_SOCKET_IFNAME=10.77.0.3 matches no interface",
    ),
    "G018": Told("1gbe", as_in("127.0.1.1"), "names.own_hostname_is_not_loopback", "resolves to 127.0.1.1"),
    "G020": Told(
        "1gbe",
        as_in("own name is link-local"),
        "names.own_hostname_is_no_link_local_address",
        "leads to fe80::3",
        Verdict.WARN,
    ),
    "G021": Told(
        "1gbe", variables(http_proxy=PROXY, https_proxy=PROXY), PROXIES, "no_proxy leaves out neither", Verdict.WARN
    ),
    "G025": Told(
        "v100-omni-path",
        with_wheel("sglang", "0.5.2"),
        "network.serving_stacks_take_the_training_address",
        "SGLang takes the address of the default route",
        Verdict.WARN,
    ),
    "G031": Told(
        "1gbe",
        both(
            variables(https_proxy=PROXY, no_proxy="*.svc.cluster.local,10.0.0.0/8", RAY_ADDRESS="ray://ray-head:10001"),
            with_wheel("ray", "2.5.1"),
        ),
        PROXIES,
        "Ray's client 2.5.1 goes through the proxy to ray-head",
    ),
    "G066": Told("1gbe", as_in("few files"), "limits.enough_files_may_be_open", "open files: 1024", Verdict.WARN),
    "G067": Told(
        "hgx-h200-roce",
        answer(shared_memory_bytes=16 << 20),
        "limits.shared_memory_is_enough",
        "16 of 16 MiB are free in /dev/shm",
    ),
    "G069": Told("hgx-h200-roce", as_in("driver not reloaded"), "gpu.devices_are_readable", "version mismatch"),
    "G070": Told(
        "hgx-h200-roce",
        as_in("Fabric Manager stopped"),
        "gpu.fabric_manager_runs_where_it_is_needed",
        "nvidia-fabricmanager does not run",
    ),
    "G071": Told("hgx-h200-roce", as_in("out of the NVLink fabric"), BROKEN, "has not joined the NVLink fabric"),
    "G076": Told("hgx-h200-roce", both(as_in("remapping pending"), as_in("Xid 48")), BROKEN, "remapping of a broken"),
    "G078": Told(
        "hgx-h200-roce",
        both(as_in("GPUs shared out"), with_wheel("vllm", "0.12.0")),
        "environment.nothing_stands_before_cuda",
        "/usr/local/vgpu/libvgpu.so is loaded into every program",
    ),
    "G080": Told("hgx-h200-roce", as_in("Xid 48"), LOGGED, "Xid 48 (double-bit ECC error) of 0000:13:00"),
}


@pytest.fixture(scope="module")
def twin_of(lab_is_possible, tmp_path_factory):
    """A platform's three nodes and what they say in health, of each platform once."""
    made: dict[str, Twin] = {}

    def twin(name: str) -> Twin:
        if name not in made:
            made[name] = Twin(node.make(PLATFORMS[name], 3, tmp_path_factory.mktemp(name)))
            made[name].healthy = made[name].documents()
        return made[name]

    return twin


@pytest.mark.parametrize("row", sorted(ROWS, key=lambda row: ROWS[row].platform))
def test_the_node_is_named(twin_of, row):
    """With the verdict that the row deserves, a fix, and nothing against the nodes that are well."""
    told = ROWS[row]
    twin = twin_of(told.platform)
    folder = twin["node3"]
    told.plant(folder, PLATFORMS[told.platform])
    try:
        said = notable(twin.judge(twin.documents(["node3"])))
    finally:
        folder.restore()
    (found,) = (one for one in said if one.check == told.check)
    assert (found.verdict, found.nodes) == (told.verdict, ("node3",)), found.message
    assert told.words in found.message
    assert found.fix
    assert [one for one in said if set(one.nodes) != {"node3"} and not one.blocked_by] == []


def test_these_nodes_are_well_before_anything_is_planted(twin_of):
    """What is found is found for what was planted."""
    for name in {told.platform for told in ROWS.values()}:
        twin = twin_of(name)
        assert notable(twin.judge(twin.healthy)) == [], name
