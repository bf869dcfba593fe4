"""Is a script started as it was given, followed by its lines, and ended with all that it started?"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from preflight.job.ranks.rehearsal import hook
from tests.node.wire import Wire, is_gone, is_seen, opened, sleeper

HOOK = "import json, os\n"
# Makes its folder when it is asked to end.
LAUNCHER = """
import os, pathlib, signal, tempfile, time
def leave(*_):
    pathlib.Path("made").write_text(tempfile.mkdtemp(prefix="torchelastic_", dir=os.getcwd()))
    os._exit(0)
signal.signal(signal.SIGTERM, leave)
tempfile.mkdtemp(prefix="torchelastic_", dir=os.getcwd())
time.sleep(60)
"""
ARGUMENTS = {"login": False, "environment": [], "drop": [], "hook": HOOK, "settings": {}, "seconds": 15}


@pytest.fixture(scope="module")
def wire():
    """One keeper for all of them."""
    with opened(deadline_seconds=100.0, lease_seconds=100.0) as made:
        yield made


@pytest.fixture
def started(wire: Wire, request, tmp_path):
    """Start a script -> its number, when it is on its way."""
    numbers = iter(range(1 + 10 * (hash(request.node.name) % 10000), 10**9))

    def start(text, *, path=None, **more):
        number = next(numbers)
        wire.call(number, "rehearse", {**ARGUMENTS, "scratch": True, **more}, blob=b"")
        while "ready" not in wire.next("event")["event"]:
            continue
        script = {"path": str(path or tmp_path / "run.sh"), "text": text, "shell": ["bash"], "words": ["one", "a b"]}
        wire.send({"to": number, "send": {"start": {**script, "folders": [str(tmp_path)], "job": ""}}})
        return number

    return start


def until(wire, key):
    """The first event that has the key, and those before it."""
    events = []
    while True:
        events.append(wire.next("event")["event"])
        if key in events[-1]:
            return events


def stopped(wire, number):
    """What is said at the end."""
    wire.send({"to": number, "send": {"stop": True}})
    events, ending = wire.outcome(number)
    assert ending["result"] == {"why": "stopped"}
    return {key: value for event in events for key, value in event.items()}


def test_a_script_gets_its_words_its_folder_and_its_end(wire, started, tmp_path):
    """What it prints on both streams comes at the end, its lines as it runs."""
    number = started('echo "$# $2 $PWD $PREFLIGHT_REHEARSAL"\necho bad >&2\nexit 7\n')
    events = until(wire, "ended")
    rows = [row for event in events for row in event.get("rows", ())]
    assert [row[4] for row in rows] == [1, 2, 3]
    assert events[-1]["ended"] == 7
    output = stopped(wire, number)["output"]
    assert (output["out"], output["err"]) == (f"2 a b {tmp_path} 1\n", "bad\n")


def test_the_nodes_own_file_is_run(wire, started, tmp_path):
    """That it is another than the one that was given is said."""
    (tmp_path / "run.sh").write_text("echo mine\n")
    number = started("echo theirs\n")
    began = until(wire, "began")[-1]["began"]
    assert (began["path"], began["differs"]) == (str(tmp_path / "run.sh"), True)
    until(wire, "ended")
    assert stopped(wire, number)["output"]["out"] == "mine\n"


def test_what_it_leaves_running_is_ended(wire, started):
    """A daemon in a session of its own, deaf to TERM, though the script itself has ended."""
    tag = f"daemon-{os.getpid()}"
    number = started(f"setsid nohup {sys.executable} -c '{sleeper(tag)}' >/dev/null 2>&1 &\n")
    until(wire, "ended")
    assert is_seen(tag)
    assert any(tag in process["command"] for process in stopped(wire, number)["processes"])
    assert is_gone(tag)


def test_a_folder_that_a_launcher_makes_while_it_is_ended_is_removed(wire, started, tmp_path):
    """Torch's agent makes one for its logs, which nobody removes where it is killed."""
    (tmp_path / "torchrun").write_text(LAUNCHER)
    number = started(
        f"{sys.executable} torchrun\n", hook=Path(hook.__file__).read_text(), settings={"programs": ["train.py"]}
    )
    while not any("made" in note for _, note in until(wire, "notes")[-1]["notes"]):
        continue  # then it is ready
    stopped(wire, number)
    made = Path((tmp_path / "made").read_text())
    assert made.name.startswith("torchelastic_")
    assert not made.exists()


def test_a_script_that_ignores_term_is_ended(wire, started):
    """It does not say that it ended, for it did not by itself."""
    tag = f"stubborn-{os.getpid()}"
    number = started(f"trap '' TERM\n{sys.executable} -c '{sleeper(tag)}'\n")
    assert is_seen(tag)
    stopped(wire, number)
    assert is_gone(tag)


def test_the_real_program_without_the_hook_is_ended(wire, started, tmp_path):
    """It is told with its command line."""
    (tmp_path / "train.py").write_text("import time\ntime.sleep(60)\n")
    number = started(f"{sys.executable} -I train.py\n", settings={"programs": ["train.py"]})
    assert "train.py" in until(wire, "stray")[-1]["stray"]
    until(wire, "ended")
    stopped(wire, number)
