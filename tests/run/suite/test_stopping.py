"""When does a signal end a run, and do exit code and report agree whenever it comes?"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from preflight.run.suite.stopping import is_whole_program
from tests.run.suite.test_session import site

__all__ = ["site"]
PROGRAM = """
import os, signal, sys, time
from preflight.run.suite.stopping import Stopping
stopping = Stopping()
def tell(word):
    os.write(1, (word + "\\n").encode())
def wait():
    tell("ready")
    time.sleep(0.4)
try:
    stopping.install(0.0)
    {body}
except BaseException as error:
    tell(f"{{type(error).__name__}} {{stopping.number}}")
"""


def told(body: str, *numbers: int) -> tuple[int, list[str]]:
    """The exit code and the words of a program that is sent these signals, one at each "ready"."""
    text = PROGRAM.format(body=body.replace("\n", "\n    "))
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    words = []
    waiting = list(numbers)
    with process.stdout as lines:
        for line in lines:
            words.append(line.strip())
            if words[-1] == "ready" and waiting:
                process.send_signal(waiting.pop(0))
    return process.wait(timeout=20), [word for word in words if word != "ready"]


TERM, INT = signal.SIGTERM, signal.SIGINT


@pytest.mark.parametrize(
    ("body", "numbers", "code", "words"),
    [
        ("with stopping.interruptible(): wait()", [TERM], 0, ["Interrupted 15"]),
        ("wait()\ntell(str(stopping.number))", [TERM], 0, ["15"]),
        ("wait()\nwith stopping.interruptible(): tell('never')", [INT], 0, ["Interrupted 2"]),
        ("stopping.settle()\nwait()\ntell(str(stopping.number))", [TERM], 0, ["0"]),
        ("stopping.settle()\nstopping.written(1)\nwait()\ntell('never')", [TERM], 1, []),
        ("wait()\nwait()\ntell('never')", [TERM, TERM], 143, []),
        ("wait()\nwait()\ntell('never')", [INT, signal.SIGHUP], 129, []),
        ("wait()\nwait()\ntell(str(stopping.number))", [signal.SIGALRM, TERM], 0, ["15"]),
        ("stopping.settle()\nwait()\nstopping.written(5)\nwait()", [TERM, TERM], 5, []),
    ],
)
def test_what_a_signal_does_depends_on_how_far_the_run_is(body, numbers, code, words):
    """It interrupts, is noted, comes too late, or is the second one and ends the process at once."""
    assert told(body, *numbers) == (code, words)


def test_what_is_ignored_stays_ignored():
    """nohup: a terminal that is closed ends nothing."""
    body = "tell(repr(signal.getsignal(1)))"
    text = PROGRAM.format(body=body).replace("try:", "signal.signal(1, signal.SIG_IGN)\ntry:", 1)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=20, check=True)
    assert "SIG_IGN" in done.stdout


def test_the_signals_stay_ours_only_where_the_process_is_the_run(monkeypatch):
    """A program that calls pytest has other plans for them."""
    monkeypatch.setattr(sys, "argv", ["/usr/bin/pytest", "--hosts=local"])
    assert is_whole_program(("pytest", "--hosts=local"))
    assert not is_whole_program(("pytest", "--hosts=node1"))
    assert not is_whole_program(("preflight", "--hosts=local"))
    monkeypatch.setattr(sys, "argv", ["/usr/bin/preflight", "run"])
    assert is_whole_program(("preflight", "run"))


# A check that sends its own process a signal at the n-th line of ours that is executed from the end of the check on.
SHOOTING = '''
import os, signal, sys, threading

class Shot:
    def __init__(self, at):
        self.left = at

    def __call__(self, frame, event, argument):
        if "preflight" not in frame.f_code.co_filename and "_pytest" not in frame.f_code.co_filename:
            return None
        self.left -= event == "line"
        if self.left <= 0:
            sys.settrace(None)
            os.kill(os.getpid(), signal.SIGTERM)
            return None
        return self


def test_shot(settings):
    """It ends, and then a signal comes.

    Fix: nothing.
    """
    sys.settrace(Shot(int(os.environ["SHOT"])))
'''


def shot(site, at: int) -> tuple[int, dict]:
    """The exit code and the report of a stored run that is judged and sent TERM at some line of its ending."""
    code, output = site.run(f"--from={site.stored}", "test_site.py", SHOT=str(at))
    assert "Traceback" not in output, output
    return code, json.loads((site.report / "report.json").read_text())


@pytest.mark.parametrize("at", [1, 60, 400, 1500, 3000, 6000])
def test_exit_code_and_report_agree_whenever_term_comes(site, tmp_path, at):
    """Anywhere between the last check and the end: python -m tests.bench.ending takes 200 places."""
    site.write(SHOOTING)
    site.stored = stored_run(tmp_path / "stored")
    code, document = shot(site, at)
    assert document["finished"]
    assert code == document["exit_code"], (at, code, document["verdict"])
    assert code in {0, 143}


def stored_run(folder: Path) -> Path:
    """A run of a healthy cluster as it is stored."""
    from preflight.testing import healthy
    from tests.run.test_stored import written

    folder.mkdir()
    return written(healthy(2), folder)


LEAVING = '''
import os
from os import _exit


def test_leaves(cluster):
    """It leaves.

    Fix: nothing.
    """
    {leave}
'''


@pytest.mark.parametrize("leave", ["os.execv('/bin/true', ['true'])", "_exit(0)", "os.execlp('true', 'true')"])
def test_leaving_by_other_doors_is_not_green_either(site, leave):
    """os.execv, and functions that a check's file imported before the run began."""
    site.write(LEAVING.format(leave=leave))
    code, output = site.run("--hosts=local", "test_site.py")
    assert code == 3, output
    assert "called os." in site.document()["findings"][0]["message"]
