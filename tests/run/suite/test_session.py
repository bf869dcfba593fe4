"""One pytest session with hosts: the exit code tells the truth, whatever pytest or a check does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.forks import Fork

PASSING = 'def test_fine(node):\n    """It is fine.\n\n    Fix: nothing.\n    """\n    assert node.name\n'


DECORATED = """
import functools

def plain(function):
    @functools.wraps(function)
    def call(**arguments):
        return function(**arguments)
    return call

@plain
async def test_x(node):
    assert False
"""


@pytest.fixture
def site(tmp_path, forks):
    """A folder with a user's own checks, and a way to run pytest on it."""

    class Site:
        folder = tmp_path
        report = tmp_path / "report"

        def write(self, text: str, name: str = "test_site.py") -> None:
            (tmp_path / name).write_text(text)

        def start(self, *words: str, **environment: str) -> Fork | subprocess.Popen[str]:
            # hypothesis costs each of these sessions a second, and none of them uses it.
            without = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
            argv = ["pytest", *without, f"--report-dir={self.report}", *words]
            env = {**os.environ, **environment}
            if not any(name.startswith("PYTHON") for name in environment):
                return forks.start(argv, cwd=tmp_path, env=env)
            return subprocess.Popen(
                [sys.executable, "-m", *argv],
                cwd=tmp_path,
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )

        def run(self, *words: str, **environment: str) -> tuple[int, str]:
            process = self.start(*words, **environment)
            output, _ = process.communicate(timeout=90)
            return process.returncode, output

        def document(self) -> dict:
            return json.loads((self.report / "report.json").read_text())

    return Site()


def test_a_passing_check_passes(site):
    """Exit 0 comes with a finished report that says pass."""
    site.write(PASSING)

    code, output = site.run("--hosts=local", "test_site.py")

    assert code == 0, output
    assert site.document()["verdict"] == "pass"
    assert site.document()["finished"] is True
    assert site.document()["ledger"] == {"expected": 1, "judged": 1, "not_asked": 0}


def test_a_failing_check_names_the_node_and_the_fix(site):
    """The author's words, cut before pytest's, and the docstring's fix."""
    site.write('def test_bad(node):\n    """T.\n\n    Fix: `mend it`.\n    """\n    assert 1 == 2, "one is two"\n')

    code, output = site.run("--hosts=local", "test_site.py")

    assert code == 1, output
    finding = site.document()["findings"][0]
    assert finding["check"] == "site.bad"
    assert finding["nodes"] == ["local"]
    assert finding["message"] == "one is two"
    assert finding["fix"] == "`mend it`."


def test_no_line_of_pytests_own_stands_between_its_header_and_our_summary(site):
    """Files with percentages and no dots say nothing; with -v every check is named."""
    site.write(PASSING)
    _, output = site.run("--hosts=local", "test_site.py")
    assert "collected 1 item\n" in output
    assert "%]" not in output
    assert output.count("test_site.py") == 0
    _, output = site.run("--hosts=local", "-v", "test_site.py")
    assert "test_site.py::test_fine PASSED" in output


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("raise TypeError('oops')", 3),
        ("import os; os._exit(0)", 3),
        ("import sys; sys.exit(0)", 3),
        ("import pytest; pytest.exit('bye', returncode=0)", 3),
        ("import pytest; pytest.skip('not here')", 5),
        ("import pytest; pytest.fail('broken')", 1),
        ("import pytest; pytest.xfail('known')", 1),
        ("assert False", 1),
        ("node.subjects.clear(); node.network", 3),
        ("return later()", 3),
        ("return (1 / 0 for _ in node.name)", 3),
    ],
)
def test_whatever_a_check_does_it_is_not_green(site, body, code):
    """A check that breaks, leaves, skips or xfails never ends in 0."""
    later = "async def later():\n    assert False\n\n\n"
    site.write(f'{later}def test_trap(node):\n    """T.\n\n    Fix: f.\n    """\n    {body}\n')

    seen, output = site.run("--hosts=local", "test_site.py")

    assert seen == code, output
    assert "Traceback" not in output
    assert site.document()["exit_code"] == code


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--collect-only",), 5),
        (("-k", "nothing_like_this"), 5),
        (("-n", "2"), 4),
        (("--hosts=",), 4),
        (("--hosts=a;b",), 4),
        (("--hosts=-oProxyCommand=x",), 4),
        (("--backend=mpi",), 4),
        (("--deadline=nan",), 4),
        (("--env", "novalue"), 4),
        (("--settings=/nowhere.toml",), 4),
        (("--from=/nowhere",), 4),
        (("--no-such-option",), 4),
        (("--from=",), 4),
        (("--from=.",), 4),
        (("--assert=plain",), 4),
    ],
)
def test_what_pytest_would_call_fine_is_not(site, words, code):
    """Nothing asked is 5, a wrong word is 4, and each is said in a line."""
    site.write(PASSING)

    seen, output = site.run("--hosts=local", *words, "test_site.py")

    assert seen == code, output
    assert "Traceback" not in output


