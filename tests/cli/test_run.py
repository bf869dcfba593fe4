"""Do the verbs hand over what was asked, and print what was found?"""

from __future__ import annotations

import json

import pytest

from preflight.cli import explain, facts, report
from preflight.cli.run import _forwarded
from preflight.errors import UsageError
from preflight.facts.cluster import Cluster
from preflight.options.table import OPTIONS, Chosen
from preflight.plugin import checks_folder
from preflight.testing import healthy
from tests.run.test_stored import written


def test_options_are_handed_to_pytest_under_names_that_no_plugin_has():
    """All that were given, values as one word each; what was not given is not said."""
    chosen = Chosen({"hosts": "-x y", "env": ["A=1", "B=2"], "full_mesh": True, "deadline": 60.0, "report_dir": "r"})
    words = list(_forwarded(chosen))
    assert {"--preflight-hosts=-x y", "--preflight-env=A=1", "--preflight-env=B=2", "--preflight-full-mesh"} <= set(
        words
    )
    assert "--preflight-deadline=60.0" in words
    assert not any("report-dir" in word or "json" in word or "dry-run" in word for word in words)


def test_every_option_that_was_given_is_handed_over():
    """None is dropped on the way from the verb to the checks but those that the verb itself serves."""
    own = {"json", "report-dir"}
    for name, attributes in OPTIONS.items():
        value = True if attributes.get("action") == "store_true" else ["x"] if attributes.get("default") == [] else "x"
        words = list(_forwarded(Chosen({name.replace("-", "_"): value})))
        assert any(word.partition("=")[0] == f"--preflight-{name}" for word in words) == (name not in own), name


def test_the_checks_are_told_without_being_run():
    """Id and docstring of each, in the order of the files."""
    found = list(explain.check_texts(checks_folder()))
    texts = {name: text for name, _, text in found}
    verdicts = {name: verdict for name, verdict, _ in found}
    assert verdicts["reach.every_node_answers"] == "fail"
    assert verdicts["clock.clocks_are_in_step"] == "warn"
    assert "reach.every_node_answers" in texts
    assert all("Fix:" in text for text in texts.values())


def test_a_table_of_facts_marks_where_nodes_differ():
    """A star at the row, a column a node; what a node says cannot reach the terminal raw."""
    run = healthy(2).broken_interface("node2", mtu=1500).broken("node1", "identity", kernel="6.1\x1b[31m")
    table = facts._facts_table(run.cluster)
    rows = {line.split("  ")[0]: line for line in table.splitlines()}
    assert "its MTU *" in rows
    assert "CPUs" in rows
    assert "\x1b" not in table


def test_a_table_of_many_nodes_tells_each_value_once():
    """With the nodes that have it, folded; what differs stands first, what nobody tells in one line below."""
    table = facts._facts_table(healthy(9).broken_interface("node2", mtu=1500).cluster)
    lines = table.splitlines()
    assert [line.split() for line in lines[2:4]] == [["its", "MTU", "*", "9000", "node[1,3-9]"], ["1500", "node2"]]
    assert sum("hostname" in line for line in lines) == 1
    assert lines[-1].startswith("not reported by any node: ")
    assert "NVLinks of a GPU (no GPU has any)" in lines[-1]


def test_json_that_cannot_be_written_is_a_usage_error(tmp_path):
    """The message names the file."""
    written(healthy(), tmp_path)
    with pytest.raises(UsageError, match="--json /nowhere/x: cannot be written"):
        report.show_report(tmp_path, "/nowhere/x")


def test_of_two_runs_it_says_what_changed(tmp_path, capsys):
    """New findings first, facts and bandwidth below; with the code of the later run, and in every format."""
    for name, run in (("then", healthy()), ("now", healthy().broken_interface("node2", mtu=1500))):
        (tmp_path / name).mkdir()
        written(run, tmp_path / name)
    assert report.show_report(tmp_path / "now", None, earlier=tmp_path / "then") == 0
    told = capsys.readouterr().out.splitlines()
    assert told[1] == "since run x (pass): 1 fact changed"
    assert "fact      its MTU on node2: 9000 -> 1500" in told
    assert told[-1].endswith("+0.0%, within the noise")
    report.show_report(tmp_path / "now", None, "markdown", tmp_path / "then")
    assert "### What has changed" in capsys.readouterr().out


def test_runs_are_listed_and_cleared_away(tmp_path, capsys):
    """The list says what is left; a number that is none is refused."""
    (tmp_path / "one").mkdir()
    written(healthy(), tmp_path / "one")
    assert report.show_history(tmp_path, "0") == 0
    assert capsys.readouterr().out.splitlines() == [f"deleted {tmp_path}/one", f"no run in {tmp_path}"]
    with pytest.raises(UsageError, match="--keep 'all': wanted a number of runs"):
        report.show_history(tmp_path, "all")


def test_a_finished_run_is_shown_again_with_its_code(tmp_path, capsys):
    """From its folder or its file; as JSON on request, here or to a file."""
    written(healthy(), tmp_path)
    assert report.show_report(tmp_path, None) == 0
    assert "PASS" in capsys.readouterr().out
    assert report.show_report(tmp_path / "report.json", "-") == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "pass"
    report.show_report(tmp_path, str(tmp_path / "copy.json"))
    assert json.loads((tmp_path / "copy.json").read_text())["schema"] == 1


def test_a_table_of_nobody_is_empty():
    """Where no node answered there is nothing to tell."""
    assert "node1" not in facts._facts_table(Cluster(()))
