"""Tests of checks/test_vendor.py."""

from __future__ import annotations

import dataclasses

import pytest

from preflight.facts.subjects.gpus.vendor import Copies, Finding, Vendor
from preflight.facts.value import Missing
from preflight.judge.ledger.findings import Verdict
from preflight.testing import roce
from tests.checks.samples import Broken, judge

CHECK = {
    "dcgmi": "vendor.dcgm_finds_no_fault",
    "rvs": "vendor.rvs_finds_no_fault",
    "agfhc": "vendor.agfhc_finds_no_fault",
}
COPIES = "vendor.nvbandwidth_is_the_same_on_every_gpu"


def found(program, status, nodes=4):
    """A cluster where a test of GPU 3 of the second node ended so."""
    return roce(nodes).broken("node2", "vendor", **{program: (Finding("Memory", "3", status, "it says why"),)})


def copied(rate, test="host_to_device_memcpy_ce", nodes=4):
    """A cluster whose second node has one copy at this rate."""
    run = roce(nodes)
    held = run.facts("node2", "vendor", Vendor).nvbandwidth
    place = next(place for place, cell in enumerate(held.cells) if cell.test == test)
    cells = [*held.cells]
    cells[place] = cells[place]._replace(gbytes_per_s=rate)
    return run.broken("node2", "vendor", nvbandwidth=Copies(tuple(cells), ""))


BROKEN = [
    Broken(CHECK["dcgmi"], found("dcgmi", "fail"), ("node2",), "dcgmi: Memory of GPU 3: it says why"),
    Broken(CHECK["rvs"], found("rvs", "fail"), ("node2",), "rvs: Memory of GPU 3: it says why"),
    Broken(CHECK["agfhc"], found("agfhc", "fail"), ("node2",), "agfhc: Memory of GPU 3: it says why"),
    Broken(COPIES, copied(20.0), ("node2",), "host_to_device_memcpy_ce of GPU 0: 20 GB/s; the median of 4 is 55"),
    Broken(COPIES, copied(20.0, nodes=2), ("node2",), "of GPU 0: 20 GB/s; the median of 16 is 55"),
    Broken(COPIES, copied(40.0, "device_to_device_memcpy_read_ce"), ("node2",), "between GPU 0 and 1: 40 GB/s"),
    Broken(
        COPIES,
        roce().broken("node2", "vendor", nvbandwidth=Copies((), "what it copied arrived changed: at 0x7f")),
        ("node2",),
        "arrived changed",
    ),
]


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to fix it."""
    broken.assert_named()


def test_what_dcgm_only_warns_of_is_a_warning():
    """As persistence that is off."""
    assert [one.nodes for one in judge(CHECK["dcgmi"], found("dcgmi", "warn")) if one.verdict is Verdict.WARN] == [
        ("node2",)
    ]
    assert {one.verdict for one in judge(CHECK["dcgmi"], found("dcgmi", "skip"))} == {Verdict.PASS}


@pytest.mark.parametrize("check", [*CHECK.values(), COPIES])
@pytest.mark.parametrize("kind", ["absent", "failed"])
def test_a_node_without_an_answer_is_no_pass(check, kind):
    """Not installed there, or ended before it told anything; nobody else is blamed."""
    lost = Missing("did not finish within 300 s", kind)
    run = roce().broken("node2", "vendor", dcgmi=lost, rvs=lost, agfhc=lost, nvbandwidth=lost)
    verdicts = {name: one.verdict for one in judge(check, run) for name in one.nodes}
    assert verdicts == {**dict.fromkeys(run.names, Verdict.PASS), "node2": Verdict.ERROR}


def test_rvs_that_ended_before_the_last_gpu_is_no_pass():
    """Its output says nowhere how long it was to be; the GPUs that it told of are counted."""
    told = tuple(Finding("gst", str(gpu), "pass", "met: TRUE") for gpu in range(3))
    run = roce().broken("node2", "vendor", rvs=told)
    found = {name: one for one in judge(CHECK["rvs"], run) for name in one.nodes}
    assert found["node2"].verdict is Verdict.ERROR
    assert "it reported 3 of 8 GPUs" in found["node2"].message


@pytest.mark.parametrize("check", [*CHECK.values(), COPIES])
def test_what_nobody_asked_for_is_skipped(check):
    """Also in a run that an older version stored."""
    findings = judge(check, bare(roce()))
    assert {one.verdict for one in findings} == {Verdict.SKIP}
    assert "not asked for (--vendor-tests)" in findings[0].message


@pytest.mark.parametrize(("program", "check"), [*CHECK.items(), ("nvbandwidth", COPIES)])
def test_a_test_that_was_asked_for_and_that_no_node_has_is_not_measured(program, check):
    """Skipped, it would let the run pass: somebody wants to know. Where it was found it counts for those nodes."""
    nowhere = Missing(f"{program} not found", "absent")
    run = roce()
    (found,) = judge(check, run.broken(run.names, "vendor", **{program: nowhere}))
    assert (found.verdict, found.nodes) == (Verdict.ERROR, run.names)
    assert f"--vendor-tests asks for {program}" in found.message


def bare(run):
    """The same without the subject."""
    told = {name: {key: held for key, held in facts.items() if key != "vendor"} for name, facts in run.subjects.items()}
    return dataclasses.replace(run, subjects=told)
