"""Are healthy platforms of every kind left in peace, as their nodes' own files and programs describe them?"""

import msgspec
import pytest

from preflight.facts import view
from preflight.job.collect import subjects
from preflight.job.measure import links
from preflight.judge.ledger.findings import Verdict
from preflight.launch.write import write_files
from tests.twins import node, platforms
from tests.twins.twin import Twin, notable

# A sample, each for something that no other has; `python -m tests.bench.twins` judges all of them.
SAMPLE = (
    *("ubuntu", "dgx-h100", "hgx-h200-roce", "aws-p4d", "mi300x", "kubernetes-pod", "sriov-pod", "slingshot-a100"),
    *("azure-nd-h100-v5", "rhel9-lacp-vlan", "busybox-container", "lumi-g-mi250x", "alps-gh200", "dgx-1-v100"),
)


@pytest.mark.parametrize("name", SAMPLE)
def test_a_healthy_platform_is_left_in_peace(name, tmp_path, lab_is_possible):
    """Every check that reads facts passes, or is skipped for a reason."""
    twin = Twin(node.make(platforms.BY_NAME[name], 3, tmp_path))
    findings = twin.judge(twin.documents())
    assert notable(findings) == []
    assert all(finding.message for finding in findings if finding.verdict is Verdict.SKIP)
    assert sum(finding.verdict is Verdict.PASS for finding in findings) > 40


def test_two_functions_of_one_cable_are_no_two_links(tmp_path, lab_is_possible):
    """A DGX Spark shows 23.7 GB/s over both functions of its cable, which have four lanes each."""
    twin = Twin(node.make(platforms.BY_NAME["dgx-spark"], 2, tmp_path))
    spark = next(iter(view.view(list(twin.documents().values()), "auto")))
    both = links.uplink_of(spark, backend="nccl")
    assert 23.7 < both.gbytes_per_s < 23.7 / 0.95
    assert str(both.nics[0]).endswith("/ 2 functions of one cable = 12.255 GB/s, but its PCIe slot carries 12.241")


def test_every_platform_names_its_source():
    """Nothing is made up: what a node looks like stands somewhere."""
    assert len(platforms.BY_NAME) == len(platforms.PLATFORMS) >= 16
    assert all(len(platform.source) > 30 for platform in platforms.PLATFORMS)


@pytest.fixture(scope="module")
def ipv6_only(tmp_path_factory, lab_is_possible):
    """Nodes whose training interface has IPv6 alone, reached by ssh at IPv4 addresses of another network."""
    twin = Twin(node.make(platforms.BY_NAME["ipv6-only"], 3, tmp_path_factory.mktemp("ipv6")))
    documents = twin.documents().values()
    reached = [msgspec.structs.replace(it, address=f"192.0.2.{it.index + 1}") for it in documents]
    return view.view(reached, "auto")


@pytest.mark.parametrize("launcher", ["torchrun", "accelerate", "env"])
def test_files_for_nodes_with_ipv6_alone_have_the_address_that_peers_use(ipv6_only, launcher):
    """That of the training interface, and not the one that ssh used."""
    files = write_files(launcher, ipv6_only, folder="/x")
    assert sum("fd00:77::1" in text for text in files.values()) == 3
    assert not any("192.0.2." in text for text in files.values())


def test_peers_are_asked_about_by_the_address_that_they_use(ipv6_only):
    """As the job's rendezvous has it."""
    orders = [subjects._about_peers(one, ipv6_only, [peer.name for peer in ipv6_only]) for one in ipv6_only]
    told = {peer["address"] for order in orders for peer in order["peers"]}
    assert told == {one.address_for_peers() for one in ipv6_only} == {f"fd00:77::{n}" for n in (1, 2, 3)}
