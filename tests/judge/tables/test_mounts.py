"""Tests of preflight.judge.tables.mounts."""

import pytest

from preflight.facts.subjects.files import Mount
from preflight.judge.tables import mounts
from preflight.testing import healthy
from tests.checks.samples import judge

CHECK = "files.network_file_systems_are_mounted_on_every_node"
DATA = Mount("/data", "nfs4", "filer:/data", "")


def told(by_node, **identity):
    """Node -> what is said, where the nodes have these mounts."""
    run = healthy()
    for name, held in by_node.items():
        run = run.broken(name, "files", mounts=tuple(held))
    if identity:
        run = run.broken("node3", "identity", **identity)
    return {
        finding.nodes: finding.message
        for finding in judge(CHECK, run)
        if finding.verdict.value in ("warn", "fail", "error")
    }


def at(source, *, path="/data", kind="nfs4", is_automatic=False):
    """One mount."""
    return [Mount(path, kind, source, "", is_automatic)]


@pytest.mark.parametrize(
    ("usual", "odd", "words"),
    [
        (at("filer:/data"), [], "/data is not mounted; 2 other nodes have filer:/data there"),
        (at("filer:/data"), at("filer:/old"), "/data is /old of its server; on 2 other nodes it is /data"),
        (at("10.0.0.1@o2ib:/new", kind="lustre"), at("10.0.0.1@o2ib:/old", kind="lustre"), "/data is /old of"),
        (at("//nas/data", kind="cifs"), at("//nas/old", kind="cifs"), "/data is /old of"),
        (at("scratch", kind="gpfs"), at("home", kind="gpfs"), "/data is home of its server"),
    ],
)
def test_the_odd_one_is_named(usual, odd, words):
    """It lacks what the others have, or has another folder of the server."""
    ((nodes, said),) = told({"node1": usual, "node2": usual, "node3": odd}).items()
    assert nodes == ("node3",)
    assert said.startswith(words)


@pytest.mark.parametrize(
    ("first", "second", "third"),
    [
        (at("10.0.0.11:/data"), at("10.0.0.12:/data"), at("10.0.0.13:/data")),  # a server with many addresses
        (at("10.0.0.1@o2ib:10.0.0.2@o2ib:/s"), at("10.0.0.1@o2ib:10.0.0.2@o2ib:/s"), at("10.0.0.2@o2ib:/s")),
        (at("f:/ann", path="/home/ann", is_automatic=True), at("f:/ann", path="/home/ann", is_automatic=True), []),
        (at("f:/x", path="/var/lib/kubelet/pods/7/v"), at("f:/x", path="/var/lib/kubelet/pods/7/v"), []),
        (at("node3:/data"), at("node3:/data"), []),  # the server itself has the folder on a disk
        (at("node3.cluster.local:/data"), at("node3.cluster.local:/data"), []),
        (at("f:/data"), [], []),  # one's own affair
        (at("f:/images/1", path="/"), at("f:/images/2", path="/"), at("f:/images/3", path="/")),  # each its own
        (at("tag1", kind="virtiofs"), at("tag1", kind="virtiofs"), at("tag7", kind="virtiofs")),
    ],
)
def test_what_is_meant_to_differ_is_left_alone(first, second, third):
    """Servers with many addresses, automatic mounts, those of pods, the server itself, and folders of one node each."""
    assert told({"node1": first, "node2": second, "node3": third}) == {}


def test_a_node_that_cannot_tell_all_is_not_judged():
    """It tells so many, and no more."""
    many = [Mount(f"/m{number}", "nfs4", f"filer:/m{number}", "") for number in range(mounts.MOST)]
    assert told({"node1": [DATA], "node2": [DATA], "node3": many}) == {}


def test_the_server_is_known_by_any_of_its_addresses():
    """It may be mounted over another network than the job's."""
    held = at("10.99.0.3:/data")
    assert told({"node1": held, "node2": held, "node3": []}, hostname_addresses=("10.99.0.3",)) == {}
