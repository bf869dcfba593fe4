"""Which nodes of a Ray cluster are found, how are they reached, and what is said where they are not?"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from preflight.reach.host import Host
from preflight.reach.hosts import parse_hosts
from preflight.reach.transport.ray import LISTING_SECONDS, Ray, run_driver
from preflight.reach.transport.reach import TASK_LOADER, Reach
from preflight.said.errors import UsageError

NODES = [
    {"address": "10.0.0.1", "name": "head"},
    {"address": "10.0.0.2", "name": "gpu2"},
    {"address": "10.0.0.3", "name": "gpu2"},
]
HOSTS = [Host("head", "ray:10.0.0.1:6379/10.0.0.1"), Host("gpu2", "ray:10.0.0.1:6379/10.0.0.2")]


def cluster(nodes=NODES, *, stderr="", environment=None):
    """The transport where Ray's driver lists these nodes, or fails with this standard error."""
    asked = []

    def run(argv):
        asked.append(argv[-1])
        listed = json.dumps({"cluster": "10.0.0.1:6379", "nodes": nodes})
        return subprocess.CompletedProcess(argv, 255 if stderr else 0, "" if stderr else f"{listed}\n", stderr)

    return Ray(environment or {}, run), asked


def test_nodes_have_their_host_names_and_twins_their_addresses():
    """The address of the cluster stands in each, so that a report's node is found again."""
    ray, asked = cluster()
    assert [(each.name, each.address) for each in ray.named("")] == [
        ("head", "ray:10.0.0.1:6379/10.0.0.1"),
        ("10.0.0.2", "ray:10.0.0.1:6379/10.0.0.2"),
        ("10.0.0.3", "ray:10.0.0.1:6379/10.0.0.3"),
    ]
    assert asked == ["auto"]


def test_a_node_as_a_report_writes_it_is_that_node_alone():
    """Of the cluster that it was found in."""
    ray, asked = cluster()
    (found,) = ray.named("10.0.0.1:6379/10.0.0.3")
    assert found.address == "ray:10.0.0.1:6379/10.0.0.3"
    assert asked == ["10.0.0.1:6379"]
    with pytest.raises(ConnectionError, match=r"10\.0\.0\.9 is no node of the Ray cluster any more"):
        ray.named("10.0.0.1:6379/10.0.0.9")


@pytest.mark.parametrize(
    ("draining", "words"),
    [
        (None, ""),
        (-1, "Ray drains the node, which takes no task any more; wait"),
        (0, "any more and ends within 1 min; wait"),
        (61.5, "any more and ends within 2 min; wait"),
    ],
)
def test_a_node_that_is_drained_is_not_reached_and_the_time_it_has_is_told(draining, words):
    """Ray gives it no task; a Ray that cannot say it names no node."""
    ray, _ = cluster([{**NODES[0], "draining": draining}, NODES[1]])
    first, second = ray.named("")
    assert (words in first.trouble, bool(first.trouble), second.trouble) == (True, bool(words), "")


def test_what_ray_counts_on_a_node_goes_with_its_host():
    """As the subject of its facts; nothing where a Ray says nothing."""
    engine = {"name": "Ray", "gpus": 8.0, "groups": [], "taken": 2.0}
    ray, _ = cluster([{**NODES[0], "engine": engine}, NODES[1]])
    assert [each.engine for each in ray.named("")] == [engine, {}]


@pytest.mark.parametrize("rest", ["head", "head:port", "http://head:8265", "10.0.0.1:6379/"])
def test_what_is_no_address_is_refused(rest):
    """Nobody is asked."""
    ray, asked = cluster()
    with pytest.raises(ValueError, match="wanted ray alone, or ray:HOST:PORT"):
        ray.named(rest)
    assert asked == []


@pytest.mark.parametrize("written", ["ray://head:10001", "ray:ray://head:10001"])
def test_the_client_of_ray_is_refused_with_what_to_do(written):
    """Its driver is on another machine than the one from which preflight runs."""
    with pytest.raises(UsageError, match="cannot connect back to another machine; start preflight on a node"):
        parse_hosts(written)


