"""Does a real kubectl reach pods as ssh reaches hosts, and are the failures of Kubernetes told rightly?"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.lab import faults
from tests.lab import kubernetes as pods_lab
from tests.lab.fixtures import needs_lab
from tests.lab.kubernetes import PodsLab
from tests.lab.lab import Lab
from tests.lab.reports import report_of

PYTHON = f"--python={sys.executable}"


@pytest.fixture(scope="module")
def cluster(lab_is_possible):
    """Three hosts that are also three pods; tests leave the pods as they were."""
    needs_lab(pods_lab.why_not())
    with Lab.create(3) as lab, PodsLab(lab) as made:
        yield made


# What is judged only while a peer is among the neighbours, which the first run makes it.
OF_THE_MOMENT = {"network.peers_are_taken_for_their_own_cards"}


def judged(folder):
    """What the run found, node by node; the words only of what is wrong, for they hold no figure that varies."""
    return {
        (found["check"], node, found["verdict"], found["message"] if found["verdict"] in ("warn", "fail") else "")
        for found in report_of(folder)["findings"]
        for node in found["nodes"]
        if found["check"] not in OF_THE_MOMENT
    }


def test_three_pods_give_the_findings_of_the_same_three_hosts_over_ssh(cluster, tmp_path):
    """In the order of the job's ranks; a later run takes nodes-good.txt as it stands; the pods keep nothing."""
    before = cluster.lab.residue()
    done = {}
    with faults.mtu(cluster.lab["node2"], 1400):
        for way, hosts in (("ssh", "node[1-3]"), ("pods", cluster.hosts)):
            words = [f"--hosts={hosts}", PYTHON, "--profile=quick", f"--report-dir={tmp_path / way}"]
            done[way] = cluster.run(["preflight", "run", *words])
    assert {way: run.returncode for way, run in done.items()} == {"ssh": 1, "pods": 1}, done
    assert judged(tmp_path / "pods") == judged(tmp_path / "ssh")
    (note,) = report_of(tmp_path / "pods")["notes"]
    assert note.endswith("node1 (machine-0), node2 (machine-1), node3 (machine-2)")
    hosts = [info["host"] for info in report_of(tmp_path / "pods")["nodes"].values()]
    racks = [info["rack"] for info in report_of(tmp_path / "pods")["nodes"].values()]
    assert racks == ["switch leaf0", "switch leaf0", "switch leaf1"]
    assert hosts == [f"k8s:train/pod/node{n + 1}:trainer@machine-{n}" for n in range(3)]
    again = ["preflight", "run", "--dry-run", f"--hosts=@{tmp_path}/pods/nodes-good.txt"]
    assert (
        "node3: kubectl exec --stdin --quiet --namespace=train --container=trainer node3" in cluster.run(again).stdout
    )
    assert cluster.lab.left_since(before) == {}


def test_what_is_written_for_pods_is_right_for_them(cluster, tmp_path):
    """By our own rules, against the very pods, without a word; a run with it judges them as ever."""
    words = [f"--hosts={cluster.hosts}", PYTHON]
    made = cluster.run(["preflight", "launch", "write", "--launcher=k8s", *words, f"--out={tmp_path}"])
    assert (made.returncode, made.stdout.split()) == (0, [f"{tmp_path}/train.yaml"]), made.stderr
    files = [f"--launch={tmp_path}/train.yaml", "--profile=quick", f"--report-dir={tmp_path / 'run'}"]
    done = cluster.run(["preflight", "run", *words, *files])
    assert done.returncode == 0, done.stdout
    assert report_of(tmp_path / "run")["plan"]["ranks"], done.stdout


WAITING = {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}
ENDED = {"terminated": {"exitCode": 1, "reason": "Error"}}
KILLED = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
UNSCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
NO_PYTHON = (
    "error executing command in container: failed to exec in container: OCI runtime exec failed: exec failed: unable to"
    ' start container process: exec: "python3": executable file not found in $PATH: unknown'
)


def container(name, **state):
    """The status of a container."""
    return {"name": name, "ready": False, "restartCount": 7, "lastState": {}, "state": state}


