"""Do the rules on files and the rehearsal of the same files say a cause once?"""

from __future__ import annotations

import pytest

from preflight.job.measure.rehearsal.judged import judged
from preflight.job.start.rehearsal.story import Launched
from preflight.judge.ledger.findings import Finding, Verdict, Where
from preflight.judge.ledger.ledger import Ledger
from preflight.judge.views.rehearsal import CHECKS
from preflight.launch.rules.check import check_texts
from preflight.run.suite.one_cause import OneCause
from tests.job.measure.rehearsal.stories import LIMITS, cast, node, rank, story

NODES = ("node1", "node2")
PLAIN = """MASTER_ADDR=node1
export MASTER_PORT=29500 WORLD_SIZE=2 LOCAL_RANK=0
export RANK=$R
python train.py --ddp
"""
TORCHRUN = "#!/bin/bash\ntorchrun --nnodes=2 --nproc_per_node=1 {} train.py\n"


def both(text, *nodes):
    """(what became of the rehearsal's findings, what of the files went into them, what is left of the files)."""
    read, files = check_texts({"run.sh": text})
    script = cast(text)
    found = judged(story(*nodes, why="failed"), script, dict.fromkeys(NODES, LIMITS), backend="gloo")
    of_check = {}
    for cause in found.causes:
        verdict = Verdict.WARN if cause.is_advisory else Verdict.FAIL
        where = tuple(Where(*place) for place in cause.where)
        finding = Finding(CHECKS[cause.about], verdict, cause.nodes, cause.message, cause.fix, where)
        of_check.setdefault(finding.check, []).append(finding)
    one, whole, taken = OneCause(files, script, found.causes), [], []
    for findings in of_check.values():
        more, gone = one.folded(findings, [f for f in read if f not in taken])
        whole, taken = [*whole, *more], [*taken, *gone]
    left = [f for f in read if f not in taken and f.verdict in (Verdict.FAIL, Verdict.WARN)]
    return whole, taken, left


def ranks(**fields):
    """Both nodes with a rank that came so."""
    stage, error = fields.pop("stage", "arrived"), fields.pop("error", "")
    came = [rank(number, name, stage=stage, error=error, **fields) for number, name in enumerate(NODES)]
    for each in came:
        each.rank = each.rank if each.arrived.variables["RANK"].isdigit() else -1
    return [node(each.node, each, code=1) for each in came]


def launched(*words):
    """Both nodes with a launcher that was started so, and a rank that waits."""
    nodes = [node(name, rank(i, name, stage="rendezvous"), code=None) for i, name in enumerate(NODES)]
    for number, each in enumerate(nodes):
        given = ("python", "torchrun", *(word.replace("*", str(number)) for word in words), "train.py")
        each.launched = [Launched(given, 5, 1, 100.5)]
    return nodes


UNKNOWN = "torchrun: error: unrecognized arguments: "
UNSET = {"MASTER_ADDR": ""}
CASES = {
    "a variable that is not exported": (
        PLAIN,
        ranks(error="RuntimeError: MASTER_ADDR is not set in this rank", variables=UNSET),
        "launch.variables_are_exported",
        "MASTER_ADDR is not set in this rank",
    ),
    "an id that every node draws": (
        TORCHRUN.format("--rdzv_id $RANDOM --rdzv_backend c10d --rdzv_endpoint node1:29500"),
        launched("--nnodes=2", "--rdzv_id=17*"),
        "launch.rendezvous_id_is_the_same_everywhere",
        "id of the rendezvous (--rdzv_id): 170 on node1, 171 on node2",
    ),
    "an option that the launcher does not know": (
        TORCHRUN.format("--node_rank=$R --master_addr=node1 --of-tomorrow=1"),
        [node(name, code=2, lines=((2, 0),), err=f"{UNKNOWN}--of-tomorrow=1\n") for name in NODES],
        "launch.options_are_known",
        "unrecognized arguments: --of-tomorrow=1",
    ),
    "lines that end as those of Windows do": (
        PLAIN.replace("MASTER_ADDR", "export MASTER_ADDR", 1).replace("\n", "\r\n"),
        ranks(error="RuntimeError: nothing numbers this process", variables={"RANK": "0\r"}),
        "launch.script_is_bash",
        "which is no number",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_cause_that_both_see_is_one_finding(name):
    """It keeps the words of both, the lines of both, and the fix that was tried on the file."""
    text, nodes, rule, words = CASES[name]
    whole, taken, left = both(text, *nodes)
    (finding,) = whole
    assert [f.check for f in taken] == [rule]
    assert [f.check for f in left] == []
    assert words in finding.message
    assert taken[0].message in finding.message
    assert {*taken[0].where} <= {*finding.where}
    assert (finding.edits, finding.fix) == (taken[0].edits, taken[0].fix if taken[0].edits else finding.fix)
    assert finding.nodes == NODES


def test_two_causes_on_the_line_that_starts_the_job_stay_two():
    """Most of what goes wrong shows there."""
    text = TORCHRUN.format("--rdzv_id $RANDOM --rdzv_backend c10d --rdzv_endpoint node1:29500")
    stopped = [node(name, code=2, lines=((2, 0),), err=f"{UNKNOWN}--x=1\n") for name in NODES]
    whole, taken, left = both(text, *stopped)
    assert [f.check for f in whole] == [CHECKS["scripts"]]
    assert taken == []
    assert [f.check for f in left] == ["launch.rendezvous_id_is_the_same_everywhere"]


def test_what_is_read_of_another_file_stays_its_own():
    """--launch may name a job that was not rehearsed."""
    read, files = check_texts({"other.sh": PLAIN})
    seen = Finding(CHECKS["training"], Verdict.FAIL, NODES, "MASTER_ADDR is not set", where=(Where("run.sh", 4),))
    whole, taken = OneCause(files, cast(), ()).folded([seen], read)
    assert (whole, taken) == ([seen], [])


def test_nodes_that_only_the_files_speak_of_are_in_the_one_finding():
    """And nowhere else: of a check a node has one verdict."""
    read, files = check_texts({"run.sh": PLAIN})
    found = judged(story(*CASES["a variable that is not exported"][1], why="failed"), cast(PLAIN), {}, backend="gloo")
    bad = Finding(CHECKS["training"], Verdict.FAIL, ("node2",), "MASTER_ADDR is not set in this rank")
    good = Finding(CHECKS["training"], Verdict.PASS, ("node1",), "all met")
    whole, taken = OneCause(files, cast(PLAIN), found.causes).folded([bad, good], read)
    of_all = Finding(taken[0].check, taken[0].verdict, NODES, taken[0].message, edits=taken[0].edits)
    whole, _ = OneCause(files, cast(PLAIN), found.causes).folded([bad, good], [of_all])
    assert [(f.verdict, f.nodes) for f in whole] == [(Verdict.FAIL, ("node2", "node1"))]


def test_a_finding_that_went_into_another_leaves_no_open_cell():
    """The ledger neither expects nor shows it any more."""
    ledger = Ledger()
    ledger.expect("launch.x", NODES)
    for name in NODES:
        ledger.record(Finding("launch.x", Verdict.FAIL, (name,), name))
    ledger.take_back(ledger.findings[0])
    assert ([f.nodes for f in ledger.findings], ledger.missing()) == ([("node2",)], [])
    ledger.take_back(ledger.findings[0])
    assert (ledger.findings, ledger.missing(), ledger.expected) == ([], [], {})
