"""What holds for every check there is: explained, passed by healthy clusters, and able to fail?"""

from __future__ import annotations

import importlib
from pathlib import Path

import msgspec
import pytest

from preflight.facts.subjects.network import Network
from preflight.facts.subjects.peers import Peers
from preflight.facts.subjects.software import Software
from preflight.judge.check import docstring_fix
from preflight.judge.ledger.findings import Verdict
from preflight.testing import FakeRun, healthy, infiniband, roce
from tests.checks.samples import checks, judge_all, with_gateways, with_netdevs
from tests.checks.test_healthy_platforms import efa

HERE = Path(__file__).parent
ON_INFINIBAND = {
    "rdma.plugin_of_nccl_is_there",  # which EFA needs
    "rdma.libfabric_may_open_every_device",
    "gpu.an_nvlink_domain_is_of_one_clique",
    "gpu.imex_joins_an_nvlink_domain",
    "bench.no_group_is_slower_than_the_others",  # which is benched rail by rail
    "rdma.active_mtu_is_enough_for_device_initiated_traffic",
    "rdma.infiniband_ports_have_a_subnet_manager",
    "rdma.infiniband_addresses_are_unique",
    "rdma.partition_is_the_same_on_every_node",
}


@pytest.mark.parametrize("name", sorted(checks()))
def test_it_is_explained(name):
    """The docstring says what must hold in one sentence, why a job breaks otherwise, and how to fix it."""
    text = checks()[name].__doc__ or ""
    first, _, rest = text.partition("\n\n")
    why, _, _ = rest.partition("Fix:")
    assert first.endswith(".")
    assert len(why.split()) > 5
    assert docstring_fix(text)


def test_it_can_fail():
    """Every check has a row with a broken cluster in the tests of its subject, and every row a check."""
    rows = set()
    for path in HERE.glob("test_*.py"):
        module = importlib.import_module(f"tests.checks.{path.stem}") if path != Path(__file__) else None
        rows |= {broken.name for broken in getattr(module, "BROKEN", ())}
    assert rows == set(checks())


def with_all_that_is_asked(run: FakeRun) -> FakeRun:
    """Variables of every kind, packages that require each other, and neighbours whose cards are known."""
    run = run.with_variables(
        NCCL_TOPO_FILE="/etc/topo.xml", NCCL_IB_TC="106", http_proxy="http://proxy:3128", no_proxy=",".join(run.names)
    )
    cards = {name: run.facts(name, "network", Network).interfaces[1].mac for name in run.names}
    for number, name in enumerate(run.names):
        routes = run.facts(name, "peers", Peers).routes
        known = tuple(msgspec.structs.replace(route, card=cards[route.name]) for route in routes)
        run = run.broken(name, "peers", routes=known).with_variables(name, NODE_RANK=str(number))
        packages = {
            **run.facts(name, "software", Software).packages,
            "vllm": "0.12.0",
            "horovod": "0.28.1",
            "ray": "2.44.1",
        }
        run = run.broken(name, "software", packages=packages, ray_running={"/opt/env": "2.44.1"})
        run = run.broken(name, "trust", programs={"pdsh": "/usr/bin/pdsh"})
    run = with_gateways(run, *run.names)
    return run.broken(run.names, "software", requirements={"accelerate": {"torch": ">=2.0.0"}})


def test_a_healthy_cluster_with_everything_passes_everything():
    """Four nodes with GPUs, RoCE, InfiniBand or EFA, and a usual job's variables: every check asks, and is content."""
    on_ethernet = judge_all(with_all_that_is_asked(with_netdevs(roce())))
    everywhere = [*on_ethernet, *judge_all(infiniband()), *judge_all(efa())]
    assert {finding.verdict for finding in everywhere} <= {Verdict.PASS, Verdict.SKIP}
    passed = {finding.check for finding in everywhere if finding.verdict is Verdict.PASS}
    assert passed == set(checks())
    skipped = {finding.check for finding in on_ethernet if finding.verdict is Verdict.SKIP}
    assert skipped <= ON_INFINIBAND


@pytest.mark.parametrize("subject", ["", *sorted(healthy(1).subjects["node1"])])
def test_a_node_that_could_not_tell_costs_the_others_no_verdict(subject):
    """One subject or, without a name, all but its GPUs: what is not measured there says nothing of anybody else."""
    run = with_netdevs(roce())
    for lost in [subject] if subject else run.subjects["node2"].keys() - {"gpu"}:
        run = run.without("node2", lost)
    found = [finding for finding in judge_all(run) if finding.verdict not in (Verdict.PASS, Verdict.SKIP)]
    own = [finding for finding in found if not finding.blocked_by]  # no job is started on nodes that are not known
    assert {finding.check: finding.nodes for finding in own if finding.nodes != ("node2",)} == {}


@pytest.mark.parametrize("run", [healthy(3), healthy(1), roce(1)], ids=["ethernet-3", "ethernet-1", "roce-1"])
def test_what_is_not_there_is_not_asked(run):
    """Without GPUs, RDMA, variables or peers a check passes or is skipped; nothing is an error."""
    assert {finding.verdict for finding in judge_all(run)} == {Verdict.PASS, Verdict.SKIP}


def test_a_plain_machine_alone_is_well():
    """One fresh Debian machine, its own name 127.0.1.1, 1024 files, a small /dev/shm: warnings at most."""
    run = healthy(1).broken("node1", "identity", hostname_address="127.0.1.1", hostname_addresses=("127.0.1.1",))
    run = run.broken("node1", "limits", nofile_soft=1024, memlock_soft_bytes=8 << 20, shm_free_bytes=63 << 20)
    assert {finding.verdict for finding in judge_all(run)} == {Verdict.PASS, Verdict.SKIP, Verdict.WARN}
