"""Does each fault bite on the host where it is planted, only there, and is it gone after undo?"""

import contextlib
import errno
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.rdma import RdmaDevice
from tests.lab.spaces import LabError

LISTEN = """
import os, socket, sys
listener = socket.socket()
listener.bind(("0.0.0.0", int(sys.argv[1])))
listener.listen()
if os.fork():
    os._exit(0)
os.setsid()
nothing = os.open(os.devnull, os.O_RDWR)
for standard in range(3):
    os.dup2(nothing, standard)
listener.settimeout(20)
listener.accept()
"""
CONNECT = "import socket,sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=1); print('open')"
RECEIVE = """
import socket
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(("", 31000))
receiver.settimeout(20)
print("ready", flush=True)
while size := len(receiver.recv(65536)):
    print(size)
"""
SEND = """
import socket, sys
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for size in (1, 1472, 0):
    sender.sendto(bytes(size), (sys.argv[1], 31000))
"""
BIND = "import socket,sys; socket.socket().bind(('', int(sys.argv[1])))"
PYTHON = (sys.executable, "-I", "-S", "-c")


@pytest.fixture(autouse=True)
def nothing_stays(lab3):
    """Each test leaves the hosts as it found them."""
    before = lab3.residue()
    yield
    assert lab3.left_since(before, patience_s=3) == {}


def can_connect(lab, source, target, port):
    """Does a new connection between two hosts come about?"""
    lab[target].check([*PYTHON, LISTEN, str(port)])
    done = lab[source].run([*PYTHON, CONNECT, lab[target].address, str(port)])
    if done.stdout != "open\n":
        lab[target].check([*PYTHON, CONNECT, "127.0.0.1", str(port)])  # ends the listener
    return done.stdout == "open\n"


def sizes_received(lab, source, target):
    """Which of a 1-byte datagram and one that fills a frame of 1500 bytes arrive?"""
    argv = [*lab[target].space.enter(), *PYTHON, RECEIVE]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout.readline() == "ready\n"
        lab[source].check([*PYTHON, SEND, lab[target].address])
        return [int(line) for line in receiver.communicate(timeout=30)[0].split()]


def test_mtu(lab3):
    """One host has a smaller MTU, in sysfs and for ip; a full frame of a peer is lost on the way to it."""
    assert sizes_received(lab3, "node1", "node2") == [1, 1472]
    with lab3["node2"].mtu(1400):
        assert lab3["node2"].check(["cat", "/sys/class/net/eth0/mtu"]) == "1400\n"
        assert lab3["node2"].interfaces()["eth0"]["mtu"] == 1400
        assert lab3["node1"].interfaces()["eth0"]["mtu"] == 1500
        assert sizes_received(lab3, "node1", "node2") == [1]
    assert lab3["node2"].interfaces()["eth0"]["mtu"] == 1500


def test_hostname_resolves_to(lab3):
    """The host's own name leads to loopback there, and to its address everywhere else."""
    look_up = ["getent", "ahostsv4", "node2"]
    with lab3["node2"].hostname_resolves_to("127.0.1.1"):
        assert lab3["node2"].check(look_up).startswith("127.0.1.1 ")
        assert "10.77.0.2" not in lab3["node2"].check(look_up)
        assert lab3["node1"].check(look_up).startswith("10.77.0.2 ")
        assert lab3["node2"].check(["getent", "hosts", "node1"]).startswith("10.77.0.1 ")
    assert lab3["node2"].check(look_up).startswith("10.77.0.2 ")


def test_hold_port(lab3):
    """Binding the port fails on that host alone."""
    with lab3["node1"].hold_port(29500):
        assert "Address already in use" in lab3["node1"].run([*PYTHON, BIND, "29500"]).stderr
        lab3["node2"].check([*PYTHON, BIND, "29500"])
    lab3["node1"].check([*PYTHON, BIND, "29500"])


def test_drop_incoming_high_ports(lab3):
    """New connections to high ports of that host are dropped; those from it, its ssh and its loopback work."""
    with lab3["node3"].drop_incoming_high_ports():
        assert not can_connect(lab3, "node1", "node3", 31001)
        assert can_connect(lab3, "node3", "node1", 31002)
        assert can_connect(lab3, "node1", "node2", 31003)
        assert lab3.run(["ssh", "node3", "hostname"]).stdout == "node3\n"
    assert can_connect(lab3, "node1", "node3", 31004)


