"""Sessions: one connection, calls on it, and nothing left when either end dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from preflight.reach.hosts import parse_hosts
from preflight.reach.session import payload, replies
from preflight.reach.session.fleet import Fleet
from preflight.reach.transport import Reach
from preflight.said.errors import BadReply, HostError, Unreachable

ROOT = Path(__file__).parents[3]
LOCAL = parse_hosts("local")


def fleet(run_id: str = "test", *, reach: Reach | None = None, seconds: float = 30.0) -> Fleet:
    return Fleet(LOCAL, reach or Reach(), run_id=run_id, deadline=time.monotonic() + seconds)


@pytest.fixture
def opened():
    made = fleet()
    made.run(made.open(), seconds=20)
    assert made.failures == {}
    yield made
    made.close()


async def ask(session, name, arguments, *, seconds=10.0, blob=b""):
    call = await session.start(name, arguments, seconds=seconds, blob=blob)
    events = [event async for event in call.events()]
    return events, call.result


def job(*programs: str) -> dict:
    processes = [
        {"name": f"p{i}", "argv": ["{python}", "-c", text], "environment": {}} for i, text in enumerate(programs)
    ]
    return {"processes": processes, "environment": [], "drop": ["SECRET*"], "seconds": 20}


def tagged(tag: str) -> list[int]:
    """Living processes with the tag in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if tag.encode() in (entry / "cmdline").read_bytes() and int(entry.name) != os.getpid():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def wait_until(condition, *, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return bool(condition())


def test_the_clock_is_looked_at_anew(opened):
    """What was known of it before does not count."""
    session = opened.sessions["local"]
    session.clock = (99.0, 0.0)
    offset, unsure = opened.run(session.look_at_clock(), seconds=15)
    assert abs(offset) <= unsure < 15


def test_a_call_gives_its_events_and_its_result(opened):
    """A job's output and exit reach the controller as events, then the result."""
    events, result = opened.run(ask(opened.sessions["local"], "ranks", job("print('hello')")), seconds=15)

    assert events == [{"exit": "0", "name": "p0", "log": "hello\n"}]
    assert result == {"started": 1}


def test_a_call_that_raises_is_an_error_of_that_call_alone(opened):
    """The session survives a call that fails, and serves the next."""
    session = opened.sessions["local"]

    with pytest.raises(HostError, match="KeyError"):
        opened.run(ask(session, "nonsense", {}), seconds=15)
    assert opened.run(ask(session, "free_port", {"address": "127.0.0.1"}), seconds=15)[1]["port"] > 0


def test_a_job_past_its_limit_is_ended_on_the_node(opened):
    """A job that outlives its seconds is told as such, and its processes are gone."""
    tag = f"hang-{os.getpid()}"
    session = opened.sessions["local"]
    arguments = {**job(f"import time; time.sleep(99)  # {tag}"), "seconds": 1.0}

    events, _ = opened.run(ask(session, "ranks", arguments), seconds=15)

    assert events[-1]["exit"] == "time limit"
    assert wait_until(lambda: not tagged(tag), seconds=8)


def test_a_call_that_never_answers_is_timed_out(opened):
    """A call without an answer within its seconds is TimedOut, and the session goes on."""
    session = opened.sessions["local"]
    arguments = {
        "name": "a",
        "address": "127.0.0.1",
        "key": "00",
        "bytes": 1,
        "connect_seconds": 1,
        "total_seconds": 60,
    }

    with pytest.raises(HostError):
        opened.run(ask(session, "mesh", arguments, seconds=0.5), seconds=15)
    assert opened.run(ask(session, "free_port", {"address": "127.0.0.1"}), seconds=15)[1]["port"] > 0


def test_dropped_variables_do_not_reach_the_job(monkeypatch):
    """Names and prefixes to drop are not inherited; layers are."""
    monkeypatch.setenv("SECRET_ONE", "1")
    made = fleet()
    made.run(made.open(), seconds=20)
    try:
        arguments = job("import os; print(os.environ.get('SECRET_ONE'), os.environ['LAYER'])")
        arguments["environment"] = [["--env", {"LAYER": "laid"}]]
        events, _ = made.run(ask(made.sessions["local"], "ranks", arguments), seconds=15)
    finally:
        made.close()

    assert events[0]["log"] == "None laid\n"


def test_a_second_run_on_a_node_is_told_who_is_busy(opened):
    """The lock names the run that holds the node, and the second run ends with 3."""
    second = subprocess.run(
        [sys.executable, "-m", "preflight", "facts"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )

    assert second.returncode == 3
    assert "busy: run test" in second.stderr


def test_closing_leaves_no_process(opened):
    """The keeper confirms its end and takes a double-forked daemon with it."""
    tag = f"daemon-{os.getpid()}"
    daemon = f"import os,time\nif os.fork()==0:\n os.setsid()\n if os.fork()==0: time.sleep(99) # {tag}\n"
    session = opened.sessions["local"]
    opened.run(session.start("ranks", job(daemon + "time.sleep(50)"), seconds=20), seconds=5)
    assert wait_until(lambda: len(tagged(tag)) >= 2, seconds=5)

    opened.close()

    assert session.ended
    assert session.residue == []
    assert tagged(tag) == []


def test_a_lost_controller_leaves_nothing(tmp_path):
    """SIGKILL of the controller ends keeper and job within the lease, without a word from anybody."""
    tag = f"lost-{os.getpid()}"
    program = f"""
import sys, time
sys.path.insert(0, {str(ROOT)!r})
from tests.reach.session.test_connection import fleet, job
made = fleet()
made.run(made.open(), seconds=20)
made.run(made.sessions["local"].start("ranks", job("import time,signal; signal.signal(15, 1); time.sleep(99) # {tag}"),
                                      seconds=20), seconds=5)
print("up", flush=True)
time.sleep(60)
"""
    controller = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=tmp_path)
    assert controller.stdout is not None
    assert controller.stdout.readline() == b"up\n"
    assert wait_until(lambda: tagged(tag), seconds=5)

    controller.send_signal(signal.SIGKILL)
    controller.wait()
    controller.stdout.close()

    assert wait_until(lambda: not tagged(tag), seconds=8)


def test_a_killed_keeper_takes_its_job_with_it(opened):
    """The job's processes die with the keeper even when it can do nothing for them."""
    tag = f"keeperless-{os.getpid()}"
    session = opened.sessions["local"]
    opened.run(session.start("ranks", job(f"import time; time.sleep(99) # {tag}"), seconds=20), seconds=5)
    assert wait_until(lambda: tagged(tag), seconds=5)

    os.kill(session.hello.pid, signal.SIGKILL)

    assert wait_until(lambda: not tagged(tag), seconds=5)


def opening_error(*wrap: str, connect_seconds: int = 10) -> HostError:
    made = fleet(reach=Reach(wrap=wrap, connect_seconds=connect_seconds))
    made.run(made.open(), seconds=40)
    made.close()
    return made.failures["local"]


def test_no_python_is_said_with_what_to_do():
    """An interpreter that is not there is named in one line."""
    made = fleet(reach=Reach(python="/nowhere/python3"))
    made.run(made.open(), seconds=20)
    made.close()

    assert isinstance(made.failures["local"], Unreachable)
    assert "/nowhere/python3" in str(made.failures["local"])


def test_a_program_that_is_no_python_is_a_bad_reply_not_a_hang(tmp_path):
    """A shell that prints for ever is cut off at the cap."""
    flood = tmp_path / "flood"
    flood.write_text("#!/bin/sh\nexec yes\n")
    flood.chmod(0o755)

    assert isinstance(opening_error(str(flood)), BadReply)


def test_noise_before_the_frames_is_kept_and_not_parsed(tmp_path):
    """A banner, even one that looks like JSON, changes nothing."""
    noisy = tmp_path / "noisy"
    noisy.write_text('#!/bin/sh\necho "{\\"hello\\": 1} welcome"\nexec "$@"\n')
    noisy.chmod(0o755)
    made = fleet(reach=Reach(wrap=(str(noisy),)))
    made.run(made.open(), seconds=20)
    session = made.sessions["local"]
    made.close()

    assert made.failures == {}
    assert b"welcome" in session.decoder.noise


def test_an_old_python_is_named_with_its_version(tmp_path):
    """A Python below 3.9 ends in one line that says which it is."""
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\necho '3.6.8 (default)'\nexit 97\n")
    old.chmod(0o755)

    assert "Python 3.6.8 is too old; wanted 3.9" in str(opening_error(str(old)))


def test_a_stranger_by_the_same_name_is_never_loaded():
    """What is sent wins over a preflight that the node has installed."""
    sources = payload.node_sources()

    assert "preflight.node.agent.keeper" in sources
    assert sources["preflight"] == ""


@pytest.mark.parametrize("names", [("psutil",), ("netifaces",), ("psutil", "netifaces")])
def test_missing_modules_are_sent_and_load_from_memory(names):
    """psutil and netifaces of the controller import on a node that has neither, without a file."""
    hello = replies.Greeting(
        python="3.9.0",
        magic="",
        suffix=".cpython-{}{}-x86_64-linux-gnu.so".format(*sys.version_info[:2]),
        machine=os.uname().machine,
        lacks=names,
        reached=(),
        pid=2,
    )
    modules = payload.missing_modules(hello)
    entries = [
        (e["name"], e["kind"], e["package"], modules.blob[e["start"] : e["end"]].hex()) for e in modules.contents
    ]
    program = (
        (ROOT / "preflight/node/agent/bootstrap.py").read_text()
        + "\nimport json\nfinder = MemoryFinder({}, set(), {})\n"
        + "for name, kind, package, data in json.loads(sys.stdin.read()):\n"
        + "    data = bytes.fromhex(data)\n"
        + "    if kind == 'extension': finder.extensions[name] = data\n"
        + "    else: finder.sources[name] = data.decode()\n"
        + "    if package: finder.packages.add(name)\n"
        + "sys.meta_path.insert(0, finder)\n"
        + "".join(f"import {name}; print({name}.__spec__.origin)\n" for name in names)
    )
    # -S: no site-packages, so nothing but the memory can answer.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        input=json.dumps(entries),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == len(names)


def test_another_machine_gets_no_binaries():
    """A node of another architecture is sent nothing it could not load."""
    hello = replies.Greeting("3.9.0", magic="", suffix=".so", machine="riscv64", lacks=("psutil",), reached=(), pid=2)

    assert payload.missing_modules(hello).contents == ()
