"""Can a program that we started outlive us?"""

from __future__ import annotations

import _ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from preflight.node.agent import children

ROOT = Path(__file__).parents[3]
PRELUDE = "import os, signal, sys, time\nfrom preflight.node.agent import children\n"


def started(program: str) -> subprocess.Popen[str]:
    """A process of its own that runs our code; what it must not do to the test's process."""
    argv = [sys.executable, "-c", PRELUDE + program]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment)


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that only waits to be buried does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def ended(pid: int, *, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not is_alive(pid)


def test_a_child_dies_with_us_however_we_die():
    """SIGKILL of the parent leaves nobody to clean up, and nothing to be cleaned."""
    parent = started("print(children.start(['sleep', '60'], seconds=60).pid, flush=True)\ntime.sleep(60)\n")
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert is_alive(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert ended(pid, seconds=3)


def test_a_child_ends_by_its_own_alarm():
    """Even a child that nobody watches has a deadline: five seconds after the time it was given, at least one."""
    parent = started("child = children.start(['sleep', '60'], seconds=-100)\nprint(child.wait(), flush=True)\n")
    output, _ = parent.communicate(timeout=10)
    assert int(output) == -signal.SIGALRM


def test_a_child_reads_nothing_of_ours():
    """A program that asks for input must not take the controller's messages."""
    parent = started("sys.exit(children.start(['cat'], seconds=5).wait())\n")
    assert parent.communicate(timeout=10)[0] == ""
    assert parent.returncode == 0


def test_descriptors_of_ours_are_not_inherited():
    """A rank that kept our pipes open would keep the connection alive."""
    parent = started(
        "r, w = os.pipe()\nos.set_inheritable(w, True)\n"
        "child = children.start([sys.executable, '-c', f'import os; os.fstat({w})'], seconds=5, stderr=-3)\n"
        "print(child.wait(), flush=True)\n"
    )
    assert parent.communicate(timeout=10)[0] == "1\n"


def test_a_daemon_is_still_our_descendant():
    """Two forks and a session of its own do not hide a process from who adopts orphans."""
    parent = started(
        "children.adopt_orphans()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        time.sleep(60)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "(pid,) = children.descendants(os.getpid())\n"
        "children.kill_all([pid], signal.SIGKILL)\n"
        "print(os.waitpid(pid, 0)[1], children.descendants(os.getpid()), flush=True)\n"
    )
    assert parent.communicate(timeout=10)[0] == f"{int(signal.SIGKILL)} []\n"


def test_descendants_are_told_in_every_generation():
    """Children come before grandchildren; the dead and the process itself are not among them."""
    parent = started(
        "gone = children.start(['true'], seconds=5)\n"
        "inner = children.start(['sh', '-c', 'sleep 60 & echo $!; wait'], seconds=60, stdout=-1)\n"
        "grandchild = int(inner.stdout.readline())\n"
        "time.sleep(0.1)\n"
        "assert children.descendants(os.getpid()) == [inner.pid, grandchild], children.descendants(os.getpid())\n"
        "children.kill_all([inner.pid, grandchild], signal.SIGKILL)\n"
    )
    parent.communicate(timeout=10)
    assert parent.returncode == 0


def test_killing_the_dead_is_no_error():
    """Between looking and signalling a process may end by itself."""
    child = subprocess.Popen(["true"])
    child.wait()
    children.kill_all([child.pid], signal.SIGTERM)


def test_processes_are_found_by_what_they_were_started_with():
    """A NAME=VALUE of their environment, whoever their parent is; those left out are not among them."""
    name, value = "PREFLIGHT_TEST_MARK", str(os.getpid())
    child = subprocess.Popen(["sleep", "20"], env={**os.environ, name: value})
    try:
        assert children.holding(f"{name}={value}", but=set()) == [child.pid]
        assert children.holding(f"{name}={value}", but={child.pid}) == []
        assert children.holding(f"{name}={value}0", but=set()) == []
    finally:
        child.kill()
        child.wait()


def test_a_program_starts_while_another_thread_waits_for_a_resolver(monkeypatch):
    """Between fork and exec nothing is looked up: the lock for that may be held by a thread that the child lacks."""
    looked_up, dlopen = [], _ctypes.dlopen
    monkeypatch.setattr(_ctypes, "dlopen", lambda *words: looked_up.append(os.getpid()) or dlopen(*words))
    kept = os.pipe()
    monkeypatch.setattr(children.signal, "alarm", lambda _: os.write(kept[1], b"%d" % len(looked_up)))
    process = children.start(["true"], seconds=5)
    assert process.wait(5) == 0
    assert (os.read(kept[0], 10), len(looked_up)) == (b"1", 1)
    for descriptor in kept:
        os.close(descriptor)
