"""Reported starts that failed, as the files that started them: is the mistake a fail at its line, with its cause?"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import pytest

from preflight.judge.ledger.findings import Verdict
from preflight.launch.rules.check import check_texts
from tests.launch import truth


class Told(NamedTuple):
    """The files, by their name in tests/data/launch, and words of what must be said of them."""

    case: str
    words: str
    verdict: Verdict = Verdict.FAIL


ROWS = {
    "G017": Told("what NCCL leaves out, given to Gloo", "Gloo takes exact names only"),
    "G027": Told("NCCL told to leave docker0 out, and with it no more lo", "leaves lo in, and takes it first"),
    "G030": Told("an IPv6 address in a URL that the program makes", "without brackets its end is taken for the port"),
    "G035": Told(
        "the nodes are counted anew, and the address is left at the script's default", "every node waits for itself"
    ),
    "G036": Told("Lightning's nodes without srun", "no srun starts the others"),
    "G037": Told("Lightning in an interactive step of its own name", "4 devices on each node, and Slurm starts 1 task"),
    "G045": Told("the README's command of the second node is that of the first", "--node_rank 0 is given 2 times"),
    "G046": Told("one visible device a task, and its local rank as the device", "invalid device ordinal"),
    "G047": Told("one device for all processes, set in the program", "they share a device"),
    "G048": Told("a rendezvous of c10d without an endpoint", "no address of rank 0"),
    "G050": Told("the number of the node, filled in before srun starts its shells", "every node becomes node 0"),
    "G051": Told("DeepSpeed by accelerate for two machines, and no host file named", "there is no deepspeed_hostfile"),
    "G052": Told("the number of the task for that of the node", "4 tasks on each node, and torchrun starts 4"),
    "G053": Told("a test in the body of srun that reads a variable of the shell around", "set and not exported"),
    "G054": Told("an unknown launcher that is told the number of the batch shell", "in the batch script"),
    "G055": Told("a logger among the ranks of Volcano", "before Volcano 1.12", Verdict.WARN),
    "G057": Told("sshd in pods whose rights are dropped", "sshd needs SYS_CHROOT"),
}


@cache
def written() -> dict[str, truth.Case]:
    """All files by their name."""
    return {case.name: case for case in truth.cases()}


@pytest.mark.parametrize("row", ROWS)
def test_the_line_is_named(row):
    """At the line that the case names, with the cause, a fix, and the verdict that the row deserves."""
    told = ROWS[row]
    case = written()[told.case]
    (wanted,) = (must for must in case.musts if must.rule != "file_is_judged")
    assert wanted.line
    found = [one for one in check_texts(case.texts)[0] if one.check == f"launch.{wanted.rule}"]
    assert [one.verdict for one in found] == [told.verdict]
    places = [(where.file, where.line) for where in found[0].where]
    assert (wanted.file, wanted.line) in places
    assert told.words in found[0].message
    assert found[0].fix
