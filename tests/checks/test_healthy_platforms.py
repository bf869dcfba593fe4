"""What is said against clusters that are well, each in the way of its platform? Nothing, or what is listed here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from preflight.facts.subjects.ending import PortEnd
from preflight.facts.subjects.gpus.status import GpuStatus
from preflight.facts.subjects.network import Address
from preflight.facts.subjects.rdma import Rdma
from preflight.facts.value import Missing
from preflight.judge.ledger.findings import Verdict
from preflight.testing import FakeRun, healthy, infiniband, measured, roce
from preflight.testing.hardware import ABSENT, gpus, hca
from tests.checks.samples import checks, debian_name, judge, with_interface, with_netdevs

FINE = {Verdict.PASS, Verdict.SKIP}
GIDS = hca(8, 1).ports[0].gids
UNSET = {"NCCL_IB_HCA": "", "NCCL_IB_GID_INDEX": "", "NCCL_SOCKET_IFNAME": ""}


def on_all(run: FakeRun, change: Callable[[FakeRun, str, int], FakeRun]) -> FakeRun:
    """The same change on every node, which is given by its name and its number."""
    for number, name in enumerate(run.names, 1):
        run = change(run, name, number)
    return run


def debian(run: FakeRun) -> FakeRun:
    """Every node calls itself 127.0.1.1, as the installer wrote it."""
    return on_all(run, lambda run, name, _: debian_name(run, name))


def stock_ubuntu() -> FakeRun:
    """Beside the network of the peers: bridges to containers and machines, and a VPN, in the order they come up."""

    def more(run: FakeRun, name: str, number: int) -> FakeRun:
        run = with_interface(run, name, "docker0", "172.17.0.1", prefix=16)
        run = with_interface(run, name, "virbr0", "192.168.122.1")
        run = with_interface(run, name, "tailscale0", f"100.64.0.{number}", prefix=32)
        return with_interface(run, name, "cni0", f"10.244.{number}.1")

    return on_all(debian(roce().with_variables(**UNSET)), more)


def ipv6_only(run: FakeRun) -> FakeRun:
    """No node has an IPv4 address but loopback."""

    def moved(run: FakeRun, name: str, number: int) -> FakeRun:
        address = f"fd00::{number}"
        run = run.broken_interface(name, addresses=(Address(address, 64, "inet6"), Address("fe80::1", 64, "inet6")))
        run = run.broken(name, "identity", hostname_address=address, hostname_addresses=(address,))
        held = run.subjects[name]["peers"]
        routes = [
            msgspec.structs.replace(
                route,
                address=f"fd00::{int(route.name[4:])}",
                resolved=(f"fd00::{int(route.name[4:])}",),
                resolved_fqdn=(f"fd00::{int(route.name[4:])}",),
                reverse_addresses=(f"fd00::{int(route.name[4:])}",),
                source=address,
            )
            for route in held.routes  # type: ignore[attr-defined]
        ]
        return run.broken(name, "peers", routes=tuple(routes), master_addresses=("fd00::1",))

    return on_all(run, moved)


def pods() -> FakeRun:
    """An address of its own with /32, limits of a container, a kernel's log that nobody may read."""

    def pod(run: FakeRun, name: str, number: int) -> FakeRun:
        held = (Address(f"10.0.0.{number}", 32, "inet"), Address("fe80::1", 64, "inet6"))
        run = run.broken_interface(name, addresses=held, mtu=1450, is_physical=False, speed_mbps=0)
        log = Missing("a container does not see the kernel's log", "denied")
        return run.broken(name, "kernel", log=log, cgroup_cpus=64.0).broken(name, "identity", context="container")

    return on_all(healthy(), pod)


def cpu_nodes_with_rdma() -> FakeRun:
    """Gloo beside adapters that it does not use: one is down on one node, and no session may lock memory."""
    run = replace(healthy(), backend="gloo")
    for number, name in enumerate(run.names, 1):
        run = run.broken(name, "rdma", devices=(hca(0, number), hca(1, number)))
        run = run.broken(name, "limits", memlock_soft_bytes=65536)
    return run.broken_rdma_port("node2", 1, state="DOWN", physical_state="Disabled")


def without_ib() -> FakeRun:
    """NCCL that was told to leave RDMA alone, which is a warning of its own, and takes 100 Gbit/s of Ethernet."""
    run = on_all(roce(), lambda run, name, _: run.broken_interface(name, speed_mbps=100_000))
    run = run.with_variables(NCCL_IB_DISABLE="1", **UNSET).broken_rdma_port("node2", 7, state="DOWN")
    return on_all(run, lambda run, name, _: run.broken(name, "limits", memlock_soft_bytes=8 << 20))


