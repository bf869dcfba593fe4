"""Is a fault the same finding, on the same node and in the same words, whichever way the nodes are reached?

Each way is a row of WAYS: its name, and what runs preflight that way on the three hosts of one lab. Each fault is a row
of FAULTS: raw material on a host, and what must be told of it.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable
from subprocess import CompletedProcess
from typing import NamedTuple

import pytest

from tests.lab import faults, kubernetes, ray, rdma, slurm, together
from tests.lab.fixtures import needs_lab
from tests.lab.lab import Lab

RUN = ["preflight", "run", "--profile=quick", "--env=NCCL_IB_GID_INDEX=3", f"--python={faults.WITH_SITE}"]
SESSION = re.compile(r"this (?:ssh|slurm|container|local) session")  # a limit is that of the session we came by
SETTINGS = "[limits]\nmemlock_min_bytes = 65536\n"


class Cluster(NamedTuple):
    """Three hosts that are a Slurm, three pods and a Ray cluster as well; None where the machine has no such thing."""

    lab: Lab
    slurm: slurm.SlurmLab | None
    pods: kubernetes.PodsLab | None
    ray: ray.RayLab | None


def over_ssh(cluster, words):
    """From the controller, to the hosts by name."""
    return cluster.lab.run([*RUN, "--hosts=node[1-3]", *words], env=PATH)


def through_slurm(cluster, words):
    """Within an allocation, by a step of srun."""
    needs_lab(slurm.why_not())
    return cluster.slurm.run(["salloc", "--quiet", "--nodes=3", *RUN, "--hosts=slurm", *words])


def through_kubectl(cluster, words):
    """To the pods of a selector."""
    needs_lab(kubernetes.why_not())
    return cluster.pods.run([*RUN, f"--hosts={cluster.pods.hosts}", *words])


def through_ray(cluster, words):
    """From the head of a Ray cluster, by a task on each of its nodes."""
    needs_lab(ray.why_not())
    return cluster.ray.run([*RUN, "--hosts=ray", *words])


def by_themselves(cluster, words):
    """Without a controller: each host runs the same command, as a rank of a job does."""
    first, *others = together.run(cluster.lab, [*RUN[1:], "--hosts=torchrun", *words])
    assert {each.code for each in others} == {first.code}, (first, others)
    return CompletedProcess(RUN, first.code, first.output, "")


WAYS = {
    "ssh": over_ssh,
    "slurm": through_slurm,
    "kubectl": through_kubectl,
    "ray": through_ray,
    "torchrun": by_themselves,
}
PATH = {"PATH": f"{sys.prefix}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


class Fault(NamedTuple):
    """What is planted on the hosts of a lab, and the findings that are wanted: check, verdict, nodes."""

    plant: Callable[[Lab], contextlib.AbstractContextManager[object]]
    wanted: frozenset[tuple[str, str, tuple[str, ...]]]
    code: int = 1  # the exit code of every way


def one(check, verdict, *nodes):
    """The findings of a fault that is told once."""
    return frozenset({(check, verdict, nodes)})


@contextlib.contextmanager
def with_adapters(lab, **others):
    """An RDMA adapter in each host; of the hosts named another one, or one whose table of GIDs has empty rows."""
    with contextlib.ExitStack() as stack:
        for host in lab.hosts:
            stack.enter_context(faults.rdma_tree(host, **others.get(host.name, {})))
        yield


@contextlib.contextmanager
def several(lab):
    """Faults of three hosts at the same time: none hides another."""
    with (
        with_adapters(lab, node1={"missing_gids": {3}}),
        faults.mtu(lab["node2"], 1400),
        faults.hostname_resolves_to(lab["node3"], "127.0.1.1"),
    ):
        yield


@contextlib.contextmanager
def little_shared_memory(lab):
    """The usual /dev/shm of a small container."""
    host = lab["node2"]
    host.check(["mount", "-o", "remount,size=32m", "/dev/shm"])
    try:
        yield
    finally:
        host.check(["mount", "-o", "remount,size=50%", "/dev/shm"])


def another_torch(lab):
    """What the package says of itself on one host."""
    return faults.torch_version(lab["node3"], "2.1.0")


def shorter_gid_table(lab):
    """No address of RoCE v2 in row 3 of one host, as where its interface came up without one."""
    return with_adapters(lab, node2={"missing_gids": {2, 3}})


def slower_port(lab):
    """A port that trained at half of its rate."""
    return with_adapters(lab, node1={"devices": [rdma.RdmaDevice(rate="100 Gb/sec (2X HDR)")]})


def left_from_debugging(lab):
    """A file of NCCL's that switches a fast path off on one host."""
    return lab["node3"].write_file("/etc/nccl.conf", "NCCL_P2P_DISABLE=1\n")