def broken(cluster):
    """A pod for each thing that goes wrong with one, and what must be told of it."""
    pod, pending = cluster.pod, {"phase": "Pending", "containerStatuses": []}
    refused = {"metadata": {}, "status": "Failure", "reason": "InternalError", "message": NO_PYTHON, "code": 500}
    crash = {"containerStatuses": [{**container("trainer", waiting=WAITING), "lastState": ENDED}]}
    waits = [container("trainer", waiting={"reason": "PodInitializing"})]
    begins = {"containerStatuses": waits, "initContainerStatuses": [container("fetch", running={})]}
    gated = {**UNSCHEDULED, "reason": "SchedulingGated", "message": "Scheduling is blocked"}
    unscheduled = {**UNSCHEDULED, "message": "0/9 nodes are available: 9 Insufficient nvidia.com/gpu."}
    return [
        (pod("node2", fault={"cut_after_bytes": 1_000}), "the stream through the API server broke"),
        (pod("node3", fault={"killed_after_bytes": 100}), "its container was killed: restarted, evicted or out of"),
        (
            pod(
                "pulls",
                rank=10,
                status={**pending, "containerStatuses": [container("trainer", waiting={"reason": "ImagePullBackOff"})]},
            ),
            "does not run: ImagePullBackOff",
        ),
        (
            pod("waits", rank=11, spec={"nodeName": ""}, status={**pending, "conditions": [unscheduled]}),
            "Pending: Unschedulable, 0/9 nodes",
        ),
        (
            pod(
                "fetches",
                rank=20,
                status={
                    **pending,
                    "containerStatuses": [container("trainer", waiting={"reason": "PodInitializing"})],
                    "initContainerStatuses": [container("fetch", waiting={"reason": "ErrImagePull"})],
                },
            ),
            "PodInitializing, its init container fetch does not run: ErrImagePull",
        ),
        (
            pod("evicted", rank=21, status={"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
            "the pod has ended (Failed: Evicted, low on memory)",
        ),
        (
            pod("begins", rank=22, status={**pending, **begins}),
            "PodInitializing, its init container fetch has not finished",
        ),
        (
            pod("killed", rank=23, status={"phase": "Failed", "containerStatuses": [container("trainer", **KILLED)]}),
            "the pod has ended (Failed: it ended with 137 (OOMKilled))",
        ),
        (pod("gated", rank=24, spec={"nodeName": ""}, status={**pending, "conditions": [gated]}), "SchedulingGated"),
        (pod("crashes", rank=12, status=crash), "CrashLoopBackOff, it ended with 1 (Error) before"),
        (pod("ended", rank=13, status={"phase": "Succeeded"}), "the pod has ended (Succeeded)"),
        (pod("leaves", rank=14, metadata={"deletionTimestamp": "2026-11-22T05:00:00Z"}), "the pod is being deleted"),
        (
            pod("bare", rank=15, fault={"status": refused}),
            "executable file not found in $PATH: unknown): give --python PATH",
        ),
        (pod("denied", rank=16, fault={"forbidden": ["pods/exec"]}), "this user may not run commands in pods"),
        (pod("lost", rank=17, fault={"gone": True}), "there is no such pod any more"),
        (pod("off", rank=18, fault={"kubelet": "i/o timeout"}), "does not reach the kubelet of its node"),
        (pod("silent", rank=19, fault={"silent": True}), "no Python answered"),
    ]


def test_every_way_in_which_a_pod_cannot_be_used_is_told(cluster, tmp_path):
    """Each as its own error, while the others are read; nothing hangs, nothing is left, and one replaced is no node."""
    before = cluster.lab.residue()
    rows = broken(cluster)
    replaced = cluster.pod("replaced", rank=0, status={"phase": "Failed"})
    with cluster.changed(replaced, *(pod for pod, _ in rows)):
        words = [f"--hosts={cluster.hosts}", PYTHON, "--profile=quick", "--deadline=12", f"--report-dir={tmp_path}"]
        done = cluster.run(["preflight", "run", *words], timeout_s=60)
    assert done.returncode == 3, done.stdout + done.stderr
    found = [each for each in report_of(tmp_path)["findings"] if each["check"] == "reach.every_node_answers"]
    said = {node: each for each in found for node in each["nodes"]}
    assert (said["node1"]["verdict"], "replaced" in said) == ("pass", False), done.stdout
    for pod, wanted in rows:
        name = pod["object"]["metadata"]["name"]
        assert wanted in said[name]["message"], (name, said[name])
        assert said[name]["verdict"] == "error"
    assert said["crashes"]["fix"] == "`kubectl logs --previous POD` shows why, then run again"
    assert said["killed"]["fix"].startswith("raise its memory limit")
    assert said["gated"]["fix"] == "`kubectl describe pod POD --namespace=train` shows why, then run again"
    assert said["node3"]["fix"] == "`kubectl describe pod POD` shows which, then run again"
    assert cluster.lab.left_since(before) == {}


@pytest.mark.parametrize(
    ("changes", "hosts", "code", "said"),
    [
        (
            {"token": "expired"},
            None,
            3,
            "token is refused or has expired (kubectl: ",
        ),  # in words that depend on its cache
        ({"port": 1}, None, 3, "nothing listens at the API server's address"),
        ({"context": "nope"}, None, 3, "kubeconfig has no such context (kubectl: context was not found"),
        ({"context": ""}, None, 3, "kubectl asks there where kubeconfig names no cluster"),
        ({"is_trusted": False}, None, 3, "the API server's certificate is not trusted"),
        ({"forbidden": ["pods"]}, None, 3, "this user may not read the pods"),
        ({}, "k8s:train/job-name=other", 4, "no pod matches: `kubectl get pods --namespace=train --selector="),
        ({}, "k8s:other/job-name=llama", 4, "no pod matches"),
    ],
)
def test_a_list_of_pods_that_cannot_be_had_is_one_line(cluster, changes, hosts, code, said):
    """Not asked is an error, nothing there is a wrong --hosts; each says what to do."""
    forbidden = changes.pop("forbidden", ())
    config = {"KUBECONFIG": str(cluster.kubeconfig(**changes))}
    with cluster.changed(forbidden=forbidden):
        done = cluster.run(["preflight", "facts", f"--hosts={hosts or cluster.hosts}"], env=config)
    assert done.returncode == code
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_a_machine_without_kubectl_is_told():
    """Before anything else is tried, and by pytest with the same exit code."""
    for words in (["-m", "preflight", "facts"], ["-m", "pytest"]):
        argv = [sys.executable, *words, f"--hosts={PodsLab.hosts}"]
        done = subprocess.run(argv, env={"PATH": "/nowhere"}, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, "kubectl is not installed here" in done.stdout + done.stderr) == (3, True), done
