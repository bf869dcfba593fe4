"""Do the first fifteen lines of a run name node and cause, and does the line that is pasted from them mend it?

Planted are ten faults that people meet most; after the pasted line the same run is green.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab import faults
from tests.lab.host import LabHost
from tests.lab.lab import Lab
from tests.lab.network import ip

LINES = 15
HOSTS, PYTHON = "--hosts=node[1-3]", f"--python={sys.executable}"
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
PASTED = re.compile(r"^ {9}((?:ssh|preflight|export) .*)$")


def wrong_peer(lab: Lab) -> AbstractContextManager[object]:
    """A line of node3's hosts file gives node1 the address of node2."""
    lines = "".join(f"{lab[name].address} {name}\n" for name in ("node2", "node3"))
    return held_file(lab["node3"], "/etc/hosts", f"127.0.0.1 localhost\n{lab['node2'].address} node1\n{lines}")


def wrong_value(lab: Lab) -> AbstractContextManager[object]:
    """A line of node3's nccl.conf that NCCL reads as 0."""
    return held_file(lab["node3"], "/etc/nccl.conf", "NCCL_IB_DISABLE=true\n")


def held_file(host: LabHost, path: str, text: str) -> AbstractContextManager[object]:
    """A file of the host with another text, as long as the fault stands."""
    before = host.run(["cat", path]).stdout
    host.write_file(path, text)
    return faults.Planted(lambda: host.write_file(path, before))


def full_memory(lab: Lab) -> AbstractContextManager[object]:
    """An ended job left 255 of 256 MiB of node3's shared memory full."""
    lab["node3"].check(["sh", "-c", "mount -o remount,size=256m /dev/shm; head -c 255m /dev/zero >/dev/shm/left"])
    return faults.Planted(lambda: lab["node3"].check(["rm", "-f", "/dev/shm/left"]))


def stray_route(lab: Lab) -> AbstractContextManager[object]:
    """node3 sends what is for node1 out of another interface."""
    stack = ExitStack()
    stack.enter_context(faults.add_interface(lab["node3"], "astray", "10.78.0.3/24"))
    ip(lab["node3"].space, [f"route add {lab['node1'].address}/32 dev astray"])
    return stack


@dataclass(frozen=True)
class Fault:
    """How it is planted, the words of the run, what must be read of the cause, and on which node."""

    plant: Callable[[Lab], AbstractContextManager[object]]
    cause: str
    node: str = "node3"
    words: tuple[str, ...] = (HOSTS, PYTHON)


FAULTS = {
    "smaller MTU": Fault(lambda lab: faults.mtu(lab["node3"], 1400), "1400 on node3"),
    "high ports dropped": Fault(lambda lab: faults.drop_incoming_high_ports(lab["node3"]), "tcp dport >= 1024 drop"),
    "own name is loopback": Fault(lambda lab: faults.hostname_resolves_to(lab["node3"], "127.0.1.1"), "127.0.1.1"),
    "wrong address of a peer": Fault(wrong_peer, "node1 is 10.77.0.2"),
    "route to a peer astray": Fault(stray_route, "astray"),
    "no such Python": Fault(
        lambda lab: nullcontext(), "No such file", "all 3 nodes", (HOSTS, "--python=/opt/none/bin/python")
    ),
    "slip in a host's name": Fault(
        lambda lab: nullcontext(), "does not resolve", "nod3", ("--hosts=node[1-2],nod3", PYTHON)
    ),
    "no shared memory left": Fault(full_memory, "free in /dev/shm"),
    "interface that is not there": Fault(
        lambda lab: faults.environment(lab["node3"], GLOO_SOCKET_IFNAME="ib0"), "GLOO_SOCKET_IFNAME=ib0"
    ),
    "impossible value of a variable": Fault(wrong_value, "NCCL_IB_DISABLE"),
}