def test_torch_version(lab3):
    """Metadata and version.py name the other version on that host; the machine's files are untouched."""
    pytest.importorskip("torch")
    ask = """if True:
        import importlib.metadata, importlib.util, pathlib
        package = pathlib.Path(importlib.util.find_spec("torch").submodule_search_locations[0])
        told = {}
        exec((package / "version.py").read_text(), told)
        print(importlib.metadata.version("torch"), told["__version__"])
    """
    real = importlib.metadata.version("torch")
    with lab3["node2"].torch_version("2.12.0"):
        assert lab3["node2"].check([sys.executable, "-c", ask]) == "2.12.0 2.12.0\n"
        assert lab3["node1"].check([sys.executable, "-c", ask]).split()[0] == real
        assert importlib.metadata.version("torch") == real
    assert lab3["node2"].check([sys.executable, "-c", ask]).split()[0] == real


def test_python_site(lab3):
    """The text runs at the start of that host's Python, isolated or not, beside its packages."""
    show = "import pytest, sys; print(sys.planted)"
    with lab3["node2"].python_site("import sys\nsys.planted = 7\n"):
        assert lab3["node2"].check([sys.executable, "-c", show]) == "7\n"
        assert lab3["node2"].check([sys.executable, "-I", "-c", show]) == "7\n"
        assert "planted" in lab3["node1"].run([sys.executable, "-c", show]).stderr
    assert "planted" in lab3["node2"].run([sys.executable, "-c", show]).stderr


def test_rdma_tree(lab3):
    """An adapter shows in sysfs with a RoCE v2 entry for the host's address, and the network classes stay."""
    node = lab3["node2"]
    with node.rdma_tree([RdmaDevice(), RdmaDevice(name="mlx5_1", state="1: DOWN", phys_state="3: Disabled")]):
        port = "/sys/class/infiniband/mlx5_0/ports/1"
        read = node.check(["sh", "-c", f"cd {port}; cat state gids/3 gid_attrs/types/3 gid_attrs/ndevs/3 rate"])
        assert read.splitlines() == [
            "4: ACTIVE",
            "0000:0000:0000:0000:0000:ffff:0a4d:0002",
            "RoCE v2",
            "eth0",
            "200 Gb/sec (4X HDR)",
        ]
        assert node.check(["ls", "/sys/class/infiniband"]).split() == ["mlx5_0", "mlx5_1"]
        assert node.check(["cat", "/sys/class/infiniband/mlx5_0/device/net/eth0/mtu"]) == "1500\n"
        assert node.check(["ls", "/sys/class/net"]).split() == ["eth0", "lo"]
        assert lab3["node1"].run(["ls", "/sys/class/infiniband"]).returncode != 0
    assert node.run(["ls", "/sys/class/infiniband"]).returncode != 0
    assert not os.path.exists("/sys/class/infiniband/mlx5_0/ports/1/gids/254")


def test_rdma_tree_with_a_missing_gid(lab3):
    """The entry is there and zero, its type cannot be read, and its neighbour is whole; so is an InfiniBand port."""
    read_type = "import sys; open(sys.argv[1]).read()"
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    node = lab3["node2"]
    with node.rdma_tree(missing_gids={3}):
        assert node.check(["cat", f"{port}/gids/3"]) == "0000:0000:0000:0000:0000:0000:0000:0000\n"
        assert f"[Errno {errno.EINVAL}]" in node.run([*PYTHON, read_type, f"{port}/gid_attrs/types/3"]).stderr
        assert node.check(["cat", f"{port}/gid_attrs/types/1"]) == "RoCE v2\n"
    with node.rdma_tree([RdmaDevice(link_layer="InfiniBand", netdev="ib0")]):
        assert node.check(["cat", f"{port}/link_layer"]) == "InfiniBand\n"
        assert node.check(["cat", f"{port}/gids/0"]).startswith("fe80:0000:0000:0000:")


