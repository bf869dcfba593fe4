"""Can anything that a run executes end it with exit code 0 before it is over?"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from preflight.cli import main
from preflight.run.suite.leaving import never_green, no_exit
from tests.run.suite.test_session import PASSING, site

__all__ = ["site"]
FORKING = '''
import multiprocessing
import os
import subprocess
from pathlib import Path


def test_forks(cluster):
    """It forks.

    Fix: nothing.
    """
    {body}
'''
CHILDREN = [
    "child = multiprocessing.get_context('fork').Process(); child.start(); child.join(); assert child.exitcode == 0",
    "child = os.fork() or os._exit(7); assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7",
    "child = os.fork(); assert not child or os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0",
    "child = os.fork(); assert child; assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1",
]


@pytest.mark.parametrize("body", CHILDREN, ids=["multiprocessing", "_exit", "returns", "raises"])
def test_a_child_that_a_check_forks_ends_and_never_goes_on_as_a_second_run(site, body):
    """Whether it leaves, comes back from the check, or breaks in it."""
    site.write(FORKING.format(body=body) + "\n\n" + PASSING.replace("test_fine", "test_later"))
    code, output = site.run("--hosts=local", "test_site.py")
    assert code == 0, output
    assert output.count("GO  1 node") == 1
    assert site.document()["ledger"]["judged"] == 2


@pytest.mark.parametrize(
    "leave", ["import sys; sys.exit(0)", "import os; os._exit(0)", "import pytest; pytest.exit('', 0)"]
)
def test_a_conftest_that_leaves_before_the_session_is_not_green(site, leave):
    """There is no report yet, but the exit code says that nothing was judged."""
    site.write(leave, "conftest.py")
    site.write(PASSING)
    code, output = site.run("--hosts=local", "test_site.py")
    assert code in {3, 4}, output
    assert "conftest" in output


@pytest.mark.parametrize("leave", ["import sys; sys.exit(0)", "import os; os._exit(0)"])
def test_a_conftest_that_leaves_during_collection_is_not_green(site, leave):
    """One of a folder further down, which pytest imports when there is a session."""
    (site.folder / "more").mkdir()
    site.write(leave, "more/conftest.py")
    site.write(PASSING, "more/test_more.py")
    site.write(PASSING)
    code, output = site.run("--hosts=local", ".")
    assert code == 3, output
    assert site.document()["verdict"] == "error"


@pytest.mark.parametrize("leave", ["import sys; sys.exit(0)", "import os; os._exit(0)"])
def test_a_fixture_that_leaves_is_not_green(site, leave):
    """Set up or torn down."""
    fixture = f"import pytest\n\n\n@pytest.fixture\ndef mine():\n    {leave}\n\n\n"
    site.write(fixture + PASSING.replace("node)", "node, mine)"))
    code, output = site.run("--hosts=local", "test_site.py")
    assert code == 3, output
    assert json.loads((site.report / "report.json").read_text())["verdict"] == "error"


FAILING = PASSING.replace("assert node.name", "assert not node.name")
TAMPERING = {
    "leaves when pytest is done": "import os\n\ndef pytest_unconfigure(config):\n    os._exit(0)\n",
    "leaves when the process ends": "import atexit, os\natexit.register(os._exit, 0)\n",
    "leaves behind the report": "import sys\n\ndef pytest_sessionfinish(session):\n    sys.exit(0)\n",
    "returns another code": (
        "import pytest\n\n@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
        "def pytest_cmdline_main(config):\n    yield\n    return 0\n"
    ),
}


@pytest.mark.parametrize("conftest", TAMPERING.values(), ids=TAMPERING)
def test_the_exit_code_is_that_of_the_report_whatever_comes_after_it(site, conftest):
    """What others registered to be done at the end is done all the same."""
    site.write("import atexit\natexit.register(print, 'cleaned up')\n" + conftest, "conftest.py")
    site.write(FAILING)
    code, output = site.run("--hosts=local", "test_site.py")
    assert (code, site.document()["exit_code"]) == (1, 1), output
    if "atexit.register(os" not in conftest and "pytest_unconfigure" not in conftest:
        assert "cleaned up" in output


WAYS_TO_LEAVE = {
    "SystemExit": "raise SystemExit(0)",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "pytest.exit": "import pytest; pytest.exit('', returncode=0)",
    "os._exit": "import os; os._exit(0)",
    "os.execv": "import os; os.execv('/bin/true', ['true'])",
}
MOMENTS = {
    "the end of the session": "def pytest_sessionfinish(session):\n    {leave}\n",
    "the end of the session, before all others": (
        "import pytest\n\n@pytest.hookimpl(tryfirst=True)\ndef pytest_sessionfinish(session):\n    {leave}\n"
    ),
    "the end of the session, around all others": (
        "import pytest\n\n@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
        "def pytest_sessionfinish(session):\n    yield\n    {leave}\n"
    ),
    "the end of pytest": "def pytest_unconfigure(config):\n    {leave}\n",
    "the end of the process": "import atexit\n\ndef leave():\n    {leave}\n\natexit.register(leave)\n",
}


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
@pytest.mark.parametrize(
    "leave",
    [
        pytest.param(words, id=name, marks=[] if name == "SystemExit" else [pytest.mark.long])
        for name, words in WAYS_TO_LEAVE.items()
    ],
)
def test_a_red_run_is_green_for_nobody_who_leaves_at_its_end(site, moment, leave):
    """The exit code is never 0, and where the report is finished it is the one that the report has."""
    site.write(moment.format(leave=leave), "conftest.py")
    site.write(FAILING)
    code, output = site.run("--hosts=local", "test_site.py")
    document = site.document()
    assert code in {1, 3}, output
    assert document["verdict"] in {"fail", "error"}
    assert document["exit_code"] == code or not document["finished"], output


NATIVE = "import ctypes; ctypes.CDLL(None)._exit(0)"
IN_A_THREAD = f"import threading; left = threading.Thread(target=lambda: exec({NATIVE!r})); left.start(); left.join()"


@pytest.mark.parametrize("leave", [NATIVE, IN_A_THREAD], ids=["at once", "in a thread"])
@pytest.mark.parametrize(("is_check", "asked_later"), [(False, 4), (True, 3)], ids=["conftest", "check"])
def test_where_native_code_ends_pytest_with_0_the_report_does_not_say_so(site, leave, is_check, asked_later):
    """No Python is asked any more; another process finds no report, or one that was never finished."""
    site.write("" if is_check else leave, "conftest.py")
    site.write(FORKING.format(body=leave) if is_check else PASSING)
    assert site.run("--hosts=local", "test_site.py")[0] == 0
    assert main.run(["report", str(site.report)]) == asked_later
    gate = ["grep", "-q", '^ "exit_code": 0,$', str(site.report / "report.json")]
    assert gate[2] in (Path(__file__).parents[3] / "docs/gates.md").read_text(encoding="utf-8")
    assert subprocess.run(gate, check=False, stderr=subprocess.DEVNULL).returncode
    assert main.run(["report", str(site.report), "--format=nagios"]) == asked_later


def test_listing_fixtures_judges_nothing_and_is_not_green(site):
    """Nor is any other way to keep checks from running."""
    site.write(PASSING)
    code, output = site.run("--hosts=local", "--fixtures", "test_site.py")
    assert (code, site.document()["exit_code"]) == (3, 3), output


def test_without_hosts_a_conftest_may_do_what_it_likes(site):
    """Other people's runs are left as they are."""
    site.write("import sys; sys.exit(0)", "conftest.py")
    assert site.run("test_site.py")[0] == 0


def test_afterwards_os_exit_is_the_real_one_again():
    """Whatever happened within the block."""
    real = os._exit
    for guard in (no_exit, never_green):
        with guard():
            assert os._exit is not real
        assert os._exit is real
        with pytest.raises(KeyError), guard():
            {}["x"]
        assert os._exit is real
    with pytest.raises(RuntimeError, match=r"it called os\._exit\(0\)"), no_exit():
        os._exit(0)
