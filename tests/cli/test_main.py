"""Does every command line end in what was asked or in one clear line, with the right exit code?"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from preflight import __version__
from preflight.cli import main
from preflight.job.options.options import OPTIONS

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "pytest", "msgspec", "ClusterShell", "asyncio", "psutil", "tabulate", "jinja2", "yaml", "numpy")


def preflight(*words: str, stdout: int = subprocess.PIPE, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        [sys.executable, "-m", "preflight", *words],
        cwd=ROOT,
        env={**inherited, **environment},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(words):
    """A person waits for it: no torch, no pytest, no parser of facts."""
    program = (
        f"import sys\nfrom preflight.cli.main import run\nrun({words!r})\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_a_run_imports_only_what_every_run_needs():
    """A gate takes seconds: what reads launch files, starts jobs or explains logs is for the runs that do so."""
    seldom = (
        "yaml",
        "tabulate",
        "tomllib",
        "preflight.diagnose",
        "preflight.launch.read",
        "preflight.launch.launchers",
    )
    program = (
        "import sys, preflight.cli.run, preflight.run.suite.plugin, preflight.run.suite.session\n"
        "import preflight.report.html.page\n"
        f"print([name for name in {seldom!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_help_names_every_verb_and_the_exit_codes(capsys):
    """On one page, before any other."""
    assert main.run(["--help"]) == 0
    text = capsys.readouterr().out
    for verb in main.VERBS:
        assert f"\n    {verb} " in text
    assert "Exit codes: 0 pass or warn, 1 fail" in text


@pytest.mark.parametrize("verb", main.VERBS)
def test_help_of_a_verb_ends_in_examples_that_can_be_typed(verb, capsys):
    """Each on a line of its own, and understood."""
    assert main.run([verb, "--help"]) == 0
    text = capsys.readouterr().out
    assert main.VERBS[verb].examples
    for example in main.VERBS[verb].examples:
        assert f"\n  preflight {example}\n" in text
        words = shlex.split(example)
        assert main.parser_of(words).parse_args(words).verb == verb


def test_pytest_takes_every_option_under_a_name_of_its_own():
    """And under the short one where no other plugin has it."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    shown = set(re.findall(r"--[a-z-]+", done.stdout))
    assert {f"--preflight-{row.name}" for row in OPTIONS.values()} <= shown
    assert {"--hosts", "--report-dir", "--from", "--full-mesh", "--checkpoint-dir"} <= shown
    assert "--op" not in shown


def test_the_version_is_told(capsys):
    """On one line, as other programs do."""
    assert main.run(["--version"]) == 0
    assert capsys.readouterr().out == f"preflight {__version__}\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["nope"], "invalid choice: 'nope'"),
        (["run", "--nope"], "unrecognized arguments: --nope"),
        (["run", "--deadline", "soon"], "invalid float value: 'soon'"),
        (["run", "--deadline"], "expected one argument"),
        (["run", "--backend", "mpi"], "argument --backend: invalid choice: 'mpi' (choose from 'auto', 'nccl', 'gloo')"),
        (["bench", "--mode", "async"], "argument --mode: invalid choice: 'async'"),
        (["bench", "-b", "8M", "-e", "1M"], "-b 8M -e 1M: the first size is larger than the last"),
        (["bench", "--model", "tiny"], "unrecognized arguments: --model tiny"),
        (["train", "--op", "broadcast"], "unrecognized arguments: --op broadcast"),
        (["run", "--launch", "/nowhere.yaml"], "'/nowhere.yaml' is not a file"),
        (["run", "--hosts", "a;reboot"], "'a;reboot' is not a host name"),
        (["bench", "--hosts", ""], "--hosts is empty"),
        (["train", "--env", "X"], "--env 'X': wanted NAME=VALUE"),
        (["facts", "--hosts=-oProxyCommand=x"], "is not a host name"),
        (["facts", "--profile", "quick"], "unrecognized arguments"),
        (["run", "--settings", "/nowhere.toml"], "/nowhere.toml is not a file"),
        (["run", "--from", "/nowhere"], "--from /nowhere"),
        (["report", "a", "b", "c"], "report: wanted one or two runs, as folders, ids or `last`; got 3"),
        (["run", "node1"], "'node1' is not a file; did you mean --hosts=node1? words for pytest go after --"),
        (["run", "checks/mine.py"], "'checks/mine.py' is not a file; words for pytest go after --"),
        (["run", "--hosts=node[1..3]"], "did you mean 'node[1-3]'?"),
        (["launch", "check", "docs"], "'docs' is a folder: name its files, as 'docs/*'"),
        (["report", "/nowhere"], "/nowhere"),
        (["explain", "no_such_check_at_all_here"], "nothing is known of 'no_such_check_at_all_here'"),
        (["run", "\udc80"], "\\udc80"),
        (["run", "--hosts", "node1", "node2"], "'node2' is not a file; did you mean --hosts=node1,node2?"),
        (["bench", "--hosts", "node1", "node2"], "several hosts are one word: --hosts=node1,node2"),
    ],
)
def test_a_usage_error_is_one_line_and_4(words, text):
    """Never a traceback, never a page of usage, and nothing on standard output."""
    done = preflight(*words)
    assert done.returncode == 4
    assert text in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("has_another_file", [False, True])