def test_environment(lab3):
    """A non-interactive ssh session has the variables, an empty and a spaced one too."""
    ask = ["ssh", "node2", 'echo "[$NCCL_SOCKET_IFNAME][$EMPTY][$SPACED]"; env | grep -c ^EMPTY=']
    with lab3["node2"].environment(NCCL_SOCKET_IFNAME="=eth1", EMPTY="", SPACED="two words"):
        assert lab3.run(ask).stdout == "[=eth1][][two words]\n1\n"
        assert lab3.run(["ssh", "node1", 'echo "[$NCCL_SOCKET_IFNAME]"']).stdout == "[]\n"
        with lab3["node2"].environment(MORE="1"):
            assert lab3.run(["ssh", "node2", 'echo "$SPACED $MORE"']).stdout == "two words 1\n"
    assert lab3.run(ask).stdout == "[][][]\n0\n"


def test_cpu_quota(lab3):
    """The host's processes, its ssh sessions too, are in a group with that quota, and leave it again."""
    node = lab3["node2"]
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(node.cpu_quota(10))
        except LabError as error:
            pytest.skip(str(error))
        group = Path("/sys/fs/cgroup/cpu", f"{lab3.tag}-node2")
        places = lab3.run(["ssh", "node2", "cat", "/proc/self/cgroup"]).stdout
        assert f"/{group.name}" in places
        assert f"/{group.name}" not in lab3.run(["ssh", "node1", "cat", "/proc/self/cgroup"]).stdout
    assert f"/{group.name}" not in lab3.run(["ssh", "node2", "cat", "/proc/self/cgroup"]).stdout


def test_link_down(lab3):
    """The host keeps its address, has no carrier and cannot be reached, until it is plugged in."""
    node = lab3["node3"]
    with node.link_down():
        assert node.check(["cat", "/sys/class/net/eth0/carrier"]) == "0\n"
        assert node.interfaces()["eth0"]["addr_info"][0]["local"] == "10.77.0.3"
        assert lab3.run(["ssh", "-oConnectTimeout=1", "node3", "true"]).returncode == 255
    assert lab3.run(["ssh", "node3", "hostname"]).stdout == "node3\n"
    assert "congctl cubic" in node.check(["ip", "route"])


def test_stop_sshd(lab3):
    """Connecting works, no banner comes; afterwards sshd answers again."""
    with lab3["node1"].stop_sshd():
        assert "banner" in lab3.run(["ssh", "-oConnectTimeout=1", "node1", "true"]).stderr
    assert lab3.run(["ssh", "node1", "hostname"]).stdout == "node1\n"


def test_add_interface(lab3):
    """Further interfaces of one name reach each other; a host without one does not have it."""
    with lab3["node1"].add_interface("eth1", "10.78.0.1/24"), lab3["node2"].add_interface("eth1", "10.78.0.2/24"):
        assert can_connect(lab3, "node1", "node2", 31010)
        lab3["node2"].check([*PYTHON, LISTEN, "31011"])
        assert lab3["node1"].check([*PYTHON, CONNECT, "10.78.0.2", "31011"]) == "open\n"
        assert "eth1" not in lab3["node3"].interfaces()
    assert "eth1" not in lab3["node1"].interfaces()


def test_write_file(lab3):
    """A file that the machine lacks, in a directory it has, is there on that host alone, beside the others."""
    assert not os.path.exists("/etc/nccl.conf")
    with lab3["node1"].write_file("/etc/nccl.conf", "NCCL_DEBUG=WARN\n"):
        assert lab3["node1"].check(["cat", "/etc/nccl.conf"]) == "NCCL_DEBUG=WARN\n"
        assert lab3["node1"].check(["getent", "hosts", "node2"]).startswith("10.77.0.2")
        assert lab3.run(["ssh", "node1", "hostname"]).stdout == "node1\n"
        assert lab3["node2"].run(["cat", "/etc/nccl.conf"]).returncode == 1
    assert lab3["node1"].run(["cat", "/etc/nccl.conf"]).returncode == 1
    assert not os.path.exists("/etc/nccl.conf")


def test_a_command_that_must_succeed_says_why_it_did_not(lab3):
    """`check` raises with host, command, exit code and what was said."""
    with pytest.raises(LabError, match=r"node1: ls /nowhere: exit 2: .*No such file"):
        lab3["node1"].check(["ls", "/nowhere"])
    assert isinstance(lab3["node1"].run(["ls", "/nowhere"]), subprocess.CompletedProcess)