@dataclass(frozen=True)
class Screen:
    """What a run printed first, and how it ended."""

    lines: tuple[str, ...]
    code: int

    @property
    def text(self) -> str:
        """The lines as one, for what was wrapped."""
        return " ".join(" ".join(self.lines).split())

    @property
    def pasted(self) -> list[str]:
        """The lines that can be pasted as they stand."""
        return [found[1] for line in self.lines if (found := PASTED.match(line))]


def first_screen(lab: Lab, folder: Path, *words: str) -> Screen:
    """The first fifteen lines of `preflight run`, quickly: what needs bandwidth is planted elsewhere."""
    argv = [sys.executable, "-m", "preflight", "run", *words, "--profile=quick", f"--report-dir={folder}"]
    done = lab.run(argv, env={"COLUMNS": "100"}, timeout_s=100)
    assert done.stdout, done.stderr
    return Screen(tuple(done.stdout.split("\n")[:LINES]), done.returncode)


def paste(lab: Lab, host: LabHost, line: str) -> subprocess.CompletedProcess[str]:
    """Type a line where the run was started; one that exports is for the shell in which the node's job starts."""
    if not line.startswith("export "):
        return lab.run(["sh", "-c", line], env={"PATH": PATH}, timeout_s=100)
    name, _, value = shlex.split(line, comments=True)[1].partition("=")
    host.restart_sshd({**host.session_environment, name: value})
    return subprocess.CompletedProcess(line, 0, "", "")


def named(screen: Screen, fault: Fault) -> str:
    """What is shown, in which node and cause stand."""
    shown = "\n".join(screen.lines)
    assert fault.node in screen.text, shown
    assert fault.cause in screen.text, shown
    return shown


@pytest.mark.parametrize("name", FAULTS)
def test_the_first_lines_lead_to_the_cause_and_mend_it(lab3, tmp_path, name):
    """Verdict, node and cause, then a line that turns the same run green, or is that run in the right words."""
    fault = FAULTS[name]
    with fault.plant(lab3):
        before = first_screen(lab3, tmp_path / "before", *fault.words)
        shown = named(before, fault)
        assert re.search(r"^(NO-GO|NOT MEASURED|GO, WITH WARNINGS) ", shown, re.MULTILINE), shown
        assert before.pasted, shown
        done = [paste(lab3, lab3["node3"], line) for line in before.pasted]
        said = "\n".join(f"{one.args} -> {one.returncode}\n{one.stdout}{one.stderr}" for one in done)
        assert [one.returncode for one in done] == [0] * len(done), f"{shown}\n{said}"
        if any(line.startswith("preflight ") for line in before.pasted):
            return  # the line is the run in the right words, and was green
        after = first_screen(lab3, tmp_path / "after", *fault.words)
        assert (after.code, after.pasted) == (0, []), f"{shown}\n{said}\n" + "\n".join(after.lines)
        assert after.lines[1 + (not after.lines[1])].startswith("GO  "), "\n".join(after.lines)


MASTER = ("--env=MASTER_ADDR=node1", "--env=MASTER_PORT=29500")
FOR_A_PERSON = {
    "cable pulled": Fault(lambda lab: faults.link_down(lab["node3"]), "not reached: no "),
    "another torch": Fault(lambda lab: faults.torch_version(lab["node3"], "2.12.0"), "2.12.0 on node3"),
    "port held": Fault(
        lambda lab: faults.hold_port(lab["node1"], 29500), "held by python", "node1", (HOSTS, PYTHON, *MASTER)
    ),
}


@pytest.mark.parametrize("name", FOR_A_PERSON)
def test_what_no_line_mends_is_named_as_soon(lab3, tmp_path, name):
    """A cable, a package and a stranger's process are for a person; node, cause and what to do stand on top."""
    fault = FOR_A_PERSON[name]
    with fault.plant(lab3):
        screen = first_screen(lab3, tmp_path / "report", *fault.words)
    shown = named(screen, fault)
    assert screen.code in (1, 3)
    assert "Fix:" in shown, shown
