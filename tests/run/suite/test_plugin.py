"""Does pytest become the runner of the checks with hosts alone, and leave all other runs as they are?"""

from __future__ import annotations

import ast

import pytest

from preflight.run.suite.plugin import checks_folder

pytest_plugins = ["pytester"]
OURS = "-ppreflight.run.suite.plugin"
CHECK = 'def test_fine(node):\n    """It is fine.\n\n    Fix: nothing.\n    """\n'


@pytest.fixture(autouse=True)
def no_other_plugins(monkeypatch):
    """Plugins of others cost seconds to import; ours is named."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def test_without_hosts_a_run_is_somebody_elses(pytester):
    """Its tests run, its exit code is its own, and no report is written."""
    pytester.makepyfile("def test_other():\n    assert True\n")
    done = pytester.runpytest_inprocess(OURS, "-q")
    assert done.ret == 0
    done.assert_outcomes(passed=1)
    assert not (pytester.path / "reports").exists()


@pytest.fixture
def dry(pytester):
    """Run pytest with our plugin and hosts that nobody contacts; the exit code and the text."""
    pytester.makepyfile(test_site=CHECK)

    def run(*words: str) -> tuple[int, str]:
        done = pytester.runpytest_inprocess(OURS, "--dry-run", "--import-mode=importlib", *words)
        return int(done.ret), "\n".join([*done.outlines, *done.errlines])

    return run


def test_hosts_make_it_the_runner(dry):
    """Under its own name or the short one, which mean the same."""
    for option in ("--hosts", "--preflight-hosts"):
        code, text = dry(f"{option}=node[1-2]")
        assert (code, "would reach 2 nodes" in text) == (0, True), text


def test_a_short_name_that_another_plugin_has_is_left_to_it(dry, pytester):
    """Ours is then the long one."""
    pytester.syspathinsert()
    pytester.makepyfile(
        theirs="def pytest_addoption(parser):\n    parser.getgroup('theirs').addoption('--backend', dest='theirs')\n"
    )
    code, text = dry("-ptheirs", "--hosts=node1", "--backend=mpi")
    assert (code, "would reach 1 node" in text) == (0, True), text
    code, text = dry("-ptheirs", "--hosts=node1", "--preflight-backend=mpi")
    assert (code, "mpi" in text) == (4, True), text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--hosts=a;b",), "'a;b' is not a host name"),
        (("--hosts", "node1", "node2"), "'node2' is not a file; several hosts are one word"),
        (("--hosts=node1", "--deadline=nan"), "--deadline"),
        (("--hosts=node1", "--env=novalue"), "wanted NAME=VALUE"),
        (("--from=/nowhere",), "--dry-run with --from"),
        (("-pxdist", "--hosts=node1", "-n", "2"), "leave out -n and --dist"),
    ],
)
def test_a_word_that_cannot_be_is_a_usage_error(dry, words, message):
    """In a line of ours, before anybody is contacted."""
    code, text = dry(*words)
    assert (code, message in text) == (4, True), text
    assert "Traceback" not in text


def test_the_marks_of_checks_are_known_without_hosts(pytester):
    """A site's own checks are collected under --strict-markers by whoever looks at them."""
    pytester.makepyfile(
        "import pytest\n@pytest.mark.advisory\n@pytest.mark.needs('root')\ndef test_x():\n    assert True\n"
    )
    pytester.runpytest_inprocess(OURS, "--strict-markers", "-q").assert_outcomes(passed=1)


def test_the_checks_are_those_that_come_with_the_package():
    """Files of checks with a subject each; every function in them is one."""
    files = sorted(checks_folder().glob("test_*.py"))
    assert {"test_reach.py", "test_network.py", "test_training.py"} <= {path.name for path in files}
    assert all(ast.parse(path.read_text()).body for path in files)
