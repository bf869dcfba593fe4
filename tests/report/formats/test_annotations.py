"""Findings on the lines of a pull request."""

from __future__ import annotations

import json

from preflight.judge.ledger.findings import Finding, Verdict, Where
from preflight.report.formats.annotations import github_text, sarif_text

TWICE = Finding(
    "launch.ranks_are_distinct",
    Verdict.FAIL,
    ("node1", "node2"),
    "machine_rank 0 is given 2 times",
    "machine_rank: 1",
    (Where("a,b:c.yaml", 4), Where("/abs/n 2.yaml", 4)),
)
HOSTILE = Finding("launch.x", Verdict.WARN, (), "100%\n::error::mine\x1b[0m", "", (Where("f\n::set-env::", 1),))


def test_a_workflow_command_for_each_line():
    """With the finding as its title; what would end a property is escaped."""
    first, second = github_text([TWICE]).splitlines()
    assert first.startswith("::error file=a%2Cb%3Ac.yaml,line=4,title=launch.ranks_are_distinct::node[1-2]: machine")
    assert first.endswith("%0AFix: machine_rank: 1")
    assert "file=/abs/n 2.yaml,line=4" in second


def test_nothing_in_a_file_is_a_command_of_its_own():
    """One line a finding, whatever a script holds; no control character reaches the log."""
    (line,) = github_text([HOSTILE]).splitlines()
    assert line.startswith("::warning file=f%0A\\x3a%3Aset-env%3A%3A,line=1,")
    assert "100%25%0A" in line
    assert "::error" not in line
    assert "\x1b" not in line


def test_what_passed_or_has_no_line_is_no_annotation():
    """A pull request shows lines."""
    assert (
        github_text([Finding("a", Verdict.PASS, (), "b", "", (Where("f", 1),)), Finding("c", Verdict.FAIL, (), "d")])
        == ""
    )


def test_sarif_has_rules_levels_and_places():
    """As its schema wants them: relative paths stay relative, full ones are URIs."""
    document = json.loads(sarif_text([TWICE, HOSTILE]))
    (run,) = document["runs"]
    assert document["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["launch.ranks_are_distinct", "launch.x"]
    first, second = run["results"]
    assert (first["level"], second["level"]) == ("error", "warning")
    places = [place["physicalLocation"] for place in first["locations"]]
    assert [place["artifactLocation"]["uri"] for place in places] == ["a%2Cb:c.yaml", "file:///abs/n%202.yaml"]
    assert places[0]["region"] == {"startLine": 4}
