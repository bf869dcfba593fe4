"""How is a Python on a node of a running Ray cluster reached? By a task that Ray pins to it, as the job's own are.

No task reserves a CPU or a GPU, so a busy cluster is checked beside its jobs. A driver of Ray, in a process of its own,
starts the tasks (transport/ray_driver.py); they connect to us.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from preflight.reach.transport.ray_driver import LIST, RELAY, TASKS
from preflight.reach.transport.reach import TASK_LOADER, Found, Gathering, last_line
from preflight.said import said

if TYPE_CHECKING:
    from preflight.reach.host import Host
    from preflight.reach.transport.reach import Reach

LISTING_SECONDS = 40.0
STARTING_SECONDS = 45.0  # a driver and a worker on each node import Ray first, and a busy node takes its time
ADDRESS = re.compile(r"(?:[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):[0-9]{1,5}")
NODE = re.compile(rf"(?P<cluster>{ADDRESS.pattern})/(?P<node>[0-9A-Fa-f:.]{{2,45}})")
CLIENT = "ray://"
NOT_BY_CLIENT = (
    "the tasks of the Ray client (ray://) cannot connect back to another machine; start preflight on a node of the "
    "cluster, or by `ray job submit`"
)
WANTED = "wanted ray alone, or ray:HOST:PORT of the cluster's head"
# Ray's own words -> what is wrong, and what to do.
CAUSES = (
    (
        r"No module named 'ray'",
        "this Python has no Ray",
        "start preflight in the Python that the cluster runs, or under `ray job submit`",
    ),
    (
        r"Could not find any running Ray instance|ray_current_cluster",
        "no Ray cluster runs on this machine",
        "start preflight on a node of the cluster, or say where its head is: ray:HOST:PORT",
    ),
    (r"nothing answers at .*", "the head does not answer", "`ray status --address=HOST:PORT` must succeed"),
    (
        r"Version mismatch.*",
        "this Python or its Ray is not the cluster's",
        "start preflight in the Python that the cluster runs",
    ),
    (
        r"Can't find a `?node_ip_address|cannot find the matching node|no raylet|node_ip_address.json|not found in GCS",
        "this machine is no node of that cluster",
        "start preflight on one of its nodes",
    ),
    (
        r"The node specified via NodeAffinity.* is infeasible|TaskUnschedulable",
        "Ray gives the node no task: it is drained, or lost",
        "`ray list nodes` and `ray status` show which",
    ),
    (
        r"NodeAffinity|not alive|node_id doesn't exist|lost the node|NodeDied|raylet died|the node .{,40} is dead",
        "Ray has lost the node",
        "`ray list nodes` shows why; start it again there: `ray start --address=HOST:PORT`",
    ),
    (
        r"OutOfMemoryError|memory on the node.*above the threshold",
        "Ray ended the task because the node's memory is full",
        "end what uses it, or wait for it",
    ),
    (r"runtime.?env.*", "the job's runtime_env cannot be made on the node", "see runtime_env_setup-*.log there"),
    (r"WorkerCrashedError|worker died unexpectedly", "Ray's worker ended there", "see its log below /tmp/ray there"),
)
COMPLAINS = re.compile(r"(?m)^ray: (.*)$")


def run_driver(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a driver that ends by itself. Raises OSError where it does not come back."""
    try:
        return subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LISTING_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(
            said("Ray gave no answer in {LISTING_SECONDS:.0f} s; `ray status` must succeed", LISTING_SECONDS)
        ) from None


def python_with_ray() -> str:
    """Our own Python where it has Ray, or else the first of PATH, which is the job's under `ray job submit`."""
    return sys.executable if importlib.util.find_spec("ray") else "python3"