def test_a_file_that_cannot_be_collected_is_an_error(site):
    """A collection error beside passing checks is not green."""
    site.write(PASSING)
    site.write("import nowhere_to_be_found\n", "test_broken.py")

    code, output = site.run("--hosts=local", ".")

    assert code == 3, output
    assert site.document()["verdict"] == "error"


def test_a_skip_mark_is_a_skip_with_its_reason(site):
    """All skipped is 5, not 0."""
    site.write("import pytest\n\n\n@pytest.mark.skip(reason='later')\n" + PASSING)

    code, _ = site.run("--hosts=local", "test_site.py")

    assert code == 5
    assert "later" in site.document()["findings"][0]["message"]


@pytest.mark.parametrize(
    "text",
    [
        "class TestX:\n    def test_x(self, node):\n        pass\n",
        "import pytest\n@pytest.mark.parametrize('x', [1])\ndef test_x(node, x):\n    pass\n",
        "import pytest\n@pytest.fixture\ndef mine(node):\n    return 1\ndef test_x(mine):\n    pass\n",
        "async def test_x(node):\n    assert False\n",
        "async def test_x(node):\n    yield\n",
        DECORATED,
    ],
)
def test_shapes_that_cannot_be_judged_are_refused(site, text):
    """A class, a parametrization or a fixture built on ours is a usage error that says so."""
    site.write(text)

    code, output = site.run("--hosts=local", "test_site.py")

    assert code == 4
    assert "test_x" in output


def test_two_checks_of_one_id_are_refused(site):
    """Ids are the keys of findings: a second one is a usage error."""
    site.write(PASSING)
    (site.folder / "more").mkdir()
    site.write(PASSING, "more/test_site.py")

    code, output = site.run("--hosts=local", "--import-mode=importlib", ".")

    assert code == 4
    assert "site.fine" in output


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_leaves_a_report_and_its_own_code(site, number, code):
    """TERM, INT and HUP end with the partial report and 143, 130 or 129."""
    slow = '"""S.\n\n    Fix: f.\n    """\n    import time\n    open("in", "w").close()\n    time.sleep(60)\n'
    site.write(f"{PASSING}\n\ndef test_slow(cluster):\n    {slow}")
    process = site.start("--hosts=local", "test_site.py")
    end = time.monotonic() + 30
    while not (site.folder / "in").exists() and time.monotonic() < end:
        time.sleep(0.05)

    process.send_signal(number)
    output, _ = process.communicate(timeout=30)

    assert process.returncode == code, output
    assert "preflight.said.errors" not in output
    assert "!!!!" not in output
    document = site.document()
    assert document["finished"] is True
    assert {finding["check"]: finding["verdict"] for finding in document["findings"]} == {
        "site.fine": "pass",
        "site.slow": "error",
    }


def test_a_check_without_end_is_ended_by_the_deadline(site):
    """The deadline holds even inside a check's own loop."""
    site.write('def test_loop(cluster):\n    """L.\n\n    Fix: f.\n    """\n    while True:\n        pass\n')

    code, output = site.run("--hosts=local", "--deadline=5", "test_site.py")

    assert code == 3, output
    assert "the deadline of 5 s was reached" in site.document()["findings"][0]["message"]
    assert "the deadline of 5 s was reached" in output
    assert "!!!!" not in output


def test_advisory_checks_warn(site):
    """A broken advisory check is a warning: exit 0, or 1 with --fail-on-warn."""
    site.write(
        "import pytest\n\n\n@pytest.mark.advisory\n" + PASSING.replace("assert node.name", 'assert 0, "slowish"')
    )

    assert site.run("--hosts=local", "test_site.py")[0] == 0
    assert site.document()["verdict"] == "warn"
    assert site.run("--hosts=local", "--fail-on-warn", "test_site.py")[0] == 1


