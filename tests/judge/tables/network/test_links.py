"""Are links that went down and adapters with few PCIe lanes told, from the files that the kernel shows?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.subjects.kernel import BondMember
from preflight.facts.subjects.network import Interface
from preflight.facts.value import Missing
from preflight.judge.ledger.findings import Verdict
from preflight.node.subjects import kernel, network
from preflight.testing import healthy
from tests.checks.samples import judge

BEST = "kernel.node_is_at_its_best"
SAME = "kernel.settings_are_the_same_on_every_node"
DURING = "network.no_interface_counted_errors_during_the_run"
INDEX = 7
BOND = """Bonding Mode: IEEE 802.3ad Dynamic link aggregation (layer3+4)
MII Status: up

Slave Interface: eth0
MII Status: up
Speed: 25000 Mbps
Link Failure Count: {}
Aggregator ID: 1

Slave Interface: eth1
MII Status: up
Speed: 25000 Mbps
Link Failure Count: 0
Aggregator ID: 1
"""


def write(folder, **files):
    """Files of a tree, "__" between folders."""
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


def sysfs(folder, *, changes="2", now="16", most="16", slot="16", index=INDEX):
    """sysfs of one adapter behind one bridge; what is "" has no file."""
    bridge = folder / "devices/pci0000:00/0000:00:01.0"
    place = bridge / "0000:01:00.0"
    place.mkdir(parents=True)
    for path, text in (
        (place / "current_link_width", now),
        (place / "max_link_width", most),
        (bridge / "max_link_width", slot),
    ):
        if text:
            path.write_text(f"{text}\n")
    shown = folder / "class/net/eth0"
    write(shown, ifindex=index, **({"carrier_changes": changes} if changes else {}))
    (shown / "device").symlink_to(place)
    return folder


def facts_of(folder):
    """The fields of eth0's facts that come from its folder in sysfs."""
    told = network.of_sysfs("eth0", index=INDEX, sysfs=str(folder))
    raw = {name: told[name] for name in ("carrier_changes", "lanes")}
    types = {field.name: field.type for field in msgspec.structs.fields(Interface)}
    return {name: msgspec.convert(value, type=types[name], strict=True) for name, value in raw.items()}


def seen(check, run):
    """Verdict, nodes and message of what is no pass."""
    return [(str(one.verdict), one.nodes, one.message) for one in judge(check, run) if one.verdict is not Verdict.PASS]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ("99", []),
        ("100", [("warn", ("node2",), "eth0 lost its link 50 times since it was created")]),
        ("", []),
        ("x", []),
    ],
)
def test_a_link_that_is_lost_again_and_again_is_told(tmp_path, changes, told):
    """Down and up are two changes; a few of them are a switch that was started again."""
    run = healthy().broken_interface("node2", **facts_of(sysfs(tmp_path, changes=changes)))
    assert seen(BEST, run) == told


@pytest.mark.parametrize(
    ("failures", "told"), [(49, []), (77, [("warn", ("node2",), "eth0 lost its link 77 times since it was created")])]
)
def test_a_bonds_member_tells_its_losses_itself(tmp_path, failures, told):
    """The bond itself stays up, and counts nothing."""
    write(tmp_path, net__bonding__bond0=BOND.format(failures))
    raw = kernel.bonds(f"{tmp_path}/net/bonding", str(tmp_path), list)
    members = tuple(msgspec.convert(row, type=BondMember, strict=True) for row in raw["bond_members"])
    run = healthy().broken("node2", "kernel", bonds=raw["bonds"], bond_modes=raw["bond_modes"], bond_members=members)
    assert seen(BEST, run) == told


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        ({}, []),
        ({"most": "8", "now": "8"}, []),  # a card that has no more
        ({"slot": "8", "now": "8"}, []),  # a slot that has no more
        (
            {"now": "4"},
            [("warn", ("node2",), "PCIe lanes of the interfaces: all lanes on node[1,3], eth0 x4 of x16 on node2")],
        ),
    ],
)
def test_an_adapter_with_fewer_lanes_than_its_slot_is_told(tmp_path, tree, told):
    """As many as the card and its slot have are all."""
    (tmp_path / "well").mkdir()
    well, other = facts_of(sysfs(tmp_path / "well")), facts_of(sysfs(tmp_path / "other", **tree))
    run = healthy()
    for name, fields in (("node1", well), ("node2", other), ("node3", well)):
        run = run.broken_interface(name, **fields)
    assert seen(SAME, run) == told