def test_the_client_of_ray_is_refused_where_the_environment_names_it():
    """RAY_ADDRESS decides where --hosts does not."""
    ray, asked = cluster(environment={"RAY_ADDRESS": "ray://head:10001"})
    with pytest.raises(ValueError, match="ray job submit"):
        ray.named("")
    assert asked == []


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        ("ray: No module named 'ray'\n", "this Python has no Ray .* start preflight in the Python"),
        (
            "ray: Could not find any running Ray instance. Please specify the one\n",
            "no Ray cluster runs on this machine",
        ),
        (
            "ray: nothing answers at 10.0.0.9:6379: timed out\n",
            r"the head does not answer \(Ray: nothing answers at 10",
        ),
        ("ray: Version mismatch: The cluster was started with: Ray: 2.9.0\n", "is not the cluster's"),
        ("ray: something new\n", "^something new$"),
        ("Traceback\nOSError: odd\n", "OSError: odd"),
        ("\n", "Ray gave no reason"),
    ],
)
def test_ray_is_quoted_with_what_to_do(stderr, words):
    """In one line."""
    ray, _ = cluster(stderr=stderr)
    with pytest.raises(ConnectionError, match=words) as caught:
        ray.named("")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        ("ray: lost the node\n", "Ray has lost the node"),
        (
            "ray: The node with node id: 0xab and address: 10.0.0.2 was marked dead: NodeDiedError\n",
            "Ray has lost the node (Ray: NodeDied)",
        ),
        (
            "ray: Task failed because the node it was running on is dead or unavailable. Node IP: 10.0.0.2, node\n",
            "Ray has lost the node (Ray: the node it was running on is dead); `ray list nodes`",
        ),
        (
            "ray: The node specified via NodeAffinitySchedulingStrategy doesn't exist any more or is infeasible, and\n",
            "Ray gives the node no task: it is drained, or lost",
        ),
        ("ray: nothing answers at 10.0.0.1:6379: refused\n", "the head does not answer (Ray: nothing answers at 10."),
        ("ray: WorkerCrashedError: The worker died unexpectedly\n", "Ray's worker ended there"),
        ("ray: Failed to set up runtime environment: pip\n", "the job's runtime_env cannot be made"),
        ("sh: 1: python3: not found\n", ""),
    ],
)
def test_a_node_that_is_not_reached_says_why(stderr, words):
    """Nothing is said of what a loader that was started complains about."""
    assert Ray().explain("gpu2", 255, stderr).startswith(words)
    assert bool(Ray().explain("gpu2", 255, stderr)) is bool(words)


def test_many_nodes_come_by_one_driver_in_the_python_of_their_workers():
    """With the address that each is known by; another Python where the user names one."""
    gathering = Ray().gathering(HOSTS, Reach())
    plan = json.loads(gathering.argv[-1])
    assert plan["cluster"] == "10.0.0.1:6379"
    assert plan["nodes"] == {"10.0.0.1": HOSTS[0].address, "10.0.0.2": HOSTS[1].address}
    assert plan["words"][0] == "{python}"
    assert plan["words"][-1] == TASK_LOADER
    assert json.loads(Ray().gathering(HOSTS, Reach(python="/opt/py")).argv[-1])["words"][0] == "/opt/py"


def test_a_container_or_different_pythons_have_a_driver_each():
    """One command runs the same words everywhere."""
    other = Host("gpu3", "ray:10.0.0.1:6379/10.0.0.3", python="/opt/other")
    assert Ray().gathering(HOSTS, Reach(wrap=("docker", "exec", "train"))) is None
    assert Ray().gathering([HOSTS[0], other], Reach()) is None
    plan = json.loads(Ray().argv(other, Reach())[-1])
    assert (plan["cluster"], plan["node"], plan["words"][0]) == ("10.0.0.1:6379", "10.0.0.3", "/opt/other")


def test_a_driver_that_does_not_come_back_is_not_waited_for(monkeypatch):
    """The message says what must work by hand."""
    monkeypatch.setattr("preflight.reach.transport.ray.LISTING_SECONDS", 0.2)
    with pytest.raises(TimeoutError, match="`ray status` must succeed"):
        run_driver([sys.executable, "-c", "import time; time.sleep(60)"])
    assert LISTING_SECONDS > 1


def test_what_is_no_list_of_nodes_is_said():
    """A package of the same name that does something else."""
    ray = Ray({}, lambda argv: subprocess.CompletedProcess(argv, 0, "hello\n", ""))
    with pytest.raises(ConnectionError, match="printed no list of nodes"):
        ray.named("")
