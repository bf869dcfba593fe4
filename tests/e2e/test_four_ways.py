"""Is a fault the same finding, on the same node and in the same words, whichever way the nodes are reached?

Each way is a row of WAYS: its name, and what runs preflight that way on the three hosts of one lab.
"""

from __future__ import annotations

import contextlib
import json
import sys
from subprocess import CompletedProcess
from typing import NamedTuple

import pytest

from tests.lab import faults, kubernetes, slurm, together
from tests.lab.fixtures import do_without
from tests.lab.lab import Lab

RUN = ["preflight", "run", "--profile=quick", "--env=NCCL_IB_GID_INDEX=3", f"--python={sys.executable}"]
# Raw faults, each on one host: what must be told of it, by every way, is the same.
PLANTED = {
    ("network.mtu_is_the_same_on_every_node", "fail", ("node2",)),
    ("names.own_hostname_is_not_loopback", "fail", ("node3",)),
    ("rdma.gid_index_exists_on_every_node", "fail", ("node1",)),
}
SETTINGS = "[limits]\nmemlock_min_bytes = 65536\n"


class Cluster(NamedTuple):
    """Three hosts that are a Slurm and three pods as well; None where the machine has no such thing."""

    lab: Lab
    slurm: slurm.SlurmLab | None
    pods: kubernetes.PodsLab | None


def over_ssh(cluster, words):
    """From the controller, to the hosts by name."""
    return cluster.lab.run([*RUN, "--hosts=node[1-3]", *words], env=PATH)


def through_slurm(cluster, words):
    """Within an allocation, by a step of srun."""
    if cluster.slurm is None:
        do_without(slurm.why_not(), required=slurm.is_required())
    return cluster.slurm.run(["salloc", "--quiet", "--nodes=3", *RUN, "--hosts=slurm", *words])


def through_kubectl(cluster, words):
    """To the pods of a selector."""
    if cluster.pods is None:
        do_without(kubernetes.why_not(), required=kubernetes.is_required())
    return cluster.pods.run([*RUN, f"--hosts={cluster.pods.hosts}", *words])


def by_themselves(cluster, words):
    """Without a controller: each host runs the same command, as a rank of a job does."""
    first, *others = together.run(cluster.lab, [*RUN[1:], "--hosts=torchrun", *words])
    assert {each.code for each in others} == {first.code}, (first, others)
    return CompletedProcess(RUN, first.code, first.output, "")


WAYS = {"ssh": over_ssh, "slurm": through_slurm, "kubectl": through_kubectl, "torchrun": by_themselves}
PATH = {"PATH": f"{sys.prefix}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


@pytest.fixture(scope="module")
def cluster(lab_is_possible):
    """One lab for all ways, with the faults of PLANTED in place."""
    with Lab.create(3) as lab, contextlib.ExitStack() as stack:
        in_slurm = None if slurm.why_not() else stack.enter_context(slurm.SlurmLab(lab))
        in_pods = None if kubernetes.why_not() else stack.enter_context(kubernetes.PodsLab(lab))
        for host in lab.hosts:
            missing = {3} if host.name == "node1" else frozenset()
            stack.enter_context(faults.rdma_tree(host, missing_gids=missing))
        stack.enter_context(faults.mtu(lab["node2"], 1400))
        stack.enter_context(faults.hostname_resolves_to(lab["node3"], "127.0.1.1"))
        yield Cluster(lab, in_slurm, in_pods)


def judged(cluster, way):
    """What the run found wrong: check, verdict, nodes, and its words without how the nodes were reached."""
    folder = cluster.lab.shared / f"by-{way}"  # hosts have a /tmp of their own
    settings = folder / "settings.toml"
    folder.mkdir()
    settings.write_text(SETTINGS)
    done = WAYS[way](cluster, [f"--report-dir={folder / 'run'}", f"--settings={settings}"])
    assert done.returncode == 1, done.stdout + done.stderr
    report = json.loads((folder / "run" / "report.json").read_text())
    return {
        (found["check"], found["verdict"], tuple(found["nodes"]), found["message"])
        for found in report["findings"]
        if found["verdict"] in ("fail", "warn", "error")
    }


@pytest.fixture(scope="module")
def by_ssh(cluster):
    """What is found over ssh."""
    return judged(cluster, "ssh")


def test_every_fault_is_told_over_ssh(by_ssh):
    """Each on the host where it was planted."""
    assert {found[:3] for found in by_ssh} >= PLANTED, by_ssh


@pytest.mark.parametrize("way", [way for way in WAYS if way != "ssh"])
def test_a_fault_is_the_same_finding_whichever_way_the_nodes_are_reached(cluster, by_ssh, way):
    """No more, no less, and in the same words."""
    assert judged(cluster, way) == by_ssh
