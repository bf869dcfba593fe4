"""Is a twin the same on every machine, whatever that says of its own log, clocks and name?"""

import json

import pytest

from preflight.judge.ledger.findings import Verdict
from tests.twins import node, planted
from tests.twins.platforms import BY_NAME
from tests.twins.sources import facts_of
from tests.twins.twin import MACHINE, MACHINES, Twin

LOG = "kernel.log_shows_no_broken_hardware"


def ages(documents):
    """How old each event of a log is said to be."""
    return [[event["age_seconds"] for event in each.subjects["kernel"]["log"]] for each in documents.values()]


@pytest.mark.parametrize("name", ["dgx-h100", "xe9680-thor2"])
def test_a_twin_says_the_same_on_every_machine(name, tmp_path, monkeypatch, lab_is_possible):
    """Facts and findings, of healthy nodes and of one whose log reports a fault, and how long ago that was."""
    platform = BY_NAME[name]
    said = []
    twin = Twin(node.make(platform, 2, tmp_path))
    for plant in (lambda: None, lambda: twin["node2"].log("NVRM: Xid (PCI:0000:07:00): 79, x", age_seconds=1800.0)):
        plant()
        for machine in MACHINES:
            monkeypatch.setenv(MACHINE, machine)
            documents = twin.documents()
            findings = [(one.check, one.verdict, one.nodes) for one in twin.judge(documents)]
            said.append(([json.loads(facts_of(each)) for each in documents.values()], findings, ages(documents)))
    healthy, elsewhere, broken, broken_elsewhere = said
    assert healthy == elsewhere
    assert broken == broken_elsewhere
    assert {verdict for _, verdict, nodes in broken[1] if nodes == ("node2",)} >= {Verdict.FAIL}


@pytest.mark.parametrize("machine", MACHINES)
def test_a_fault_in_the_log_is_named_on_every_machine(machine, tmp_path, monkeypatch, lab_is_possible):
    """What the machine below calls its own log is nothing about the twin."""
    monkeypatch.setenv(MACHINE, machine)
    platform = BY_NAME["dgx-h100"]
    twin = Twin(node.make(platform, 3, tmp_path))
    twin.healthy = twin.documents()
    (fault,) = (fault for fault in planted.fitting(platform) if fault.name == "Xid 79")
    outcome = planted.try_fault(twin, platform, fault)
    assert outcome.is_named
    assert not outcome.others
