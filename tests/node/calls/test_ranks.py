"""Are the processes of a job started as asked, heard under their own names, and ended in time?"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from tests.node.agent.test_lock import as_user, needs_root
from tests.node.wire import Wire, is_gone, is_seen, job, opened, sleeper

RECORDER = """
import json, os, socket, sys
wire = socket.socket(socket.AF_UNIX)
wire.connect("\\0" + os.environ["PREFLIGHT_RECORDS"])
def say(**record):
    wire.sendall(json.dumps(record).encode() + b"\\n")
"""


@pytest.fixture(scope="module")
def wire():
    """One keeper for all jobs of this file; each is a call of its own."""
    with opened(deadline_seconds=100.0, lease_seconds=100.0) as made:
        yield made


@pytest.fixture(scope="module")
def run(wire: Wire):
    """A job -> its events and the message that ends it; no two calls of a keeper have one number."""
    numbers = iter(range(1, 900))

    def run_job(arguments, blob=b""):
        number = next(numbers)
        wire.call(number, "ranks", arguments, blob=blob)
        return wire.outcome(number)

    return run_job


def one(argv: list[str], **environment: str) -> dict:
    return {**job(), "processes": [{"name": "p0", "argv": argv, "environment": environment}]}


def test_every_process_tells_its_end_and_its_output(run):
    """Exit codes, signals and the last words of both streams come with the names."""
    events, ending = run(
        job("print('out'); import sys; sys.exit(3)", "import os; os.kill(os.getpid(), 9)", "import no_such_module")
    )
    told = {event["name"]: event for event in events}
    assert [told[name]["exit"] for name in ("p0", "p1", "p2")] == ["3", "-9", "1"]
    assert told["p0"]["log"] == "out\n"
    assert told["p2"]["log"].rstrip().endswith("No module named 'no_such_module'")
    assert ending["result"] == {"started": 3}


def test_records_come_under_the_name_that_the_connection_gave(run):
    """The first line says who speaks; a later line that says otherwise is not believed."""
    events, _ = run(job(RECORDER + "say(rank=4)\nsay(record='stage', stage='import')\nsay(record='done', rank=0)\n"))
    assert [event["record"] for event in events if "record" in event] == [
        {"record": "stage", "stage": "import", "rank": 4},
        {"record": "done", "rank": 4},
    ]


def test_records_sent_just_before_the_end_are_not_lost(run):
    """A rank that leaves at once by os._exit has still said that it is done, before its exit is told."""
    events, _ = run(job(RECORDER + "say(rank=0)\nfor n in range(2000): say(record='r', n=n)\nos._exit(0)\n"))
    assert [event["record"]["n"] for event in events[:-1]] == list(range(2000))
    assert events[-1]["exit"] == "0"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("b'no json\\n'", "not JSON"),
        ('b\'{"rank": 0}\\n{"figure": NaN}\\n\'', "NaN is not a number"),
        ('b\'{"record": "who?"}\\n\'', "KeyError"),
        ("b'{\"rank\": 0}\\n' + b'x' * (5 << 20)", "more than 4194304 bytes"),
    ],
)
def test_a_record_that_is_none_is_an_error_of_the_job(run, line, words):
    """A rank that does not keep the protocol is told as that, and its processes are ended."""
    _, ending = run(job(RECORDER + f"wire.sendall({line})\nimport time; time.sleep(30)\n"))
    assert words in ending["error"]


def test_the_environment_is_the_nodes_then_the_layers_then_the_processs_own(run):
    """Later layers win, dropped names are not inherited, and a dropped name may be set by a layer."""
    program = "import os; print(*[os.environ.get(n, '-') for n in ('A', 'B', 'C', 'PATH', 'HOME', 'LANG')])"
    arguments = one(["{python}", "-c", program], C="own")
    arguments["environment"] = [["file", {"A": "file", "B": "file", "C": "file"}], ["--env", {"B": "env", "LANG": "x"}]]
    arguments["drop"] = ["HOME", "LA*"]
    events, _ = run(arguments)
    assert events[0]["log"].split() == ["file", "env", "own", os.environ["PATH"], "-", "x"]


def test_nothing_is_written_beside_the_program(run):
    """No bytecode, no buffering, no descriptor of the keeper but the three of every process."""
    program = "import os, sys; print(sys.dont_write_bytecode, sorted(map(int, os.listdir('/proc/self/fd')))[:3])"
    events, _ = run(job(program + "; print(os.getcwd(), os.getsid(0) == os.getpid(), sys.stdin.read() == '')"))
    assert events[0]["log"] == "True [0, 1, 2]\n/ True True\n"


def test_the_program_that_came_with_the_call_runs_from_memory(run):
    """``{script}`` stands for it, as often as processes want to open it, and ``{python}`` for the interpreter."""
    arguments = one(["{python}", "{script}", "word"])
    arguments["processes"] *= 2
    arguments["processes"][1] = {**arguments["processes"][1], "name": "p1"}
    events, _ = run(arguments, blob=b"import sys; print(sys.executable, sys.argv[1], __file__.startswith('/proc/'))")
    assert [event["log"] for event in events] == [f"{sys.executable} word True\n"] * 2


def test_a_file_of_a_process_is_in_memory_under_its_own_name(run):
    """``{file:NAME}`` is a path that any process of the job may open, within a word too."""
    arguments = one(["{python}", "-c", "import sys; print(open(sys.argv[1][9:]).read())", "--config={file:a.yaml}"])
    arguments["processes"][0]["files"] = {"a.yaml": "rank: 1"}
    events, _ = run(arguments)
    assert events[0]["log"] == "rank: 1\n"


def test_a_program_that_is_not_there_is_an_error_of_the_job(run):
    """The message names what could not be started."""
    _, ending = run(one(["/nowhere/torchrun"]))
    assert "/nowhere/torchrun" in ending["error"]


def test_the_end_of_a_long_output_is_kept(run):
    """The last 64 KiB are what a person needs; a flood costs no memory and no time."""
    events, _ = run(job("print('x' * (3 << 20)); print('last words')"))
    assert len(events[0]["log"]) == 64 << 10
    assert events[0]["log"].endswith("last words\n")


def test_output_that_is_no_text_is_shown_as_such(run):
    """Any bytes make a message."""
    events, _ = run(job("import sys; sys.stdout.buffer.write(b'\\xff\\x00ok')"))
    assert events[0]["log"] == "\ufffd\x00ok"


def test_a_daemon_that_keeps_the_output_open_does_not_hold_up_the_end(run, request):
    """The exit of the process counts, not the end of its pipe; the daemon ends with the job."""
    tag = f"{request.node.name}-{os.getpid()}"
    events, ending = run(job(f"import os\nif os.fork() == 0:\n    os.setsid(); {sleeper(tag)}\nprint('parent')\n"))
    assert is_gone(tag, seconds=0.5)
    assert (events[0]["exit"], events[0]["log"]) == ("0", "parent\n")
    assert ending["result"] == {"started": 1}


def test_a_job_past_its_time_is_ended(run, request):
    """What ignores TERM is killed; each process left is told as such, with what it printed."""
    tag = f"{request.node.name}-{os.getpid()}"
    events, ending = run(job("print('said', flush=True); " + sleeper(tag), "print('quick')", seconds=1.0))
    assert {event["name"]: (event["exit"], event["log"]) for event in events} == {
        "p0": ("time limit", "said\n"),
        "p1": ("0", "quick\n"),
    }
    assert ending["result"] == {"started": 2}
    assert is_gone(tag, seconds=2)


def test_a_job_is_stopped_on_request(wire, request):
    """The controller's word ends the processes, and what they had said by then is kept."""
    tag = f"{request.node.name}-{os.getpid()}"
    program = RECORDER + f"say(rank=0)\nsay(record='stage', stage='start')\n{sleeper(tag)}"
    wire.call(999, "ranks", job(program))
    assert is_seen(tag)
    assert wire.next("event")["event"]["record"] == {"record": "stage", "stage": "start", "rank": 0}
    wire.send({"to": 999, "send": {"stop": True}})
    events, _ = wire.outcome(999)
    assert events[-1]["exit"] == "stopped"
    assert is_gone(tag, seconds=2)