def second_port_is_empty() -> FakeRun:
    """Adapters of two ports, of which nobody plugged in the second; NCCL_IB_HCA names adapters."""

    def two(run: FakeRun, name: str, number: int) -> FakeRun:
        rdma = run.facts(name, "rdma", Rdma)
        first = rdma.devices[0]
        second = msgspec.structs.replace(first.ports[0], number=2, state="DOWN", physical_state="Polling", gids=())
        devices = (msgspec.structs.replace(first, ports=(first.ports[0], second)), *rdma.devices[1:])
        return run.broken(name, "rdma", devices=devices)

    return on_all(roce().with_variables(NCCL_IB_HCA="mlx5"), two)


def with_storage_port(rate: float, *, near: bool = False) -> FakeRun:
    """InfiniBand with a RoCE port for storage or management beside the fabric, as DGX and Azure (mlx5_an0) have."""

    def more(run: FakeRun, name: str, number: int) -> FakeRun:
        rdma = run.facts(name, "rdma", Rdma)
        extra = hca(8, number)
        port = msgspec.structs.replace(extra.ports[0], rate_gbps=rate, gids=extra.ports[0].gids[:2] if near else GIDS)
        extra = msgspec.structs.replace(extra, name="mlx5_an0", board="MSF0000", model="MT4126", ports=(port,))
        ended = run.subjects[name]["ending"].ports  # type: ignore[attr-defined]
        run = run.broken(name, "ending", ports={**ended, "mlx5_an0:1": ended["mlx5_0:1"]})
        return run.broken(name, "rdma", devices=(*rdma.devices, extra))

    run = infiniband().with_variables(**UNSET)
    return (
        on_all(run, more) if not near else on_all(on_all(run, more), lambda run, name, _: _without_topology(run, name))
    )


def _without_topology(run: FakeRun, name: str) -> FakeRun:
    return run.broken(name, "gpu", topology=Missing("not listed", "absent"))


def efa() -> FakeRun:
    """AWS: adapters whose link layer has no name, and no counter that InfiniBand has."""

    def changed(run: FakeRun, name: str, number: int) -> FakeRun:
        for device in range(8):
            run = run.broken_rdma_port(name, device, link_layer="Unspecified", counters={}, width=ABSENT, pkeys=ABSENT)
        run = run.broken(name, "software", nccl_plugins=("/opt/amazon/ofi-nccl/lib/libnccl-net.so",))
        ports = {f"mlx5_{device}:1": PortEnd("ACTIVE", {}) for device in range(8)}
        return run.broken(name, "ending", ports=ports)

    return on_all(roce().with_variables(**UNSET), changed)


def amd() -> FakeRun:
    """MI300X: of what NVIDIA's driver tells, nothing."""

    def changed(run: FakeRun, name: str, number: int) -> FakeRun:
        fields = {
            "status": GpuStatus(),
            "links": ABSENT,
            "mig_mode": ABSENT,
            "compute_mode": ABSENT,
            "processes": ABSENT,
        }
        devices = gpus(8, name="AMD Instinct MI300X", memory_mib=196592, **fields)
        facts = {"topology": ABSENT, "cuda_driver": Missing("the GPUs are AMD's", "absent"), "switches": 0}
        run = run.broken(name, "gpu", devices=devices, fabric_manager=ABSENT, driver="6.12.12", **facts)
        run = run.broken(name, "kernel", modules=("amdgpu", "ib_uverbs", "mlx5_ib"), is_driver_open=ABSENT)
        return run.broken(name, "software", torch_cuda=Missing("built for ROCm", "absent"), torch_hip="6.4")

    return on_all(roce(), changed)


def pcie_cards() -> FakeRun:
    """L40S without NVLink, and one Ethernet adapter of 25 Gbit/s that all GPUs share."""

    def changed(run: FakeRun, name: str, number: int) -> FakeRun:
        status = msgspec.structs.replace(
            gpus(1)[0].status, fabric_state=ABSENT, fabric_status=ABSENT, fabric_health=ABSENT, performance_state="P8"
        )
        devices = gpus(4, name="NVIDIA L40S", memory_mib=46068, status=status, links=ABSENT)
        run = run.broken(name, "gpu", devices=devices, switches=0, fabric_manager=ABSENT, topology=ABSENT)
        run = run.broken(name, "gpu", on_bus=tuple(f"0000:{place:02x}:00.0" for place in range(4)))
        return run.broken(name, "rdma", devices=()).broken(name, "ending", ports={})

    variables = {**UNSET, "CUDA_VISIBLE_DEVICES": "0,1,2,3"}
    return on_all(roce().with_variables(**variables), changed)


def own_adapters() -> FakeRun:
    """Virtual functions with names of their own on each node, and NCCL_IB_HCA that names them there."""

    def changed(run: FakeRun, name: str, number: int) -> FakeRun:
        rdma = run.facts(name, "rdma", Rdma)
        names = [f"mlx5_{2 * number + place}" for place in range(2)]
        devices = [msgspec.structs.replace(one, name=named) for one, named in zip(rdma.devices, names, strict=False)]
        ports = {f"{named}:1": PortEnd("ACTIVE", {"link_downed": 0, "symbol_error": 0}) for named in names}
        run = run.broken(name, "rdma", devices=tuple(devices)).broken(name, "ending", ports=ports)
        run = run.with_variables(name, NCCL_IB_HCA=f"={','.join(names)}")
        return run.broken(name, "gpu", topology=ABSENT)

    run = on_all(roce(), changed)
    logs = [
        measured.transport(rank, name, "IB", *(f"mlx5_{2 * rank + place}:1/RoCE" for place in (2, 3)))
        for rank, name in enumerate(run.names)
    ]
    return run.bench_has(transports=tuple(logs))


