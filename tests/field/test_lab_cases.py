"""Failures of the field, planted on real hosts as they occurred: is each told over ssh, where it was planted?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.e2e.test_planted_faults import NO_MEMLOCK, Judged
from tests.field.cases import CASES, Caught
from tests.lab import faults, rdma
from tests.lab.faults import Planted
from tests.lab.lab import Lab

HOSTS = ("node1", "node2", "node3")
Plants = Callable[[Lab], Iterator[Planted]]


@dataclass(frozen=True)
class OnHosts:
    """How a case is planted, the words of the command line, and the hosts that the case's own check must name."""

    plants: Plants
    nodes: tuple[str, ...]
    words: tuple[str, ...] = ()


def nothing(lab: Lab) -> Iterator[Planted]:
    """The words of the command line are the fault."""
    yield from ()


def interface(name: str, *hosts: str, own_network: bool = False) -> Plants:
    """A further interface on some hosts, in one network or each in one of its own."""

    def plants(lab: Lab) -> Iterator[Planted]:
        for host in hosts:
            number = HOSTS.index(host) + 1
            address = f"10.8{number}.0.1/24" if own_network else f"10.79.0.{number}/24"
            yield faults.add_interface(lab[host], name, address)

    return plants


def vlan(lab: Lab) -> Iterator[Planted]:
    """A VLAN that begins with the name of the interface meant, on one host only."""
    yield from interface("bo0", *HOSTS)(lab)
    yield faults.add_interface(lab["node2"], "bo0.9", "10.90.0.2/24")


def hosts_file(host: str, change: Callable[[str], str]) -> Plants:
    """Another /etc/hosts on one host."""

    def plants(lab: Lab) -> Iterator[Planted]:
        yield lab[host].write_file("/etc/hosts", change(lab[host].check(["cat", "/etc/hosts"])))

    return plants


def named_localhost(lab: Lab) -> Iterator[Planted]:
    """An image whose hostname nobody set."""
    lab["node2"].check(["hostname", "localhost"])
    yield Planted(lambda: lab["node2"].check(["hostname", "node2"]) and None)


def routed(lab: Lab) -> Iterator[Planted]:
    """A default route on two of three."""
    for host in HOSTS[:2]:
        lab[host].check(["ip", "route", "add", "default", "via", lab["node3"].address])
        yield Planted(lambda host=host: lab[host].check(["ip", "route", "del", "default"]) and None)


def with_rdma(**of_node3: object) -> Plants:
    """A RoCE adapter on every host; that of node3 is otherwise."""

    def plants(lab: Lab) -> Iterator[Planted]:
        for host in HOSTS:
            more = of_node3 if host == "node3" else {}
            yield faults.rdma_tree(lab[host], [rdma.RdmaDevice()], **more)

    return plants


def file_on(path: str, text: str, *hosts: str) -> Plants:
    """A file on some hosts."""

    def plants(lab: Lab) -> Iterator[Planted]:
        yield from (lab[host].write_file(path, text) for host in hosts)

    return plants


def fault_on(host: str, plant: Callable[..., Planted], *words: str) -> Plants:
    """A fault of the lab on one host."""

    def plants(lab: Lab) -> Iterator[Planted]:
        yield plant(lab[host], *words)

    return plants


def without_peers(text: str) -> str:
    """Only the host itself and localhost."""
    return "".join(line for line in text.splitlines(keepends=True) if not {"node2", "node3"} & set(line.split()))


def with_full_name(text: str) -> str:
    """The installer's line: a full name that nobody else knows."""
    lines = text.splitlines()
    return "\n".join(line.replace("node1", "node1.local node1") for line in lines) + "\n"


ON_HOSTS = {
    "F002": OnHosts(interface("eth1", "node1", "node2"), ("node3",), ("--env=NCCL_SOCKET_IFNAME=eth1",)),
    "F004": OnHosts(interface("ib0", "node2"), ("node2",)),
    "F006": OnHosts(interface("ib0", *HOSTS, own_network=True), HOSTS),
    "F009": OnHosts(vlan, ("node2",), ("--env=NCCL_SOCKET_IFNAME=bo0",)),
    "F011": OnHosts(routed, ("node3",)),
    "F013": OnHosts(fault_on("node3", faults.drop_incoming_high_ports), ("node3",)),
    "F019": OnHosts(fault_on("node3", faults.hostname_resolves_to, "127.0.1.1"), ("node3",)),
    "F020": OnHosts(fault_on("node3", faults.hostname_resolves_to, "127.0.0.1"), ("node3",)),
    "F021": OnHosts(hosts_file("node1", with_full_name), ("node2", "node3")),
    "F027": OnHosts(named_localhost, ("node2",)),
    "F028": OnHosts(nothing, ("node1",), ("--env=MASTER_ADDR=jean-zay-ia",)),
    "F042": OnHosts(interface("eth1", *HOSTS), ("node1",), ("--env=MASTER_ADDR=10.79.0.1",)),
    "F047": OnHosts(nothing, ("node1",), ("--env=MASTER_ADDR=node2",)),
    "F066": OnHosts(file_on("/etc/nccl.conf", "NCCL_IB_USE_INLINE=1\n", "node2"), ("node2",)),
    "F080": OnHosts(with_rdma(missing_gids={3}), ("node3",), ("--env=NCCL_IB_GID_INDEX=3",)),
    "F099": OnHosts(file_on("/opt/code.py", "pass\n", "node1", "node2"), ("node3",), ("--same=/opt/code.py",)),
    "F106": OnHosts(nothing, ("node2", "node3"), ("--shared=/tmp",)),
    "F130": OnHosts(hosts_file("node1", without_peers), ("node1",)),
}


# Cases that do not get in each other's way, planted together: a run costs what it costs, however much it finds.
TOGETHER = (
    ("F002", "F011", "F021", "F028", "F066", "F099", "F106"),
    ("F004", "F019", "F130"),
    ("F009", "F013", "F047", "F080"),
    ("F006", "F020", "F027", "F042"),
)


def test_every_case_is_planted_once():
    """None is forgotten in the division."""
    assert sorted(name for names in TOGETHER for name in names) == sorted(ON_HOSTS)


@pytest.mark.parametrize("names", TOGETHER, ids="-".join)
def test_cases_are_told_on_the_hosts_where_they_were_planted(lab3, tmp_path, names):
    """The check that catches each case among facts catches it on hosts too, there and nowhere else, with a fix."""
    settings = tmp_path / "preflight.toml"
    settings.write_text(NO_MEMLOCK)
    words = [word for name in names for word in ON_HOSTS[name].words]
    with ExitStack() as stack:
        for name in names:
            for plant in ON_HOSTS[name].plants(lab3):
                stack.enter_context(plant)
        run = Judged(lab3, tmp_path / "report", "--preflight-profile=quick", f"--settings={settings}", *words)

    for name in names:
        case = CASES[name]
        assert isinstance(case, Caught)
        found = [f for f in run.report["findings"] if f["check"] == case.check and f["verdict"] in ("fail", "warn")]
        assert {node for one in found for node in one["nodes"]} == set(ON_HOSTS[name].nodes), f"{name}: {run.told()}"
        assert all(finding["fix"] for finding in found), name
