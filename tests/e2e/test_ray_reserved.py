"""On a real Ray cluster whose GPUs are counted: is it told which of them are reserved, and which node is drained?

The hosts have no GPU: Ray counts what `ray start` is told, as where a driver hides them.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys

import pytest

from tests.lab import ray
from tests.lab.fixtures import needs_lab
from tests.lab.lab import Lab

# A busy machine makes slow paths, and Ray's workers start Python on every node within the time of a stage.
pytestmark = [pytest.mark.exclusive, pytest.mark.long]
CHECK = "gpu.none_is_reserved_for_others"
# Of a program that holds what it reserves until its standard input ends.
BEGIN = """
import ray, sys, time
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
ray.init(address="auto", log_to_driver=False, logging_level="error")
nodes = {node["NodeManagerHostname"]: node["NodeID"] for node in ray.nodes() if node["Alive"]}
@ray.remote(num_cpus=0)
class Actor:
    def on(self):
        return ray.util.get_node_ip_address()
def actor(node, **options):
    strategy = NodeAffinitySchedulingStrategy(nodes[node], soft=False)
    made = Actor.options(scheduling_strategy=strategy, **options).remote()
    ray.get(made.on.remote(), timeout=60)
    return made
"""
HOLD = """
print("ready", nodes["node3"], flush=True)
sys.stdin.read()
"""
# One that waits for more GPUs than there are reserves none.
GROUP = """
group = placement_group([{"GPU": 2}, {"GPU": 1}], name="rollout", strategy="STRICT_SPREAD")
ray.get(group.ready(), timeout=60)
waiting = placement_group([{"GPU": 9}], name="waiting")
"""
# One that outlives its job, under a name that another job cannot look up.
DETACHED = """
group = placement_group([{"GPU": 2}], name="kept", lifetime="detached")
ray.get(group.ready(), timeout=60)
"""
ACTOR = "held = actor('node2', num_gpus=1)"
BUSY = "held = actor('node3')"
# A job that reserves its GPUs, and checks the cluster before it uses them.
GATED = """
import subprocess
group = placement_group([{"GPU": 2}] * 3, name="own", strategy="STRICT_SPREAD")
ray.get(group.ready(), timeout=60)
sys.exit(subprocess.run(sys.argv[1:]).returncode)
"""
# The same from within a task of the job, whose process the driver did not start.
FROM_A_TASK = """
import subprocess
group = placement_group([{"GPU": 2}] * 3, name="own", strategy="STRICT_SPREAD")
ray.get(group.ready(), timeout=60)
@ray.remote(num_cpus=0)
def check(words):
    done = subprocess.run(words, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr
code, printed = ray.get(check.remote(sys.argv[1:]))
print(printed)
sys.exit(code)
"""
# Of a worker that Ray started before there was a job to start it for.
FROM_AN_EARLIER_WORKER = FROM_A_TASK.replace(
    "text=True", "text=True, env={**os.environ, 'RAY_JOB_ID': 'f' * 8}"
).replace("import subprocess", "import os, subprocess")


@pytest.fixture(scope="module")
def cluster(lab_is_possible):
    """Three hosts of one Ray cluster that counts two GPUs on each, and takes jobs."""
    needs_lab(ray.why_not_submitted())
    with Lab.create(3) as lab, ray.RayLab(lab, takes_jobs=True, gpus=2) as made:
        yield made


@contextlib.contextmanager
def held(cluster, program):
    """While a job holds what it reserves -> Ray's id of node3."""
    argv = cluster.command([sys.executable, "-c", BEGIN + program + HOLD])
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as job:
        try:
            words = next(line for line in job.stdout if line.startswith("ready")).split()
            yield words[1]
        finally:
            job.stdin.close()
            job.wait(30)


def run(cluster, *words, within=()):
    """A quick run on the head, by itself or within a job -> exit code, its findings by verdict and nodes, its print."""
    folder = cluster.lab.shared / f"run-{len(list(cluster.lab.shared.iterdir()))}"
    done = cluster.run(
        [*within, "preflight", "run", "--hosts=ray", "--profile=quick", f"--report-dir={folder}", *words]
    )
    report = json.loads((folder / "report.json").read_text())
    found = {(one["check"], one["verdict"], *one["nodes"]): one["message"] for one in report["findings"]}
    return done.returncode, found, done.stdout + done.stderr


def typed(printed, program):
    """The commands that what was printed asks for, of a program."""
    return re.findall(rf"`({program} [^`]+)`", printed)


def reserved(found):
    """What is said of reserved GPUs, by node or nodes."""
    return {name[2:]: words for name, words in found.items() if name[:2] == (CHECK, "warn")}


def test_gpus_that_nobody_reserved_are_free(cluster):
    """Nothing is said, and it is looked at."""
    code, found, printed = run(cluster)
    assert (code, reserved(found)) == (0, {}), printed
    assert (CHECK, "pass", "node1", "node2", "node3") in found


def test_a_placement_group_and_actors_of_others_are_told(cluster):
    """Which node, how many of how many, by whom; a group that waits holds none, and what ended holds none any more."""
    with held(cluster, GROUP):
        code, found, printed = run(cluster)
    words = reserved(found)
    assert (code, len(words)) == (0, 2), printed
    assert sorted(text.partition(":")[0] for text in words.values()) == [
        "Ray reserved 1 of 2 GPUs",
        "Ray reserved 2 of 2 GPUs",
    ]
    assert all("placement group rollout (" in text and ", CREATED, job " in text for text in words.values()), words
    with held(cluster, ACTOR):
        code, found, printed = run(cluster)
        (fix,) = typed(printed, "ray list actors")
        assert "Actor" in cluster.run(["sh", "-c", fix]).stdout
    assert (code, reserved(found)) == (
        0,
        {("node2",): "Ray gave 1 of 2 GPUs to actors or tasks outside of placement groups"},
    ), printed
    code, found, printed = run(cluster)
    assert (code, reserved(found)) == (0, {}), printed


def test_a_group_that_outlives_its_job_is_gone_once_the_fix_was_typed(cluster):
    """Whatever its name, and whatever namespace it has it in."""
    with held(cluster, DETACHED):
        pass
    code, found, printed = run(cluster)
    (words,) = reserved(found).values()
    (fix,) = typed(printed, "python")
    done = cluster.run(["sh", "-c", fix.replace("ID'", re.search(r"kept \((\w+),", words)[1] + "'")])
    assert done.returncode == 0, done.stderr
    code, found, printed = run(cluster)
    assert (code, reserved(found)) == (0, {}), printed


@pytest.mark.parametrize("program", [GATED, FROM_A_TASK, FROM_AN_EARLIER_WORKER], ids=["driver", "task", "worker"])
def test_what_the_job_reserved_that_gates_itself_is_its_own(cluster, program):
    """Its driver starts preflight, or a task of it does."""
    code, found, printed = run(cluster, within=[sys.executable, "-c", BEGIN + program])
    assert (code, reserved(found)) == (0, {}), printed
    assert (CHECK, "pass", "node1", "node2", "node3") in found


def test_what_a_submitted_job_reserved_is_its_own(cluster):
    """Another program of its entrypoint holds the group."""
    shared = cluster.lab.shared
    reserve = (
        "group = placement_group([{'GPU': 2}] * 3, strategy='STRICT_SPREAD')\nray.get(group.ready(), timeout=60)\n"
    )
    (shared / "reserve.py").write_text(f"{BEGIN}{reserve}open(sys.argv[1], 'w').close()\ntime.sleep(600)\n")
    entry = shared / "entry.sh"
    entry.write_text(
        f"export PATH={ray.PATH}\npython {shared}/reserve.py {shared}/is-reserved & other=$!\n"
        f"while [ ! -e {shared}/is-reserved ]; do kill -0 $other || exit 9; sleep 0.2; done\n"
        f"preflight run --hosts=ray --profile=quick --report-dir={shared}/submitted; code=$?\n"
        "kill $other; exit $code\n"
    )
    done = cluster.run(["ray", "job", "submit", "--address=http://127.0.0.1:8265", "--", "bash", str(entry)])
    assert done.returncode == 0, done.stdout + done.stderr
    findings = json.loads((shared / "submitted" / "report.json").read_text())["findings"]
    assert [one["verdict"] for one in findings if one["check"] == CHECK] == ["pass"], done.stdout


def test_a_drained_node_is_told_and_not_used(cluster):
    """Ray gives it no task any more: it is an error of that node, with the time that it has; the others are judged."""
    with held(cluster, BUSY) as node:
        drain = ["--reason=DRAIN_NODE_REASON_PREEMPTION", "--reason-message=reclaimed"]
        drained = cluster.run(["ray", "drain-node", f"--node-id={node}", *drain, "--deadline-remaining-seconds=3000"])
        assert drained.returncode == 0, drained.stderr
        code, found, printed = run(cluster)
    assert code == 3, printed
    words = found["reach.every_node_answers", "error", "node3"]
    assert "Ray drains the node, which takes no task any more and ends within 50 min; wait for" in words
    assert (CHECK, "pass", "node1", "node2") in found, printed
    fix, *_ = typed(printed, "ray list nodes")
    left = cluster.run(["sh", "-c", fix]).stdout
    assert [cluster.lab[node].address in left for node in ("node2", "node3")] == [True, False], left
    done = cluster.run(["preflight", "run", "--hosts=ray", "--need=3"])  # it ended with its last actor
    assert done.returncode == 3, done.stdout + done.stderr
    assert "node3" not in done.stderr, done.stderr