def test_a_rank_that_another_node_starts_finds_its_variables_and_is_ended(wire, request):
    """From a file of a known path, outside of our own processes; the word to stop reaches what it has started."""
    tag = f"{request.node.name}-{os.getpid()}"
    text = "#!/bin/sh\n{exports}exec {python} {script}\n"
    guest = {"name": "node1", "argv": [], "environment": {"OWN": "a b"}, "shared": {"rank.sh": text}}
    deaf = "import signal; signal.signal(15, signal.SIG_IGN)\n"  # before it speaks: what it says ends the job
    program = f"{RECORDER}{deaf}say(rank=0)\nsay(own=os.environ['OWN'])\n{sleeper(tag)}"
    wire.call(998, "ranks", {**job(scratch=True), "processes": [guest]}, blob=program.encode())
    path = f"/dev/shm/preflight-{wire.run_id}/rank.sh"
    end = time.monotonic() + 5
    while not os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.02)
    time.sleep(0.1)
    stranger = subprocess.Popen(["sh", path], start_new_session=True)
    try:
        assert wire.next("event")["event"]["record"] == {"own": "a b", "rank": 0}
        wire.send({"to": 998, "send": {"stop": True}})
        wire.outcome(998)
        assert stranger.wait(timeout=3) == -signal.SIGKILL
    finally:
        stranger.kill()
        stranger.wait()


