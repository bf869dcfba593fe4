"""Can a CI system read the run, with the right counts and nothing in it that acts?"""

import re
from xml.dom import minidom
from xml.etree import ElementTree as ET

import msgspec
import pytest

from preflight.judge.ledger.findings import Finding, Verdict, Where
from preflight.report.document import Counts
from preflight.report.formats.junit import junit_text

# What the schema of Jenkins' xUnit plugin allows.
ATTRIBUTES = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {
        "name", "tests", "failures", "errors", "group", "time", "skipped", "timestamp", "hostname", "id", "package",
    },
    "properties": set(),
    "property": {"name", "value"},
    "testcase": {"name", "time", "classname"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "skipped": {"type", "message"},
    "system-out": set(),
    "system-err": set(),
}  # fmt: skip
CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"properties", "testcase", "system-out", "system-err"},
    "properties": {"property"},
    "testcase": {"failure", "error", "skipped", "system-out"},
}
TIME = re.compile(r"[0-9]+\.[0-9]{3}")


def written(tmp_path, report):
    path = tmp_path / "junit.xml"
    path.write_text(junit_text(report), encoding="utf-8")
    minidom.parse(str(path))
    return ET.parse(path).getroot()


def check_shape(root):
    for element in root.iter():
        assert set(element.attrib) <= ATTRIBUTES[element.tag], element.tag
        assert {child.tag for child in element} <= CHILDREN.get(element.tag, set()), element.tag
        if "time" in element.attrib:
            assert TIME.fullmatch(element.attrib["time"])
    for suite in [root, *root]:
        cases = list(suite.iter("testcase"))
        assert suite.get("tests") == str(len(cases))
        assert suite.get("failures") == str(sum(case.find("failure") is not None for case in cases))
        assert suite.get("errors") == str(sum(case.find("error") is not None for case in cases))
        if suite is not root:
            assert suite.get("skipped") == str(sum(case.find("skipped") is not None for case in cases))
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp"))
            assert [child.tag for child in suite if child.tag != "testcase"] == [
                "properties",
                "system-out",
                "system-err",
            ]
            assert len({case.get("name") for case in cases}) == len(cases)


def test_a_testcase_for_each_check_and_node_set_with_real_elements(tmp_path, full_report):
    """Fail, error and skip have their elements, a warn passes and says so, a pass is empty."""
    root = written(tmp_path, full_report)
    check_shape(root)
    cases = {(case.get("classname"), case.get("name")): case for case in root.iter("testcase")}
    failed = cases["preflight.network", "mtu_is_the_same [node3]"]
    assert failed.find("failure").get("message") == "mtu: 9000 on node[1-2], 1500 on node3"
    assert "Fix: raise it" in failed.find("failure").text
    assert "nodes: node3" in failed.find("failure").text
    assert len(cases["preflight.network", "mtu_is_the_same [node[1-2]]"]) == 0
    assert cases["preflight.bench", "is_fast [node[1-3]]"].find("error").get("type") == "error"
    assert cases["preflight.gpu", "driver [node[1-3]]"].find("skipped").get("message") == "no GPU on any node"
    warned = cases["preflight.limits", "nofile [node2]"]
    assert [child.tag for child in warned] == ["system-out"]
    assert "nofile is 1024" in warned.find("system-out").text
    assert warned.get("time") == "0.250"


def test_nodes_and_run_are_properties(tmp_path, full_report):
    """Each suite says which nodes it judged and how they were reached."""
    suite = written(tmp_path, full_report).find("testsuite[@name='limits']")
    properties = {item.get("name"): item.get("value") for item in suite.iter("property")}
    assert properties["node node2"] == "10.0.0.2 reached"
    assert properties["command"] == "preflight run --hosts node[1-3]"
    assert "node node1" not in properties


def test_a_waived_fail_passes_as_a_warning(tmp_path, make_report):
    """It must not turn the pipeline red, and must be seen."""
    root = written(tmp_path, make_report(Finding("a.b", Verdict.FAIL, ("node1",), "m", waived=True)))
    assert root.get("failures") == "0"
    assert "waived" in root.find(".//system-out").text


def test_unjudged_cells_are_an_error_of_their_own(tmp_path, make_report):
    """A run that was cut short is red here too."""
    report = make_report(
        Finding("a.b", Verdict.PASS, ("node1",), "m"), verdict=Verdict.ERROR, exit_code=3,
        ledger=Counts(expected=3, judged=1, not_asked=0),
    )  # fmt: skip
    root = written(tmp_path, report)
    check_shape(root)
    assert root.get("errors") == "1"
    assert root.find(".//error").get("message") == "no verdict for 2 of 3 pairs of check and node"


def test_lines_of_files_are_told(tmp_path, make_report):
    """The place in the user's file stands in the body."""
    finding = Finding("launch.port", Verdict.FAIL, (), "ports differ", where=(Where("a.yaml", 3),))
    assert "at a.yaml:3" in written(tmp_path, make_report(finding)).find(".//failure").text


def test_many_nodes_make_a_short_name_and_different_ones_stay_different(tmp_path, make_report):
    """300 odd nodes fold badly; the body has them all."""
    nodes = tuple(f"node{number}" for number in range(1, 600, 2))
    findings = [
        Finding("a.b", Verdict.FAIL, nodes[:200], "m"),
        Finding("a.b", Verdict.FAIL, (*nodes[:199], *nodes[200:]), "n"),
    ]
    root = written(tmp_path, make_report(*findings, size=600))
    check_shape(root)
    for case in root.iter("testcase"):
        assert len(case.get("name")) < 250
        assert "node199" in case.find("failure").text or "node401" in case.find("failure").text


def test_hostile_text_stays_text(tmp_path, hostile_report):
    """Two parsers take it, its elements are those of the schema, and no control character is left."""
    root = written(tmp_path, hostile_report)
    check_shape(root)
    data = (tmp_path / "junit.xml").read_text(encoding="utf-8")
    assert all(letter == "\n" or letter.isprintable() for letter in data)
    assert not re.search(r"^\s*::[a-z]", data, re.MULTILINE)
    assert "##vso[" not in data


@pytest.mark.parametrize("started", ["", "yesterday", "2030-01-02"])
def test_an_odd_start_time_does_not_break_the_schema(tmp_path, make_report, started):
    """The timestamp is always a date and a time."""
    report = make_report(Finding("a.b", Verdict.PASS, ("node1",), "m"))
    check_shape(
        written(tmp_path, msgspec.structs.replace(report, run=msgspec.structs.replace(report.run, started=started)))
    )