def test_a_word_that_pytest_refuses_leaves_no_report(tmp_path, has_another_file):
    """Nothing was asked, so nothing is stored; what else is in the folder stays."""
    folder = tmp_path / "report"
    if has_another_file:
        folder.mkdir()
        (folder / "mine.txt").touch()
    assert preflight("run", f"--report-dir={folder}", "--", "no_such_check.py").returncode == 4
    assert [path.name for path in tmp_path.rglob("*.*")] == ["mine.txt"] * has_another_file
    assert folder.exists() == has_another_file


def test_no_verb_is_a_usage_error_that_shows_the_help(capsys):
    """A scheduler's prolog that lost its words must not read as green."""
    assert main.run([]) == 4
    assert "VERB" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["explain"], ["explain", "reach"], ["facts", "--dry-run"]]
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_left_is_no_traceback(words, unbuffered):
    """`preflight explain | head -1` ends quietly, and never with the code of something that was measured."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = preflight(*words, stdout=writing, PYTHONUNBUFFERED=unbuffered)
    finally:
        os.close(writing)
    assert done.stderr == ""
    assert done.returncode in {0, 3}


def test_a_reader_that_left_does_not_change_the_code_of_what_was_measured(tmp_path):
    """`preflight run | true`: a pass is 0, and the report says the same."""
    check = tmp_path / "test_site.py"
    check.write_text('def test_fine(node):\n    """N.\n\n    Fix: f.\n    """\n    assert node.name\n')
    reading, writing = os.pipe()
    os.close(reading)
    try:
        words = ["--hosts=local", "--profile=quick", f"--report-dir={tmp_path}/r", "--", str(check)]
        done = preflight("run", *words, stdout=writing)
    finally:
        os.close(writing)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads((tmp_path / "r" / "report.json").read_text())["verdict"] == "pass"


@pytest.mark.parametrize("verb", ["run", "facts"])
def test_a_dry_run_says_what_would_be_done_and_does_nothing(verb, tmp_path):
    """Hosts, commands and ports; no connection, no report."""
    folder = ["--report-dir", str(tmp_path / "report")] if verb == "run" else []
    done = preflight(verb, "--hosts", "ada@node[1-2]:2222", "--dry-run", *folder)
    assert done.returncode == 0, done.stderr
    assert "would reach 2 nodes" in done.stdout
    assert "-l ada -- node2" in done.stdout
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("preflight di", {"diagnose"}),
        ("preflight run --prof", {"--profile"}),
        ("preflight run --profile q", {"quick"}),
        ("preflight bench --mo", {"--mode"}),
    ],
)
def test_the_shell_is_told_what_may_come_next(typed, wanted, tmp_path):
    """Verbs, the options of the verb that is typed, and their values."""
    pytest.importorskip("argcomplete")
    told = tmp_path / "told"
    given = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_STDOUT_FILENAME": str(told), "_ARGCOMPLETE_IFS": "\n"}
    preflight(COMP_LINE=typed, COMP_POINT=str(len(typed)), **given)
    assert {word.strip() for word in told.read_text().splitlines()} == wanted