def test_an_adapter_whose_lanes_cannot_be_read_is_not_taken_for_a_wide_one():
    """It may be the narrow one: the node is not judged by its other adapters."""
    denied = Missing("current_link_width: Permission denied", "denied")
    found = judge(SAME, healthy().broken_interface("node2", lanes=denied))
    (one,) = (finding for finding in found if "node2" in finding.nodes)
    assert one.verdict is not Verdict.PASS
    assert "PCIe lanes of eth0" in one.message


def test_lanes_that_no_node_tells_are_no_finding():
    """A guest's hypervisor shows none: that is no slow slot, and the check says that it did not compare them."""
    (one,) = judge(SAME, healthy())
    assert "PCIe lanes of the interfaces" in one.message.partition("Not reported by any node: ")[2]


@pytest.mark.parametrize(("width", "kind"), [("0", "absent"), ("255", "absent"), ("Unknown", "absent"), ("", "failed")])
def test_a_width_that_is_none_is_missing(tmp_path, width, kind):
    """The kernel writes 0, 255 or Unknown for a link that is none, as in guests; a file that is lost is not that."""
    assert facts_of(sysfs(tmp_path, now=width))["lanes"].kind == kind


def test_a_sysfs_of_other_interfaces_tells_nothing(tmp_path):
    """That of a container's host has an interface of the same name."""
    found = facts_of(sysfs(tmp_path, changes="500", now="4", index=INDEX + 1))
    assert {value.missing for value in found.values()} == {network.OTHER_SYSFS}


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("2", "2", []),
        ("2", "4", [("warn", ("node2",), "eth0 lost its link once")]),
        ("2", "3", [("warn", ("node2",), "eth0 lost its link once")]),
        ("2", "8", [("warn", ("node2",), "eth0 lost its link 3 times")]),
    ],
)
def test_a_link_that_went_down_during_the_run_is_told(tmp_path, before, after, told):
    """Down and up again, or down for good."""
    run = healthy()
    for name in run.names:
        ends = {"node2": after}.get(name, before)
        first = facts_of(sysfs(tmp_path / name / "first", changes=before))["carrier_changes"]
        last = facts_of(sysfs(tmp_path / name / "last", changes=ends))["carrier_changes"]
        run = run.broken_interface(name, carrier_changes=first).broken(name, "ending", carrier_changes={"eth0": last})
    assert seen(DURING, run) == told


def test_an_interface_that_holds_packets_back_is_told_where_its_peers_have_none():
    """Queues of the kernel's choice are all one; what is shaped everywhere differs nowhere."""
    run = healthy()
    for name, queue in zip(run.names, ("mq", "fq_codel", "netem"), strict=True):
        run = run.broken_interface(name, queue=queue)
    told = [(one.nodes, one.message) for one in judge(SAME, run) if one.verdict is Verdict.WARN]
    assert told == [(("node3",), "traffic shaping of the job's interfaces: none on node[1-2], netem on node3")]
    for name in run.names:
        run = run.broken_interface(name, queue="tbf")
    assert {one.verdict for one in judge(SAME, run)} == {Verdict.PASS}


def test_a_full_control_group_is_told():
    """The next thread of a data loader is refused."""
    run = healthy().broken("node2", "kernel", cgroup_processes_held=0.98)
    (found,) = [one for one in judge(BEST, run) if one.verdict is Verdict.WARN]
    assert (found.nodes, found.message.partition(" of the")[0]) == (("node2",), "this control group has 98%")
