"""Is what stacks take told of the interfaces and routes that a kernel has? Findings: tests/checks/test_network.py."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace

import msgspec
import pytest

from preflight.facts.subjects.network import Network
from preflight.job.collect.trust import called
from preflight.job.options.launch import with_files
from preflight.job.options.options import Options
from preflight.judge.ledger.findings import Verdict
from preflight.judge.tables.network import stacks
from preflight.launch.read import read_files
from preflight.testing import healthy
from tests.checks.samples import judge, with_interface
from tests.lab.network import ip

ASKED = """
import json
from preflight.node.subjects import network
print(json.dumps(network.collect({"proc": "/proc", "sysfs": "/sys", "environment": []})))
"""
TWO_CARDS = (
    "ip link set lo up",
    *(f"ip link add {name} type veth peer name {name}p" for name in ("eth0", "wlan0")),
    *(f"ip link set {name} up" for name in ("eth0", "eth0p", "wlan0", "wlan0p")),
    "ip addr add 10.0.0.{number}/24 dev eth0",
    "ip addr add 192.168.1.{number}/24 dev wlan0",
)
BY_WIFI, BY_ETHERNET = "ip route add default via 192.168.1.254", "ip route add default via 10.0.0.254"
DOCKER = ("ip link add docker0 type bridge", "ip addr add 172.17.0.1/16 dev docker0", "ip link set docker0 up")


def in_namespaces(*commands, package, renamed=()):
    """Three nodes, each with what the real collector says in a namespace where these commands were run."""
    run = healthy()
    for number, name in enumerate(run.names, 1):
        lines = [line.format(number=number) for line in (*TWO_CARDS, *commands)]
        lines += ["ip link set eth0 down && ip link set eth0 name enp4s0 && ip link set enp4s0 up"] * (name in renamed)
        script = " && ".join([*lines, f"exec {sys.executable} -c {shlex.quote(ASKED)}"])
        argv = ["unshare", "--net", "--mount", "sh", "-c", f"mount -t sysfs sysfs /sys && {script}"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        found = msgspec.convert(json.loads(done.stdout), type=Network, strict=True)
        run = run.broken(name, "network", interfaces=found.interfaces, gateways=found.gateways)
        run = run.broken(name, "software", packages={"torch": "2.13.0", package: "1.0"})
    return run


def told(check, run):
    """The warnings of a check, each as (nodes, message)."""
    return [(one.nodes, one.message) for one in judge(check, run) if one.verdict is Verdict.WARN]


def test_an_address_of_one_machine_is_no_bridge_of_all():
    """What differs is each machine's own."""
    run = healthy()
    for number, name in enumerate(run.names, 1):
        run = with_interface(run, name, "cni0", f"10.244.{number}.1")
    assert stacks.alike(run.cluster) == {}


@pytest.mark.lab
def test_a_default_route_by_wifi_is_read_from_the_kernel(lab_is_possible):
    """The route as the kernel has it, and the same machines with the route over the training interface."""
    check = "network.serving_stacks_take_the_training_address"
    found = told(check, in_namespaces(BY_WIFI, package="sglang"))
    assert [nodes for nodes, _ in found] == [("node1",), ("node2",), ("node3",)]
    assert "SGLang takes the address of the default route: 192.168.1.2 of wlan0" in found[1][1]
    assert told(check, in_namespaces(BY_ETHERNET, package="sglang")) == []


@pytest.mark.lab
def test_the_bridge_of_docker_is_read_from_the_kernel(lab_is_possible):
    """docker0 without a container: it has no carrier, and Open MPI takes it."""
    check = "network.mpi_takes_no_bridge_of_every_machine"
    ((nodes, message),) = told(check, in_namespaces(*DOCKER, package="horovod"))
    assert nodes == ("node1", "node2", "node3")
    assert "docker0 has 172.17.0.1 on each" in message
    assert told(check, in_namespaces(package="horovod")) == []


