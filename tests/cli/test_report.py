"""Is a finished run shown again as it was, alone, beside an earlier one, or in a list?"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from preflight.cli import main, report
from preflight.report import FORMATS
from preflight.report.formats.hostlists import CHOICES
from preflight.said.errors import UsageError
from preflight.testing import healthy
from tests.run.test_stored import written


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
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "since run x (pass): 1 fact changed"
    assert "fact      its MTU on node2: 9000 -> 1500" in lines
    assert lines[-1].endswith("+0.0%, within the noise")
    report.show_report(tmp_path / "now", None, "markdown", tmp_path / "then")
    assert "### What has changed" in capsys.readouterr().out


def test_a_report_is_coloured_where_a_run_is(tmp_path, capsys, monkeypatch):
    """On a terminal, without NO_COLOR; never in a file."""
    written(healthy(), tmp_path)
    for name, value in (("TERM", "xterm"), ("NO_COLOR", "")):
        monkeypatch.setenv(name, value)
    report.show_report(tmp_path, None)
    assert "\x1b[" not in capsys.readouterr().out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    report.show_report(tmp_path, None)
    assert "\x1b[32mGO\x1b[0m" in capsys.readouterr().out


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


def test_a_run_may_be_shown_in_every_format(tmp_path, capsys):
    """A format that is not there is one line that lists those that are."""
    written(healthy(), tmp_path)
    for name, sign in (
        ("json", '"schema": 1'),
        ("csv", '"check"'),
        ("good", "node"),
        ("nagios", "OK"),
        ("text", "PASS"),
    ):
        assert main.run(["report", str(tmp_path), f"--format={name}"]) == 0
        assert sign in capsys.readouterr().out, name
    assert main.run(["report", str(tmp_path), "--format=pdf"]) == 4
    assert "--format 'pdf' is not one of text," in capsys.readouterr().err
    assert main.run(["report", str(tmp_path), "--format=nodelist"]) == 4
    assert "say with --need N how many" in capsys.readouterr().err


def test_help_lists_every_format(capsys):
    """Those of a run, and those of the nodes chosen from it."""
    assert main.run(["report", "--help"]) == 0
    listed = re.search(r"One of (.*?)\. Default", capsys.readouterr().out, re.DOTALL)
    assert {"text", *FORMATS, *CHOICES} == set(re.findall(r"[a-z]+", listed[1])) - {"or", "with", "need"}


def test_the_best_nodes_of_a_run_are_a_list_for_a_program(tmp_path, capsys):
    """The list alone on standard output, the reasons beside it; where too few are good, no list and no 0."""
    written(healthy(), tmp_path)
    stored = json.loads((tmp_path / "report.json").read_text())
    first = stored["findings"][0]
    stored["findings"].append({**first, "verdict": "fail", "nodes": ["node2"], "message": "mtu: 1400"})
    first["nodes"] = ["node1", "node3"]
    stored["ledger"] |= {"expected": 3, "judged": 3}
    (tmp_path / "report.json").write_text(json.dumps({**stored, "verdict": "fail", "exit_code": 1}))
    words = ["report", str(tmp_path), "--need=2", "--format=nodelist"]
    assert main.run(words) == 0
    said = capsys.readouterr()
    assert said.out == "node[1,3]\n"
    assert f"left out  node2: fail {first['check']}: mtu: 1400" in said.err
    assert main.run(["report", str(tmp_path), "--need=3", "--format=nodelist"]) == 1
    said = capsys.readouterr()
    assert (said.out, "2 nodes good, 3 needed" in said.err) == ("", True)
    assert main.run(["report", str(tmp_path), "--need=0"]) == main.run([*words[:3], "--format=html"]) == 4


@pytest.mark.parametrize(("words", "lines"), [(["-q"], 1), ([], 2), (["-v"], 3)])
def test_less_or_more_is_told_on_request(tmp_path, capsys, words, lines):
    """One line with -q, every check with -v."""
    written(healthy(), tmp_path)
    assert main.run(["report", str(tmp_path), *words]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 1 if lines == 1 else len(shown) >= lines
    assert ("reach.x" in "".join(shown)) is (lines == 3)


def test_no_word_is_the_last_run_and_a_misspelt_format_is_guessed(tmp_path, monkeypatch, capsys):
    """What a person types first."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reports" / "a").mkdir(parents=True)
    written(healthy(), tmp_path / "reports" / "a")
    assert main.run(["report", "-q"]) == 0
    assert capsys.readouterr().out.startswith("GO ")
    assert main.run(["report", "last", "--format=mardown"]) == 4
    assert "; did you mean markdown?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["a", "b", "c"], ["a", "b", "--list"], ["--keep=-1"], ["--keep=", "a"], ["nowhere", "--list", "--keep=x"]]
)
def test_runs_that_cannot_be_meant_are_one_line_and_4(words, tmp_path, monkeypatch, capsys):
    """Nothing is deleted by a word that is misread."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    written(healthy(), tmp_path / "a")
    assert main.run(["report", *words]) == 4
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert (tmp_path / "a" / "report.json").is_file()


def test_the_page_is_opened_in_the_browser(tmp_path, monkeypatch, capsys):
    """In that of BROWSER; a run without a page says how to get one."""
    written(healthy(), tmp_path)
    browser = tmp_path / "browser"
    browser.write_text('#!/bin/sh\necho "$1" > "$0.opened"\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    with pytest.raises(UsageError, match=r"report\.html is not there; write it with --format=html"):
        report.open_page(tmp_path)
    (tmp_path / "report.html").write_text("<p>")
    assert main.run(["report", str(tmp_path), "--open"]) == 0
    assert (tmp_path / "browser.opened").read_text().strip() == (tmp_path / "report.html").as_uri()


def test_the_trend_of_all_runs_is_a_page(tmp_path, capsys, monkeypatch):
    """Beside the runs that it links to; a run that cannot be read is a note, and a folder without runs an error."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no finished run in reports"):
        report.show_trend(Path("reports"), is_opened=False)
    for name, run in (("a", healthy()), ("b", healthy().broken_interface("node2", mtu=1500)), ("c", healthy())):
        (tmp_path / "reports" / name).mkdir(parents=True)
        written(run, tmp_path / "reports" / name)
    (tmp_path / "reports" / "c" / "facts" / "node1.json").write_text("{")
    assert main.run(["report", "--trend"]) == 0
    said = capsys.readouterr().out
    assert "its MTU on node2: 9000 -> 1500" in said or "its MTU on node2: 1500 -> 9000" in said
    assert "node1.json: not a facts file" in said
    assert "page      reports/trend.html" in said
    page = (tmp_path / "reports" / "trend.html").read_text()
    assert 'href="a/report.html"' in page
    assert main.run(["report", "--trend", "a", "b"]) == 4
