"""Does the document of a run come back as the same run, and is every other document refused?"""

import copy
import json

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preflight.judge.ledger.findings import Finding, Verdict, Where
from preflight.report.document import Counts, from_document, to_document
from preflight.said import Said, said, value_in
from preflight.said.errors import UsageError


def stored(report):
    """As JSON gives it back."""
    return json.loads(json.dumps(to_document(report)))


def test_a_report_comes_back_equal(full_report):
    """Nothing is lost or changed on the way through JSON."""
    assert from_document(stored(full_report)) == full_report


def test_the_document_has_the_keys_of_the_contract(full_report):
    """Every key that users rely on is there, in this order, also when it is null."""
    document = stored(full_report)
    assert list(document)[:13] == [
        "schema", "finished", "run", "verdict", "exit_code", "nodes", "ledger", "findings", "mesh", "bench", "training",
        "plan", "stages",
    ]  # fmt: skip
    assert list(document["run"]) == ["id", "started", "seconds", "command", "version"]
    assert document["nodes"]["node1"] == {"host": "node1", "address": "10.0.0.1", "reached": True}
    assert document["ledger"] == {"expected": 10, "judged": 10, "not_asked": 0}
    assert (document["schema"], document["verdict"], document["exit_code"], document["plan"]) == (1, "fail", 1, None)
    first = document["findings"][0]
    assert {key: first[key] for key in ("check", "verdict", "nodes", "fix", "where", "seconds")} == {
        "check": "network.mtu_is_the_same", "verdict": "fail", "nodes": ["node3"], "fix": "raise it", "where": [],
        "seconds": 0.0,
    }  # fmt: skip
    assert document["mesh"]["failed"] == [
        {"from": "node1", "to": "node3", "port": 40001, "reason": "filtered", "detail": ""}
    ]
    assert {"op", "bytes", "seconds_median", "algbw_gbytes_per_s", "busbw_gbytes_per_s", "wrong"} <= set(
        document["bench"]["results"][0]
    )


def test_lines_of_files_come_back(make_report):
    """`where` is a list of file and line."""
    report = make_report(Finding("launch.port", Verdict.FAIL, ("node1",), "m", where=(Where("a.yaml", 3),)))
    assert stored(report)["findings"][0]["where"] == [{"file": "a.yaml", "line": 3}]
    assert from_document(stored(report)) == report


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_none_is_named(make_report, value):
    """NaN compares with nothing, and is no JSON."""
    report = make_report(stages={"mesh": value})
    with pytest.raises(ValueError, match=r"\$\.stages\.mesh"):
        to_document(report)


@pytest.mark.parametrize(
    "document", [None, [], "x", 1, {}, {"schema": 2}, {"schema": True}, {"schema": 1}, {"schema": [1]}]
)
def test_other_documents_are_refused(document):
    """Another schema, another type, nothing at all."""
    with pytest.raises(UsageError, match="over there: not a report"):
        from_document(document, source="over there")


def _set(document, path, value):
    *parents, last = path
    for key in parents:
        document = document[key]
    document[last] = value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["extra"], 1), (["run", "extra"], 1), (["findings", 0, "extra"], 1), (["nodes", "node1", "extra"], 1),
        (["mesh", "extra"], 1), (["bench", "results", 0, "extra"], 1), (["verdict"], "great"), (["verdict"], None),
        (["exit_code"], True), (["exit_code"], 0), (["exit_code"], "1"), (["finished"], 1), (["findings"], {}),
        (["findings", 0, "verdict"], "good"), (["findings", 0, "nodes"], "node3"), (["findings", 0], None),
        (["ledger", "judged"], -1), (["ledger", "judged"], 9), (["ledger", "expected"], 9), (["run", "seconds"], -1.0),
        (["run", "seconds"], float("nan")), (["stages", "x"], float("inf")), (["plan"], 1), (["mesh"], []),
        (["verdict"], "pass"), (["verdict"], "error"), (["findings", 0, "nodes"], ["node3", "node3"]),
    ],
)  # fmt: skip
def test_a_changed_report_is_refused(full_report, path, value):
    """A key too many, a value of the wrong kind, counts or a verdict that its findings contradict."""
    document = stored(full_report)
    _set(document, path, value)
    with pytest.raises(UsageError) as caught:
        from_document(document, source="r.json")
    assert str(caught.value).startswith("r.json: not a report")
    assert str(caught.value).isprintable()