def test_an_unwritable_report_is_an_error(site):
    """A verdict that could not be stored is not green."""
    site.write(PASSING)
    site.report.write_text("a file")

    code, output = site.run("--hosts=local", "test_site.py")

    assert code == 4, output
    assert "report" in output


def test_without_hosts_the_plugin_is_inert(site):
    """Other people's pytest runs are none of our business."""
    site.write("def test_other():\n    assert True\n")

    code, output = site.run("test_site.py")

    assert code == 0
    assert "preflight" not in output.splitlines()[-1]
    assert not site.report.exists()


def test_a_dry_run_contacts_nobody(site):
    """Hosts and commands are printed, and no report is made."""
    site.write(PASSING)

    code, output = site.run("--hosts=node[1-2]", "--dry-run", "test_site.py")

    assert code == 0, output
    assert "ssh" in output
    assert "-- node2" in output
    assert not site.report.exists()


def test_a_taken_option_is_said_with_the_long_name(site):
    """pytest-profiling owns --profile; ours is then --preflight-profile, and the header says so."""
    site.write(PASSING)

    code, output = site.run("--hosts=local", "--preflight-profile=quick", "test_site.py")

    assert code == 0, output
    assert "--preflight-profile" in output


def test_preflight_run_ignores_the_configuration_around_it(site):
    """addopts, PYTEST_ADDOPTS and a hostile conftest beside the user change nothing."""
    site.write("raise SystemExit(0)\n", "conftest.py")
    site.write("[pytest]\naddopts = -k nothing --maxfail=1\n", "pytest.ini")
    process = subprocess.run(
        [sys.executable, "-m", "preflight", "run", "--profile=quick", f"--report-dir={site.report}"],
        cwd=site.folder,
        env={**os.environ, "PYTEST_ADDOPTS": "-k nothing", "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )

    assert process.returncode == 0, process.stdout + process.stderr
    assert site.document()["ledger"]["judged"] > 10


MORE = "def test_more(node):\n    pass\n"
LOSSES = {
    "-k": (("-k", "fine"), "", MORE, "-k"),
    "-m": (("-m", "not advisory"), "", "import pytest\n@pytest.mark.advisory\n" + MORE, "-m"),
    "--deselect": (("--deselect=test_more.py::test_more",), "", MORE, "--deselect"),
    "--ignore": (("--ignore=test_more.py",), "", MORE, "--ignore"),
    "collect_ignore": ((), "collect_ignore = ['test_more.py']", MORE, "not collected"),
    "dropped": ((), "def pytest_collection_modifyitems(items):\n    items[:] = items[:1]", MORE, "not collected"),
    "ignored by a hook": (
        (),
        "def pytest_ignore_collect(collection_path):\n    return True if 'more' in collection_path.name else None",
        MORE,
        "not collected",
    ),
    "skip": ((), "", "import pytest\npytest.skip('later', allow_module_level=True)\n" + MORE, "skipped: later"),
    "importorskip": (
        (),
        "",
        "import pytest\npytest.importorskip('nowhere')\n" + MORE,
        "skipped: could not import 'nowhere': No module named 'nowhere'",
    ),
    "python_functions": (("-o", "python_functions=test_f*"), "", MORE, "not collected"),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_check_that_was_not_collected_is_counted_and_said(site, loss):
    """However it was kept from being asked: it is not asked, by that reason, and not simply gone."""
    words, conftest, more, reason = LOSSES[loss]
    site.write(PASSING, "test_a_site.py")
    site.write(more, "test_more.py")
    site.write(conftest, "conftest.py")

    code, output = site.run("--hosts=local", *words, ".")

    assert code == 0, output
    assert site.document()["ledger"] == {"expected": 1, "judged": 1, "not_asked": 1}
    assert site.document()["not_asked"] == {reason: ["more.more"]}
    assert f"1 check not asked for ({reason}" in " ".join(output.split())  # a long line is wrapped


def test_what_pytest_asks_again_leaves_the_others_unasked(site):
    """--lf of pytest asks what failed last; that the others were not asked is said."""
    site.write(PASSING.replace("assert node.name", "assert not node.name"), "test_a_site.py")
    site.write(MORE, "test_more.py")
    assert site.run("--hosts=local", "-p", "cacheprovider", ".")[0] == 1
    site.write(PASSING, "test_a_site.py")

    code, output = site.run("--hosts=local", "-p", "cacheprovider", "--lf", ".")

    assert code == 0, output
    assert site.document()["ledger"] == {"expected": 1, "judged": 1, "not_asked": 1}
    assert "1 check not asked" in " ".join(output.split())


def test_no_word_of_a_check_reaches_the_terminal_raw(site):
    """Not even where pytest is asked for a summary of everything."""
    site.write(PASSING.replace("assert node.name", r'assert 0, "\x1b[2J\n::error::planted\n##vso[x]y\u202e"'))

    code, output = site.run("--hosts=local", "-rA", "test_site.py")

    assert code == 1
    assert "planted" in output
    assert not any(raw in output for raw in ("\x1b[2J", "\n::error", "##vso[", "\u202e"))


def test_what_a_profile_leaves_out_is_said_with_its_name(site):
    """Beside what -k left out."""
    site.write(PASSING + "\n\n" + PASSING.replace("node", "bench").replace("fine", "fast") + "\n\n" + MORE)

    code, output = site.run("--hosts=local", "--preflight-profile=quick", "-k", "not more", "test_site.py")

    assert code == 0, output
    assert site.document()["not_asked"] == {"-k": ["site.more"], "profile quick": ["site.fast"]}


def test_the_checks_of_a_file_that_cannot_be_collected_are_errors(site):
    """Each of them, by its id: they were asked, and not measured."""
    site.write("import nowhere_to_be_found\n\n" + MORE, "test_broken.py")

    code, output = site.run("--hosts=local", "test_broken.py")

    assert code == 3, output
    (finding,) = site.document()["findings"]
    assert (finding["check"], finding["verdict"]) == ("broken.more", "error")
    assert "test_broken.py could not be collected" in finding["message"]


def test_without_assert_statements_nothing_is_judged(site):
    """python -O leaves them out of every check."""
    site.write(PASSING.replace("assert node.name", "assert not node.name"))

    code, output = site.run("--hosts=local", "test_site.py", PYTHONOPTIMIZE="1")

    assert code == 4, output
    assert "python -O" in output
    assert site.run("--co", "test_site.py", PYTHONOPTIMIZE="1")[0] == 0


def test_a_check_file_of_the_users_own_gates_no_job(site):
    """Not by its name either: the bench is started, and the reason it gives is its own."""
    bad = 'def test_of_our_racks(cluster):\n    """R.\n\n    Fix: f.\n    """\n    assert False, "no rack"\n'
    site.write(bad, "test_names.py")
    site.write('def test_fast(bench):\n    """F.\n\n    Fix: f.\n    """\n    assert bench.names\n', "test_fast.py")

    code, output = site.run("--hosts=local", "--backend=nccl", ".")

    assert code == 1, output
    messages = {finding["check"]: finding["message"] for finding in site.document()["findings"]}
    assert messages["names.of_our_racks"] == "no rack"
    assert "not started" not in messages["fast.fast"]


def test_hosts_beside_a_stored_run_are_refused(site):
    """One of the two would be ignored; an empty value is an unset variable of a script."""
    site.write(PASSING)
    assert site.run("--hosts=local", "test_site.py")[0] == 0

    for words in (("--hosts=local", f"--from={site.report}"), ("--from=",), ("--hosts=",), ("--from= ",)):
        code, output = site.run(*words, "test_site.py")
        assert code == 4, output
        assert "--hosts with --from" in output or "is empty" in output
    assert site.run(f"--from={site.report}", "test_site.py")[0] == 0


def test_a_stored_run_is_judged_again_with_its_time_and_its_source_said(site):
    """And nothing of it is changed, not even where the report goes to the same folder."""
    site.write(PASSING)
    assert site.run("--hosts=local", "test_site.py")[0] == 0
    before = site.document()

    code, output = site.run(f"--from={site.report}", "test_site.py")

    assert code == 0, output
    after = site.document()
    assert after["run"]["started"] == before["run"]["started"]
    assert after["nodes"] == before["nodes"]
    assert after["notes"] == [f"judged from {site.report}"]
    assert (site.report / "facts" / "local.json").is_file()