ADVICE = {"names.own_hostname_is_not_loopback", "master.first_node_knows_the_address_for_its_own"}
# A cluster that is well -> the checks that may warn, each about a habit that this platform has.
PLATFORMS: dict[str, tuple[Callable[[], FakeRun], set[str]]] = {
    "Ethernet": (healthy, set()),
    "RoCE": (roce, set()),
    "InfiniBand": (infiniband, set()),
    "RoCE with its netdevs": (lambda: with_netdevs(roce()), set()),
    "Debian's 127.0.1.1 under NCCL": (lambda: debian(roce()), ADVICE),
    "stock Ubuntu": (stock_ubuntu, ADVICE),
    "IPv6 only": (lambda: ipv6_only(healthy()), set()),
    "IPv6 only under NCCL": (lambda: ipv6_only(roce()), set()),
    "pods": (pods, set()),
    "Gloo beside RDMA": (cpu_nodes_with_rdma, set()),
    "NCCL without RDMA": (without_ib, {"environment.nothing_is_left_from_debugging"}),
    "second ports empty": (second_port_is_empty, set()),
    "InfiniBand with a slower storage port": (lambda: with_storage_port(200.0), set()),
    "InfiniBand with a storage port as fast": (lambda: with_storage_port(400.0), set()),
    "Azure's mlx5_an0, topology unknown": (lambda: with_storage_port(100.0, near=True), set()),
    "EFA": (efa, set()),
    "MI300X": (amd, set()),
    "L40S over Ethernet": (pcie_cards, set()),
    "adapters of each node's own": (own_adapters, set()),
    "no variable set": (lambda: roce().with_variables(**UNSET), set()),
}


def told(run: FakeRun) -> dict[str, set[Verdict]]:
    """Check -> its verdicts that are worse than pass."""
    found: dict[str, set[Verdict]] = {}
    for name in checks():
        for finding in judge(name, run):
            if finding.verdict not in FINE:
                found.setdefault(f"{finding.check}", set()).add(finding.verdict)
    return found


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_healthy_platform_is_go(platform):
    """Nothing fails, nothing is unmeasured, and only what is listed warns."""
    make, may_warn = PLATFORMS[platform]
    found = told(make())
    assert {name: verdicts for name, verdicts in found.items() if verdicts != {Verdict.WARN}} == {}
    assert found.keys() <= may_warn


def test_an_efa_adapter_that_is_down_is_told():
    """Its link layer has no name, and NCCL's own transport does not take it: its plugin does."""
    run = efa().broken_rdma_port("node2", 3, link_layer="Unspecified", state="DOWN")
    (finding,) = [f for f in judge("rdma.ports_are_active", run) if f.verdict is Verdict.FAIL]
    assert (finding.nodes, finding.message) == (("node2",), "mlx5_3:1 is DOWN (LinkUp); wanted ACTIVE")


def test_efa_without_its_plugin_is_told():
    """NCCL would take TCP without a word."""
    run = efa().broken("node2", "software", nccl_plugins=())
    (finding,) = [f for f in judge("rdma.plugin_of_nccl_is_there", run) if f.verdict is Verdict.FAIL]
    assert finding.nodes == ("node2",)
    assert finding.message.startswith("mlx5_0:1, mlx5_1:1 is EFA, and no libnccl-net.so is found")


def test_a_port_that_counts_nothing_while_its_kin_do_is_no_pass():
    """Errors that nobody counted are not none."""
    run = roce().broken_rdma_port("node3", 2, counters={})
    for check in ("rdma.no_errors_were_counted_during_the_run", "rdma.no_link_went_down_during_the_run"):
        assert {f.nodes: f.verdict for f in judge(check, run)}["node3",] is Verdict.ERROR


def test_a_port_without_its_active_mtu_is_no_pass():
    """The others of its name report one."""
    run = roce().broken_rdma_port("node3", 2, active_mtu=ABSENT)
    findings = {f.nodes: f.verdict for f in judge("rdma.active_mtu_is_the_same_on_every_node", run)}
    assert findings["node3",] is Verdict.ERROR


def test_stock_debian_stops_gloo_and_not_nccl():
    """The one check that may not be the same for both."""
    (finding,) = judge("names.own_hostname_is_not_loopback", debian(healthy()))
    assert finding.verdict is Verdict.FAIL
    (finding,) = judge("names.own_hostname_is_not_loopback", debian(roce()))
    assert finding.verdict is Verdict.WARN
