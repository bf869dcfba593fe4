"""Can code that a run loads turn a check of ours that fails into a green run?"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import traceback
import warnings
from pathlib import Path

import pytest

import preflight.job.options.launch
import preflight.run.suite.plugin
import preflight.run.suite.session
from preflight.run.suite.existing import checks_folder
from preflight.testing import healthy
from tests.run.suite.test_session import PASSING
from tests.run.test_stored import written

CHECK = "network.mtu_is_the_same_on_every_node"
FILE = checks_folder() / "test_network.py"


def in_a_process(folder: Path, words: list[str]) -> tuple[int, str]:
    """What a pytest session of its own ends with, and what it printed; forked, as importing everything takes long."""
    said = folder / "output"
    pid = os.fork()
    if not pid:
        code = 99
        try:
            os.chdir(folder)
            into = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(into, 1)
            os.dup2(into, 2)
            sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(number, "w", closefd=False)) for number in (1, 2))
            sys.argv = ["pytest", *words]
            warnings.simplefilter("ignore")  # this session has imported what that one wants to import itself
            code = int(pytest.main(words, plugins=[preflight.run.suite.plugin]))
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said.read_text()


@pytest.fixture
def attack(tmp_path, monkeypatch):
    """A stored run whose node2 has another MTU, judged beside a site's own check and its conftest."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    for name in [name for name in sys.modules if name.startswith(("test_", "conftest", "site"))]:
        if name != "site":
            monkeypatch.delitem(sys.modules, name)
    stored = tmp_path / "stored"
    stored.mkdir()
    written(healthy().broken_interface("node2", mtu=1500), stored)
    site = tmp_path / "site"
    site.mkdir()
    (site / "test_site.py").write_text(PASSING)

    def attack(conftest: str, *words: str, check: str = CHECK) -> tuple[int, dict, str]:
        (site / "conftest.py").write_text(conftest)
        named = f"{FILE}::test_{check.partition('.')[2]}"
        plain = ["-p", "no:cacheprovider", f"--from={stored}", f"--report-dir={tmp_path / 'report'}"]
        code, output = in_a_process(tmp_path, [*plain, "--import-mode=importlib", *words, str(site), named])
        path = tmp_path / "report" / "report.json"
        return code, json.loads(path.read_text()) if path.exists() else {}, output

    return attack


# What a conftest may try, one after the other.
ATTACKS = dict(
    re.findall(r"^=== (.*)\n((?:(?!===).*\n)*)", Path(__file__).with_name("conftests.txt").read_text(), re.MULTILINE)
)


@pytest.mark.parametrize("conftest", ATTACKS.values(), ids=ATTACKS)
def test_a_conftest_makes_no_failing_check_green(attack, conftest):
    """Whatever it exchanges or leaves out: exit code and report say the same, and it is not that all is well."""
    code, report, output = attack(conftest)
    assert code in {1, 3, 4}, output
    assert not report or (report["exit_code"] == code and report["verdict"] in {"fail", "error"}), output
    assert "Traceback" not in output or "INTERNALERROR" in output


REPLACED = {
    "another function": "the check was replaced: what would run is not test_mtu_is_the_same_on_every_node of test_net",
    "advisory": "the check was replaced: its marks (advisory) are not those of test_network.py",
    "counted": "preflight.judge.ledger.findings.Finding.counted was replaced during the run",
    "a key of a table": "EXIT_CODES was replaced during the run",
    "no session": "pytest ended without having judged anything",
    "files are not replaced": "the report could not be written",
}


@pytest.mark.parametrize("name", REPLACED)
def test_who_exchanged_what_is_said(attack, name):
    """As far as it is known: the check, or the place in our code."""
    _, _, output = attack(ATTACKS[name])
    assert REPLACED[name] in " ".join(output.split())


WORDS = {
    "the judge": ("-p", "no:preflight-checking"),
    "the guard": ("-p", "no:preflight.run.suite.leaving"),
    "functions": ("-p", "no:python"),
    "the call": ("-p", "no:runner"),
    "setup only": ("--setup-only",),
    "another configuration": ("-o", "addopts=--collect-only"),
}


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_no_option_of_pytest_makes_a_failing_check_green(attack, words):
    """What it keeps from running was not measured."""
    code, report, output = attack("", *words)
    assert code in {1, 3, 4, 5}, output
    assert not report or report["exit_code"] == code, output


def test_a_check_that_passes_still_does(attack):
    """Nothing is taken for an attack that is none."""
    conftest = "import preflight.testing\n\ndef pytest_collection_modifyitems(items):\n    items.reverse()\n"
    code, report, output = attack(conftest, check="network.training_interface_exists")
    assert (code, report["verdict"]) == (0, "pass"), output


VERB = {
    "leaves when the process ends": (["site"], 1),
    "pytest does something else": (["site", "--", "--version"], 3),
    "leaves at once": (["site"], 4),
    "another report": (["site"], 3),
}
CONFTESTS = {
    "leaves when the process ends": "import atexit, os\natexit.register(os._exit, 0)\n",
    "leaves at once": "import os\nos._exit(0)\n",
    "pytest does something else": "",
    "another report": (
        "import pathlib, pytest\n\n@pytest.hookimpl(tryfirst=True)\ndef pytest_cmdline_main(config):\n"
        "    pathlib.Path('report').mkdir()\n    text = pathlib.Path('stored/report.json').read_text()\n"
        "    pathlib.Path('report/report.json').write_text(text)\n    return 0\n"
    ),
}


@pytest.mark.parametrize("name", VERB)
def test_a_verb_passes_only_with_the_report_of_its_own_run(attack, tmp_path, name):
    """Whatever became of the pytest session that it started."""
    words, wanted = VERB[name]
    (tmp_path / "site" / "conftest.py").write_text(CONFTESTS[name])
    argv = [sys.executable, "-m", "preflight", "run", "--from=stored", "--profile=quick", "--report-dir=report", *words]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == wanted, done.stdout + done.stderr
