"""Is each lab host a machine of its own, and is nothing left of it?"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab.fixtures import needs_lab
from tests.lab.lab import Lab
from tests.lab.spaces import LabError, Space

REPOSITORY = Path(__file__).parents[2]
BOOT_ID = "/proc/sys/kernel/random/boot_id"
HOLD_A_LAB = """
import json, signal
from tests.lab.lab import Lab
lab = Lab.create(1)
print(json.dumps(lab.state()), flush=True)
signal.pause()
"""
LEAVE_RESIDUE = """
import os, signal, socket
sockets = [socket.socket(socket.AF_UNIX), socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)]
sockets[0].bind("\\0left-behind")
sockets[1].bind(("127.0.0.1", 7001))
sockets[2].bind(("127.0.0.1", 7002))
for listener in sockets[:2]:
    listener.listen()
os.makedirs("/dev/shm/left/behind")
os.chdir("/")
if os.fork():
    os._exit(0)
os.setsid()
nothing = os.open(os.devnull, os.O_RDWR)
for standard in range(3):
    os.dup2(nothing, standard)
signal.pause()
"""


def iperf3_ratio(lab, sender, receiver, rate_bits_per_s):
    """One TCP stream over the rate of the link; the best of three, because a busy machine only makes it slower.

    A run that iperf3 itself gave up is no measurement and is tried again, six times in all.
    """
    address = lab[receiver].address
    best, measured = 0.0, 0
    for _ in range(6):
        lab[receiver].check(["iperf3", "--server", "--one-off", "--daemon", "--bind", address])
        report = lab[sender].run(["iperf3", "--client", address, "--time", "2", "--omit", "1", "--json"])
        received = json.loads(report.stdout)["end"].get("sum_received")
        if received is None:
            continue
        best = max(best, received["bits_per_second"] / rate_bits_per_s)
        measured += 1
        if best >= 0.94 or measured == 3:
            break
    return best


@pytest.mark.parametrize("name", ["node1", "node2", "node3"])
def test_ssh_works_without_an_option(lab3, name):
    """Plain `ssh NAME` leads from the controller to that host, where its own name is its hostname."""
    done = lab3.run(["ssh", name, "hostname"])

    assert (done.returncode, done.stdout, done.stderr) == (0, f"{name}\n", "")


def test_hosts_reach_each_other_over_ssh(lab3):
    """From a host, ssh leads to another one and to itself."""
    done = lab3.run(["ssh", "node1", "ssh node2 hostname && ssh node1 hostname"])

    assert (done.stdout, done.stderr) == ("node2\nnode1\n", "")


def test_the_controller_keeps_folder_and_environment(lab3, tmp_path):
    """A command in the controller sees the caller's folder, files and variables, and the hosts' names."""
    (tmp_path / "file").write_text("seen")
    program = ["sh", "-c", 'echo "$WORD"; hostname; pwd; cat file; getent hosts node3; ls /sys/class/net']

    done = lab3.run(program, cwd=tmp_path, env={"WORD": "hello"})

    lines = done.stdout.splitlines()
    assert lines[:3] == ["hello", "controller", str(tmp_path)]
    assert lines[3].split() == ["seen10.77.0.3", "node3"]
    assert lines[4:] == ["eth0", "lo"]


def test_a_host_has_names_and_ids_of_its_own(lab3):
    """Own name to own address, no name server, and another boot id than the machine and the other hosts."""
    ids = {host.check(["cat", BOOT_ID]) for host in lab3.hosts}
    resolved = [host.check(["getent", "ahostsv4", host.name]).split()[0] for host in lab3.hosts]

    assert len(ids | {Path(BOOT_ID).read_text()}) == 4
    assert resolved == [host.address for host in lab3.hosts]
    assert lab3["node1"].check(["cat", "/etc/resolv.conf"]) == ""


def test_a_host_has_interfaces_processes_and_directories_of_its_own(lab3):
    """Its sysfs shows its interfaces, its /proc its processes; what it writes is its own, and the disk is read-only."""
    node = lab3["node1"]
    for directory in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/root"):
        node.check(["touch", f"{directory}/only-on-node1"])

    assert node.check(["ls", "/sys/class/net"]).split() == ["eth0", "lo"]
    assert "hold" in node.check(["cat", "/proc/1/cmdline"])
    assert node.check(["ls", "/sys/fs/cgroup"]).split() == sorted(os.listdir("/sys/fs/cgroup"))
    assert "only-on-node1" not in lab3["node2"].check(["ls", "/tmp", "/var/tmp", "/dev/shm", "/run", "/root"])
    assert not os.path.exists("/run/only-on-node1")
    assert "Read-only" in node.run(["touch", "/usr/only-on-node1"]).stderr


def test_the_python_of_the_tests_runs_on_a_host(lab3):
    """sys.executable starts there, wherever it is installed, and finds its packages."""
    found = lab3["node1"].check([sys.executable, "-c", "import pytest; print(pytest.__version__)"])

    assert found.strip() == pytest.__version__


def test_hosts_share_one_directory(lab3):
    """What one host writes into lab.shared every host reads at the same path."""
    lab3["node1"].check(["sh", "-c", f"echo word > {lab3.shared}/file"])

    assert lab3["node2"].check(["cat", f"{lab3.shared}/file"]) == "word\n"


def test_a_command_that_takes_too_long_is_killed(lab3):
    """On a host the exit code is 124; in the controller TimeoutExpired is raised; neither leaves a process."""
    before = lab3.residue()

    assert lab3["node1"].run(["sleep", "600"], timeout_s=0.3).returncode == 124
    with pytest.raises(subprocess.TimeoutExpired):
        lab3.run(["sh", "-c", "sleep 601 & sleep 602"], timeout_s=0.3)
    assert lab3.left_since(before, patience_s=2) == {}
    assert "sleep" not in str([Path(f"/proc/{pid}/cmdline").read_text() for pid in lab3.controller.members()])


@pytest.mark.exclusive
def test_a_shaped_link_gives_what_its_rate_allows(lab3):
    """One TCP stream reads 0.94 to 0.97 of a 1 Gbit link: headers take the rest."""
    assert 0.94 <= iperf3_ratio(lab3, "node1", "node2", 1e9) <= 0.97


@pytest.mark.exclusive
def test_each_direction_is_shaped_on_its_own(make_lab):
    """A host whose egress is limited on a running lab sends slowly and still receives at full rate."""
    lab = make_lab(hosts=2)
    lab["node2"].shape(egress="200mbit", ingress="1gbit")

    assert 0.94 <= iperf3_ratio(lab, "node2", "node1", 200e6) <= 0.97
    assert 0.94 <= iperf3_ratio(lab, "node1", "node2", 1e9) <= 0.97
    lab["node2"].shape(egress=None, ingress=None)
    assert "tbf" not in lab["node2"].check(["tc", "qdisc", "show", "dev", "eth0"])


def test_residue_names_what_was_left(lab3):
    """Processes, TCP, UDP and abstract sockets and files are seen, and nothing once they are gone."""
    before = lab3.residue()
    node = lab3["node2"]
    node.check([sys.executable, "-I", "-S", "-c", LEAVE_RESIDUE])

    left = lab3.left_since(before, patience_s=0)

    assert list(left) == ["node2"]
    assert [re.sub(r"process \d+: .*", "process", line) for line in left["node2"]] == [
        "file /dev/shm/left",
        "file /dev/shm/left/behind",
        "listening on tcp 0100007F:7001",
        "listening on udp 0100007F:7002",
        "listening on unix @left-behind",
        "process",
    ]
    pid = next(int(line.split()[1][:-1]) for line in left["node2"] if line.startswith("process"))
    node.signal(pid, signal.SIGKILL)
    node.check(["rm", "-r", "/dev/shm/left"])
    assert lab3.left_since(before, patience_s=2) == {}


def test_nothing_is_left_of_a_lab(make_lab):
    """After destroy there is no process, namespace or directory of it, and a second destroy does nothing."""
    lab = make_lab(hosts=2)
    child = lab.start(["sh", "-c", "echo ready; setsid sleep 600 & exec sleep 600"], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    namespaces = {os.readlink(f"/proc/{space.pid}/ns/net") for space in lab.spaces}
    assert child.pid in lab.controller.members()

    lab.destroy()
    lab.destroy()

    in_use = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            in_use.add(os.readlink(f"/proc/{name}/ns/net"))
            assert lab.tag not in Path(f"/proc/{name}/cmdline").read_text()
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue
    assert not namespaces & in_use
    assert not lab.directory.exists()
    assert not Path("/root/.ssh").exists() or lab.tag not in str(list(Path("/root/.ssh").iterdir()))


def test_a_lab_ends_with_the_process_that_made_it(lab_is_possible):
    """SIGKILL of the tests ends all hosts: no holder outlives its lifeline."""
    maker = subprocess.Popen([sys.executable, "-c", HOLD_A_LAB], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    with maker:
        state = json.loads(maker.stdout.readline())
        maker.kill()
    lab = Lab.attach(state)
    deadline = time.monotonic() + 5
    while any(space.is_alive for space in lab.spaces) and time.monotonic() < deadline:
        time.sleep(0.02)

    alive = [space.name for space in lab.spaces if space.is_alive]

    lab.destroy()
    assert alive == []


def test_a_pid_that_now_belongs_to_another_process_is_left_alone():
    """Teardown kills nothing whose start time is not the recorded one."""
    with subprocess.Popen(["sleep", "600"]) as other:
        space = Space("node1", other.pid, started_ticks=1, own_pids=True)

        space.kill()

        assert not space.is_alive
        assert other.poll() is None
        other.kill()


def test_a_lab_that_cannot_be_made_leaves_nothing(lab_is_possible):
    """A wrong rate is a LabError, and no namespace stays."""
    with pytest.raises(LabError, match="rate 'fast'"):
        Lab.create(1, rate="fast")


def test_a_required_lab_fails_instead_of_skipping(monkeypatch):
    """PREFLIGHT_LAB=required turns the reason to skip into a failure."""
    monkeypatch.setenv("PREFLIGHT_LAB", "required")
    needs_lab("")
    with pytest.raises(pytest.fail.Exception, match="needs root"):
        needs_lab("the lab needs root")
    monkeypatch.delenv("PREFLIGHT_LAB")
    with pytest.raises(pytest.skip.Exception, match="needs root"):
        needs_lab("the lab needs root")
