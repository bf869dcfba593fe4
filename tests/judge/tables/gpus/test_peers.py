"""When does it matter that GPUs cannot reach each other's memory?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.subjects.gpus.topology import Topology
from preflight.facts.value import Missing
from preflight.judge.ledger.findings import Verdict
from preflight.testing import roce
from preflight.testing.hardware import gpus, topology
from tests.checks.gpu_samples import refused, with_gpus
from tests.checks.samples import judge

REACH = "gpu.gpus_reach_each_others_memory"


def by_pcie():
    """The matrix of eight GPUs without NVLink."""
    rows = topology(8).rows
    plain = [
        msgspec.structs.replace(row, relations=tuple(r.replace("NV18", "NODE") for r in row.relations)) for row in rows
    ]
    return Topology(tuple(plain), topology(8).adapters)


def test_without_nvlink_only_a_node_unlike_its_equals_is_told():
    """A card that has no peer access has none on all nodes; where one node differs it is a warning."""
    (found,) = (f for f in judge(REACH, refused("CNS", topology_of=by_pcie())) if f.verdict is not Verdict.PASS)
    assert (found.verdict, found.nodes) == (Verdict.WARN, ("node2",))
    assert "between all on node[1,3-4], not between GPU 0 and 1 (CNS: the chipset refuses) on node2" in found.message
    alike = roce()
    closed = gpus(8, name="NVIDIA GeForce RTX 4090", peer_access=("CNS",) * 8)
    for name in alike.names:
        alike = alike.broken(name, "gpu", devices=closed, topology=by_pcie())
    assert {finding.verdict for finding in judge(REACH, alike)} == {Verdict.PASS}


@pytest.mark.parametrize(
    ("variables", "verdicts"),
    [
        ({"NCCL_P2P_DISABLE": "1"}, {Verdict.SKIP}),
        ({"NCCL_P2P_LEVEL": "LOC"}, {Verdict.SKIP}),
        ({"NCCL_IGNORE_DISABLED_P2P": "1"}, {Verdict.PASS, Verdict.WARN}),
        ({"NCCL_P2P_LEVEL": "NVL"}, {Verdict.PASS, Verdict.FAIL}),
    ],
)
def test_what_nccl_is_told_not_to_use_is_not_asked(variables, verdicts):
    """Where its variables switch peer access off, or let it be missing, a job starts."""
    assert {finding.verdict for finding in judge(REACH, refused("NS").with_variables(**variables))} == verdicts


def test_a_matrix_that_was_not_read_is_no_pass():
    """The node is an error, its peers are judged."""
    run = with_gpus(*gpus(8, peer_access=Missing("nvidia-smi topo -p2p w was cut short at GPU4")))
    found = {f.nodes: f.verdict for f in judge(REACH, run)}
    assert found[("node2",)] is Verdict.ERROR