def few_files(lab):
    """A limit that an operator's file sets in every Python of one host."""
    text = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))\n"
    return faults.python_site(lab["node2"], text)


def impossible_value(lab):
    """A word where NCCL takes a number, in one host's file of NCCL's."""
    return lab["node2"].write_file("/etc/nccl.conf", "NCCL_CROSS_NIC=often\n")


FAULTS = {
    "several": Fault(
        several,
        frozenset(
            {
                ("network.mtu_is_the_same_on_every_node", "fail", ("node2",)),
                ("names.own_hostname_is_not_loopback", "fail", ("node3",)),
                ("rdma.gid_index_exists_on_every_node", "fail", ("node1",)),
            }
        ),
    ),
    "torch": Fault(another_torch, one("software.versions_are_the_same_on_every_node", "fail", "node3")),
    "shared memory": Fault(little_shared_memory, one("limits.shared_memory_is_enough", "warn", "node2"), code=0),
    "open files": Fault(few_files, one("limits.enough_files_may_be_open", "warn", "node2"), code=0),
    "GID row": Fault(shorter_gid_table, one("rdma.gid_index_exists_on_every_node", "fail", "node2")),
    "port's rate": Fault(slower_port, one("rdma.ports_have_the_same_rate", "fail", "node1")),
    "nccl.conf": Fault(left_from_debugging, one("environment.nothing_is_left_from_debugging", "warn", "node3"), code=0),
    "value": Fault(impossible_value, one("environment.values_are_possible", "fail", "node2")),
}
LONG = [pytest.param(name, marks=pytest.mark.long) for name in FAULTS if name != "several"]


@pytest.fixture(scope="module")
def cluster(lab_is_possible):
    """One lab for all ways."""
    with Lab.create(3) as lab, contextlib.ExitStack() as stack:
        in_slurm = None if slurm.why_not() else stack.enter_context(slurm.SlurmLab(lab))
        in_pods = None if kubernetes.why_not() else stack.enter_context(kubernetes.PodsLab(lab))
        for host in lab.hosts:
            stack.enter_context(faults.python_with_site(host))
        in_ray = None if ray.why_not() else stack.enter_context(ray.RayLab(lab))
        yield Cluster(lab, in_slurm, in_pods, in_ray)


@pytest.fixture(scope="module", params=["several", *LONG])
def fault(cluster, request):
    """The name of a fault, while it is there."""
    with FAULTS[request.param].plant(cluster.lab):
        yield request.param


def judged(cluster, way, fault):
    """What the run found wrong: check, verdict, nodes, and its words without how the nodes were reached."""
    folder = cluster.lab.shared / f"{fault.replace(' ', '-')}-by-{way}"  # hosts have a /tmp of their own
    settings = folder / "settings.toml"
    folder.mkdir()
    settings.write_text(SETTINGS)
    done = WAYS[way](cluster, [f"--report-dir={folder / 'run'}", f"--settings={settings}"])
    assert done.returncode == FAULTS[fault].code, done.stdout + done.stderr
    report = json.loads((folder / "run" / "report.json").read_text())
    return {
        (found["check"], found["verdict"], tuple(found["nodes"]), SESSION.sub("this session", found["message"]))
        for found in report["findings"]
        if found["verdict"] in ("fail", "warn", "error")
    }


@pytest.fixture(scope="module")
def by_ssh(cluster, fault):
    """What is found over ssh."""
    return judged(cluster, "ssh", fault)


def test_every_fault_is_told_over_ssh(by_ssh, fault):
    """Each on the host where it was planted."""
    assert {found[:3] for found in by_ssh} >= FAULTS[fault].wanted, by_ssh


@pytest.mark.parametrize("way", [way for way in WAYS if way != "ssh"])
def test_a_fault_is_the_same_finding_whichever_way_the_nodes_are_reached(cluster, by_ssh, fault, way):
    """No more, no less, and in the same words."""
    assert judged(cluster, way, fault) == by_ssh