@dataclass(frozen=True)
class Ray:
    """The nodes of a Ray cluster that runs here, each by a task pinned to it."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    run: Callable[[Sequence[str]], subprocess.CompletedProcess[str]] = run_driver
    name = "ray"
    form = "ray"
    starting_seconds = STARTING_SECONDS

    def named(self, rest: str) -> tuple[Found, ...]:
        """The nodes that are alive, the head first; ``ray:HOST:PORT/NODE``, as reports write it, is one of them."""
        one = NODE.fullmatch(rest)
        cluster = one["cluster"] if one else rest or "auto"
        if rest.startswith((CLIENT, "//")) or self.environment.get("RAY_ADDRESS", "").startswith(CLIENT):
            raise ValueError(NOT_BY_CLIENT)
        if rest and not one and not ADDRESS.fullmatch(rest):
            raise ValueError(WANTED)
        listed = self._listed(cluster)
        nodes = {node["address"]: node for node in listed["nodes"] if not one or node["address"] == one["node"]}
        if not nodes:
            raise ConnectionError(said("{node} is no node of the Ray cluster any more", one["node"] if one else "this"))
        names = [node["name"] for node in nodes.values()]
        return tuple(
            Found(
                node["name"] if names.count(node["name"]) == 1 else address,
                f"ray:{listed['cluster']}/{address}",
                _leaving(node.get("draining")),
                engine=node.get("engine", {}),
            )
            for address, node in nodes.items()
        )

    def argv(self, host: Host, reach: Reach) -> list[str]:
        """A driver whose one task runs the loader, and which hands on what is said."""
        cluster, node = _place(host)
        plan = {"cluster": cluster, "node": node, "words": reach.loader(host, python="{python}")}
        return [python_with_ray(), "-c", RELAY, json.dumps(plan)]

    def gathering(self, hosts: Sequence[Host], reach: Reach) -> Gathering | None:
        """One driver for all of them, with a task on each. A container (`--wrap`) may not have our address."""
        if reach.wrap or len({host.python for host in hosts}) > 1:
            return None
        plan = {
            "cluster": _place(hosts[0])[0],
            "nodes": {_place(host)[1]: host.address for host in hosts},
            "words": reach.loader(hosts[0], python="{python}", program=TASK_LOADER),
        }
        return Gathering(
            argv=(python_with_ray(), "-c", TASKS, json.dumps(plan)),
            controller=("PREFLIGHT_CONTROLLER",),
            address="PREFLIGHT_ADDRESS",
            number="PREFLIGHT_NUMBER",
        )

    def explain(self, _node: str, _code: int, stderr: str) -> str:
        """Ray's error in our words, with what to do; its own line where we know no better."""
        return reported(stderr) if COMPLAINS.search(stderr) else ""

    def is_worth_a_retry(self, _stderr: str) -> bool:
        """Never: Ray has tried again already."""
        return False

    def log_in_hint(self, node: str) -> str:
        """Where Ray says whether the node is one of its own."""
        return said("`ray list nodes` must show {node} as ALIVE", node)

    def _listed(self, cluster: str) -> dict[str, Any]:
        done = self.run([python_with_ray(), "-c", LIST, cluster])
        if done.returncode != 0:
            raise ConnectionError(reported(done.stderr))
        try:
            found: dict[str, Any] = json.loads(last_line(done.stdout, ""))
        except ValueError:
            raise ConnectionError("Ray's driver printed no list of nodes; is `ray` another package?") from None
        return found


def _place(host: Host) -> tuple[str, str]:
    """The address of the cluster's head, and that of the node, as `named` wrote them."""
    cluster, _, node = host.address.removeprefix("ray:").rpartition("/")
    return cluster, node


def _leaving(seconds: float | None) -> str:
    """Why nothing can run on a node that Ray drains for so many seconds more; "" where it does not, or cannot say."""
    if seconds is None:
        return ""
    fix = "wait for the node in its place, or until `ray list nodes --filter state=ALIVE` lists it no more"
    if seconds < 0:
        return said("Ray drains the node, which takes no task any more; {fix}", fix)
    minutes = math.ceil(max(seconds, 1) / 60)
    return said("Ray drains the node, which takes no task any more and ends within {minutes} min; {fix}", minutes, fix)


def reported(stderr: str) -> str:
    """What Ray complained about, why and what to do."""
    for sign, cause, fix in CAUSES:
        found = re.search(sign, stderr)
        if found:
            return said("{cause} (Ray: {line}); {fix}", cause, found[0].strip()[:200], fix)
    complaint = COMPLAINS.search(stderr)
    return complaint[1] if complaint else last_line(stderr, "Ray gave no reason")
