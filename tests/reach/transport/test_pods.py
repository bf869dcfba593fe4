"""Are pods put into the order of their ranks, is the training container found, and is one that does not run told?"""

from __future__ import annotations

import pytest

from preflight.reach.transport.pods import in_order, read_pods
from tests.lab.kubernetes import pod


def read(*pods):
    """The pods of a list of these."""
    return read_pods({"items": list(pods)})


def labelled(name, **labels):
    """A pod of a Job with these labels alone."""
    return pod(name, 0) | {"metadata": {**pod(name, 0)["metadata"], "labels": labels}}


def ordered(*pods):
    """The names in order."""
    return [each.name for each in in_order(read(*pods))]


KUBEFLOW, JOBSET = "training.kubeflow.org/replica-", "jobset.sigs.k8s.io/job-global-index"
COMPLETION = "batch.kubernetes.io/job-completion-index"


@pytest.mark.parametrize(
    "pods",
    [
        [labelled("a-xyz", **{COMPLETION: "2"}), labelled("a-abc", **{COMPLETION: "10"})],
        [labelled("j-1", **{JOBSET: "0", COMPLETION: "1"}), labelled("j-0", **{JOBSET: "1", COMPLETION: "0"})],
        [labelled("w-master-0", **{f"{KUBEFLOW}type": "master", f"{KUBEFLOW}index": "0"}),
         labelled("w-a-0", **{f"{KUBEFLOW}type": "worker", f"{KUBEFLOW}index": "0"})],
        [labelled("web-9"), labelled("web-10")],
    ],
)  # fmt: skip
def test_pods_stand_in_the_order_of_their_ranks(pods):
    """As their controller numbers them; numbers in names count as numbers."""
    names = [each["metadata"]["name"] for each in pods]
    assert ordered(*reversed(pods)) == names


FAILED = {"phase": "Failed"}


def test_a_pod_that_was_replaced_is_no_node():
    """Only by one in its place: a rank that failed, and was not started again, is missed."""
    assert ordered(pod("a", 0, status=FAILED), pod("b", 0), pod("c", 1)) == ["b", "c"]
    assert ordered(pod("a", 0, status=FAILED), pod("c", 1)) == ["a", "c"]
    leaving = pod("a", 0, metadata={"deletionTimestamp": "2026-11-22T05:00:00Z"})
    assert ordered(leaving, pod("b", 0)) == ["b"]
    job = {"labels": {}}  # pods without numbers may each do a part of their own
    assert ordered(pod("a", 0, metadata=job, status=FAILED), pod("b", 0, metadata=job)) == ["a", "b"]


def containers(*names, **annotations):
    """A pod with these containers, the first without GPUs."""
    spec = {"containers": [{"name": name} for name in names]}
    return pod("p", 0, spec=spec, metadata={"annotations": annotations})


@pytest.mark.parametrize(
    ("made", "chosen"),
    [
        (pod("p", 0), "trainer"),
        (containers("istio-proxy", "main", "other"), "main"),
        (containers("istio-proxy"), "istio-proxy"),
        (containers("a", "b", **{"kubectl.kubernetes.io/default-container": "b"}), "b"),
        (containers("a", "b", **{"kubectl.kubernetes.io/default-container": "gone"}), "a"),
    ],
)
def test_the_training_container_is_found(made, chosen):
    """As kubectl is told, else the one with the GPUs, else the first that is no helper of a mesh."""
    (found,) = read(made)
    assert found.training_container == chosen


KILLED = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
PREEMPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
PREEMPTED |= {"message": "a more urgent pod"}
NO_GPUS = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
NO_GPUS |= {"message": "0/9 nodes are available: 9 Insufficient nvidia.com/gpu."}


def initialises(**more):
    """A pod whose init container runs."""
    waits = {"name": "trainer", "state": {"waiting": {"reason": "PodInitializing"}}}
    begins = {"initContainerStatuses": [{"name": "fetch", "state": {"running": {}}}], "containerStatuses": [waits]}
    spec = {"initContainers": [{"name": "fetch", **more}]}
    return pod("p", 0, spec=spec, status={"phase": "Pending", **begins})


def state(**held):
    """A pod whose container is in this state."""
    return pod("p", 0, status={"containerStatuses": [{"name": "trainer", "state": held}]})


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (pod("p", 0), ""),
        (pod("p", 0, status={"containerStatuses": None}), ""),
        (state(waiting={"reason": "ContainerCreating"}), "trainer does not run: ContainerCreating; `kubectl desc"),
        (state(waiting={"reason": "ErrImagePull", "message": "a\n b"}), "ErrImagePull: a b; check the image's name"),
        (initialises(), "PodInitializing, its init container fetch has not finished; wait for it"),
        (initialises(restartPolicy="Always"), "trainer does not run: PodInitializing; `kubectl describe"),
        (
            pod("p", 0, status={"phase": "Failed", "containerStatuses": [{"name": "trainer", "state": KILLED}]}),
            "ended (Failed: it ended with 137 (OOMKilled)); raise its memory limit",
        ),
        (
            pod("p", 0, status={"phase": "Failed", "containerStatuses": None, "conditions": [PREEMPTED]}),
            "(Failed: PreemptionByScheduler, a more urgent pod)",
        ),
        (
            pod("p", 0, status={"phase": "Pending", "containerStatuses": None, "conditions": [NO_GPUS]}),
            "0/9 nodes are available: 9 Insufficient nvidia.com/gpu.; free what other pods hold",
        ),
        (state(terminated={"exitCode": 137, "reason": "OOMKilled"}), "it ended with 137 (OOMKilled)"),
        (pod("p", 0, status={"phase": "Failed", "reason": "Evicted", "message": "low on memory"}), "Evicted, low on"),
        (pod("p", 0, status={"phase": "Unknown"}), "the pod is Unknown;"),
        (pod("p", 0, status={"phase": "Pending", "containerStatuses": None}), "the pod is Pending;"),
    ],
)
def test_why_nothing_can_run_in_a_pod_is_told(made, told):
    """On one line, with where to look; nothing of one that runs."""
    (found,) = read(made)
    said = found.trouble("trainer", "train")
    assert told in said
    assert bool(said) is bool(told)
    assert "\n" not in said


def test_pods_that_crash_alike_are_told_in_the_same_words():
    """So that sixty-four of them are one finding: what kubelet says of a back-off has the pod's own name in it."""
    said = set()
    for name in ("llama-0", "llama-1"):
        waiting = {"reason": "CrashLoopBackOff", "message": f"back-off 5m0s restarting failed container of pod={name}"}
        status = {"containerStatuses": [{"name": "trainer", "state": {"waiting": waiting}}]}
        (found,) = read(pod(name, 0, status=status))
        said.add(found.trouble("trainer", "train"))
    assert len(said) == 1, said


@pytest.mark.parametrize(
    "document",
    [None, [], {"items": {}}, {"items": [None]}, {"items": [{"metadata": 1}]}, {"items": [{**pod("p", 0), "spec": {}}]},
     {"items": [pod("-x", 0)]}, {"items": [pod("p", 0, spec={"containers": [{"name": "a b"}]})]}],
)  # fmt: skip
def test_a_list_that_is_none_is_refused(document):
    """A name that kubectl would take for an option never reaches it."""
    if document in (None, []):
        assert read_pods(document) == ()
        return
    with pytest.raises(ValueError):
        read_pods(document)