def test_what_serves_a_job_ends_with_the_last_process_that_does_not(run, request):
    """A daemon of the job has no end of its own."""
    tag = f"{request.node.name}-{os.getpid()}"
    asked = job("print('work')", sleeper(tag))
    asked["processes"][1]["serves"] = True
    events, _ = run(asked)
    assert {event["name"]: event["exit"] for event in events} == {"p0": "0", "p1": "stopped"}
    assert is_gone(tag, seconds=2)


@needs_root
def test_another_user_speaks_for_no_rank(wire):
    """Its name can be read by anybody; the kernel says who connects, and others are hung up on."""
    program = RECORDER + "say(rank=0)\nsay(address=os.environ['PREFLIGHT_RECORDS'])\nimport time; time.sleep(20)"
    wire.call(997, "ranks", job(program))
    address = wire.next("event")["event"]["record"]["address"]

    def forge() -> None:
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.settimeout(5)
            stranger.connect("\0" + address)
            with contextlib.suppress(OSError):
                stranger.sendall(b'{"rank": 0}\n{"record": "done"}\nno json\n' + b"x" * (5 << 20))
            with contextlib.suppress(ConnectionError):
                assert stranger.recv(1) == b""

    assert as_user(4242, forge) == 0
    wire.send({"to": 997, "send": {"stop": True}})
    events, ending = wire.outcome(997)
    assert [event for event in events if "record" in event] == []
    assert ending["result"] == {"started": 1}


def test_ranks_are_let_go_when_the_controller_says_so(wire):
    """One that waits already, and one that connects only afterwards."""
    waits = RECORDER + "say(rank=0)\nsay(record='r', heard=wire.recv(9).decode())\n"
    late = "import time; time.sleep(0.6)\n" + RECORDER + "say(rank=1)\nsay(record='r', heard=wire.recv(9).decode())\n"
    wire.call(950, "ranks", job(waits, late))
    wire.send({"to": 950, "send": {"go": True}})
    events, _ = wire.outcome(950)
    heard = {event["record"]["rank"]: event["record"]["heard"] for event in events if "record" in event}
    assert {rank: text[:3] for rank, text in heard.items()} == {0: "go\n", 1: "go\n"}


@pytest.mark.parametrize(("code", "kept"), [(1, ["nccl"]), (0, [])])
def test_what_nccl_wrote_is_kept_where_a_rank_failed(run, code, kept):
    """However the rank ended; of a good job nothing is sent, and nothing stays."""
    text = f"import os; open(os.environ['TMPDIR'] + '/preflight-nccl-rank2', 'w').write('NCCL'); os._exit({code})"
    events, _ = run(job(text, scratch=True, keep_bytes=1000))
    assert [event["file"] for event in events if "file" in event] == kept
    assert [event["text"] for event in events if "file" in event] == ["NCCL" for _ in kept]