def test_a_missing_key_is_refused(full_report):
    """What was always written is always there."""
    for key in ("finished", "run", "verdict", "exit_code", "nodes", "ledger"):
        document = stored(full_report)
        del document[key]
        with pytest.raises(UsageError):
            from_document(document)


def test_unjudged_cells_forbid_a_pass(make_report):
    """A report with fewer verdicts than cells is an error whatever it says."""
    report = make_report(
        Finding("a.b", Verdict.PASS, ("node1",), "m"), ledger=Counts(expected=2, judged=1, not_asked=0)
    )
    with pytest.raises(UsageError, match="findings say error"):
        from_document(stored(report))
    red = msgspec.structs.replace(report, verdict=Verdict.ERROR, exit_code=3)
    assert from_document(stored(red)) == red


@pytest.mark.parametrize("code", [129, 130, 143])
def test_an_interrupted_run_keeps_its_code(make_report, code):
    """The signal decides the exit code and the findings stay."""
    report = make_report(Finding("a.b", Verdict.FAIL, ("node1",), "m"), exit_code=code, finished=False)
    assert from_document(stored(report)) == report


def test_fail_on_warn_is_a_report_of_ours(make_report):
    """The verdict may be stricter than the findings."""
    report = make_report(Finding("a.b", Verdict.WARN, ("node1",), "m"), verdict=Verdict.FAIL, exit_code=1)
    assert from_document(stored(report)) == report


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_deleting_or_spoiling_any_cell_of_a_passing_report_is_noticed(make_report, data):
    """A stored pass cannot lose a cell, or hold a bad one, and still be read as pass."""
    shapes = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    findings = [
        Finding(f"a.c{number}", Verdict.PASS, tuple(f"node{node}" for node in range(1, nodes + 1)), "m")
        for number, nodes in enumerate(shapes)
    ]
    document = stored(make_report(*findings))
    assert from_document(copy.deepcopy(document)).verdict is Verdict.PASS
    index = data.draw(st.integers(0, len(findings) - 1))
    kind = data.draw(st.sampled_from(["finding", "node", "verdict", "nodes"]))
    if kind == "finding":
        del document["findings"][index]
    elif kind == "node":
        document["findings"][index]["nodes"].pop()
    elif kind == "nodes":
        document["findings"][index]["nodes"].append("node1")
    else:
        document["findings"][index]["verdict"] = data.draw(st.sampled_from(["fail", "error", "warn", "PASS", None, 0]))
    with pytest.raises(UsageError):
        from_document(document)


def test_a_report_of_an_earlier_version_is_readable(make_report):
    """Without the checks behind consequences, and without what left checks out."""
    document = to_document(make_report(Finding("a.b", Verdict.ERROR, ("node1",), "m", blocked_by="c.d")))
    assert document["findings"][0]["blocked_by"] == "c.d"
    del document["findings"][0]["blocked_by"], document["not_asked"]
    report = from_document(document)
    assert (report.findings[0].blocked_by, report.not_asked) == ("", {})


def test_a_stored_report_can_still_be_said_in_another_language(make_report):
    """Templates and values of its sentences are stored; one that stands under another text than its own is not used."""
    message = said("mtu of {interface}: {count}", "eth0", 9000)
    document = stored(
        make_report(Finding("network.mtu", Verdict.FAIL, ("node1",), message, said("raise {name}", "it")))
    )
    found = from_document(document).findings[0]
    assert (found.message, value_in(found.message, "count")) == (message, 9000)
    assert value_in(found.fix, "name") == "it"
    document["sentences"][str(message)]["values"]["count"] = 1500
    changed = from_document(document).findings[0]
    assert (changed.message, isinstance(changed.message, Said)) == (message, False)