@pytest.mark.lab
@pytest.mark.parametrize(("package", "verdict"), [("horovod", Verdict.FAIL), ("torch", Verdict.WARN)])
def test_the_bridge_of_docker_stops_what_mpirun_starts(package, verdict, lab_is_possible):
    """A program that calls MPI; torch wants to be started, and joins by itself."""
    run = in_namespaces(*DOCKER, package=package)
    told = {"programs": {"mpirun": "/usr/bin/mpirun"}, "unset": (stacks.MPI_CHOICE[1],)}
    run = replace(run, missing={}).broken("node1", "trust", **told)
    found = judge("network.mpi_takes_no_bridge_of_every_machine", run)
    assert {one.verdict for one in found} - {Verdict.PASS} == {verdict}


SUM = """
import ctypes
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
mpi.MPI_Init(None, None)
world, double, add = (
    ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, f"ompi_mpi_{name}")))
    for name in ("comm_world", "double", "op_sum")
)
rank = ctypes.c_int()
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
one, all_of_them = (ctypes.c_double * 4096)(*[rank.value + 1.0] * 4096), (ctypes.c_double * 4096)()
mpi.MPI_Allreduce(one, all_of_them, 4096, double, add, world)
print("sum", all_of_them[0], flush=True)
mpi.MPI_Finalize()
"""


@pytest.mark.lab
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no Open MPI here")
def test_the_command_of_the_finding_ends_the_hang_of_open_mpi(make_lab):
    """A sum over two hosts that have docker0 each: it hangs, and is right with the variable that the finding names."""
    run = healthy()
    for number, name in enumerate(run.names, 1):
        run = with_interface(run, name, "docker0", "172.17.0.1").broken(name, "identity", boot_id=f"boot {number}")
        run = run.broken(name, "software", packages={"horovod": "0.28.1"})
    (told,) = [one for one in judge("network.mpi_takes_no_bridge_of_every_machine", run) if one.fix]
    words = told.fix.partition("export ")[2].partition("`")[0]

    lab = make_lab(2)
    for host in (lab["node1"], lab["node2"]):
        ip(host.space, ["link add docker0 type bridge", "addr add 172.17.0.1/16 dev docker0", "link set docker0 up"])
        host.write_file("/tmp/sum.py", SUM)
    hosts = ",".join(f"{lab[name].address}:1" for name in ("node1", "node2"))
    line = f"mpirun --allow-run-as-root --mca pml ob1 --mca btl tcp,self -np 2 --host {hosts} python3 /tmp/sum.py"
    hung = lab["node1"].run(["sh", "-c", line], timeout_s=30)
    well = lab["node1"].run(["sh", "-c", f"export {words} && {line}"], timeout_s=60)
    assert (hung.returncode, "sum" in hung.stdout) == (124, False), hung
    assert (well.returncode, well.stdout.count("sum 3.0")) == (0, 2), well


@pytest.mark.lab
def test_names_that_differ_are_read_from_the_kernel(lab_is_possible):
    """enp4s0 where the others have eth0; the name of the second card is everyone's until it is gone."""
    check = "network.horovod_finds_an_interface_of_one_name"
    without_wifi = "ip link del wlan0"
    ((nodes, message),) = told(check, in_namespaces(without_wifi, package="horovod", renamed=("node2",)))
    assert nodes == ("node1", "node2", "node3")
    assert "enp4s0" in message
    assert told(check, in_namespaces(package="horovod", renamed=("node2",))) == []


@pytest.mark.lab
@pytest.mark.parametrize(
    ("words", "verdict"), [("", Verdict.FAIL), ("--network-interfaces eth0,enp4s0 ", Verdict.WARN)]
)
def test_horovodrun_of_a_launch_file_is_known(words, verdict, tmp_path, lab_is_possible):
    """It stops where it has to find the interface itself; a bridge that all machines have is none."""
    (tmp_path / "start.sh").write_text(f"horovodrun -np 16 -H node1:8,node2:8 {words}python train.py\n")
    read = with_files(Options(), read_files([str(tmp_path / "start.sh")]), launcher=None)
    asked = called(read)
    assert (read.needs_trust, asked["launchers"]) == (True, ["horovodrun"])
    run = in_namespaces("ip link del wlan0", *DOCKER, package="horovod", renamed=("node2",))
    run = replace(run, missing={}).broken("node1", "trust", unset=tuple(asked["variables"]))
    found = judge("network.horovod_finds_an_interface_of_one_name", run)
    assert {one.verdict for one in found} - {Verdict.PASS} == {verdict}
