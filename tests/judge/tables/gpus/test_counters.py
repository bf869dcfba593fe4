"""How many errors of NVLink and PCIe are too many, and what if they were not counted again?"""

from __future__ import annotations

import pytest

from preflight.facts.subjects.gpu import LinkErrors
from preflight.facts.value import Missing
from preflight.judge.ledger.findings import Verdict
from preflight.testing import roce
from preflight.testing.hardware import gpus
from tests.checks.gpu_samples import counted_at_the_end, ended, with_gpus
from tests.checks.samples import judge

NVLINK_ERRORS = "gpu.nvlinks_counted_no_errors_during_the_run"
PCIE_ERRORS = "gpu.none_counted_pcie_errors_during_the_run"


def test_a_few_errors_that_nvlink_corrects_are_no_fault():
    """CRC errors are sent again; a hundred of them are told."""
    few, many = (ended(**{"link 4: CRC Errors": count}) for count in (99, 100))
    assert {finding.verdict for finding in judge(NVLINK_ERRORS, few)} == {Verdict.PASS}
    assert Verdict.WARN in {finding.verdict for finding in judge(NVLINK_ERRORS, many)}


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (roce().broken("node2", "ending", nvlink_errors=Missing("nvidia-smi did not finish")), "did not finish"),
        (roce().broken("node2", "ending", nvlink_errors=Missing("nvidia-smi not found", "absent")), "not found"),
        (roce().broken("node2", "ending", nvlink_errors=()), "does not list GPU 0 any more"),
        (ended(links=9), "lists 27 counters, and 54 at the start"),
        (with_gpus(*gpus(8, link_errors=Missing("cut short"))), "cut short"),
        (with_gpus(*gpus(8, link_errors=LinkErrors(9, 27, {}))), "lists 9 links of GPU 0, 18 are active"),
    ],
)
def test_nvlinks_that_are_not_counted_again_are_no_pass(run, words):
    """What is there must be counted at the start and at the end."""
    found = {f.nodes: f for f in judge(NVLINK_ERRORS, run)}
    assert found[("node2",)].verdict is Verdict.ERROR
    assert words in found[("node2",)].message


@pytest.mark.parametrize(("count", "verdict"), [(99, Verdict.PASS), (100, Verdict.WARN)])
def test_hundreds_of_corrected_errors_are_a_warning(count, verdict):
    """Each is sent again; a few come and go."""
    found = judge(PCIE_ERRORS, counted_at_the_end("corrected", count))
    assert {one.verdict for one in found if "node2" in one.nodes} == {verdict}


@pytest.mark.parametrize("end", [Missing("Permission denied", "denied"), ()])
def test_pcie_errors_that_are_not_counted_again_are_no_pass(end):
    """A GPU that left the bus, or a file that is closed now."""
    found = judge(PCIE_ERRORS, roce().broken("node2", "ending", gpus_counted=end))
    verdicts = {name: one.verdict for one in found for name in one.nodes}
    assert verdicts == {**dict.fromkeys(roce().names, Verdict.PASS), "node2": Verdict.ERROR}
