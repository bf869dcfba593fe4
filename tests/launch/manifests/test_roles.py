"""Are templates of one job held against each other?"""

from __future__ import annotations

import pytest

from tests.launch.manifests.kinds.test_volcano import VOLCANO
from tests.launch.samples import failed, rules

START = "torchrun, --nnodes=$(WORLD_SIZE), --nproc_per_node=8, --node_rank={rank}, --master_addr={address}"
POD = """
        spec:
          containers:
          - name: pytorch
            command: [{start}, --master_port={port}, train.py]
            resources: {{limits: {{nvidia.com/gpu: 8}}}}
            volumeMounts: [{{name: shm, mountPath: /dev/shm}}]
          volumes: [{{name: shm, emptyDir: {{medium: Memory}}}}]"""


def by_operator(*, rank: str = "1", port: int = 29500, address: str = "train-master-0", more: str = "") -> str:
    """A PyTorchJob whose Master is node 0 at port 29500, and its Worker as given."""
    pods = [
        POD.format(start=START.format(rank=number, address=place), port=at) + more
        for number, at, place in (("0", 29500, "train-master-0"), (rank, port, address))
    ]
    head = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: train}\nspec:\n  pytorchReplicaSpecs:"
    roles = zip(("Master", "Worker"), pods, strict=True)
    return head + "".join(f"\n    {role}:\n      replicas: 1\n      template:{pod}" for role, pod in roles) + "\n"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, []),
        ({"rank": "$(RANK)"}, []),
        ({"rank": "0"}, ["ranks_are_distinct"]),
        ({"rank": "2"}, ["rank_is_in_range"]),
        ({"port": 29501}, ["fields_agree"]),
        ({"address": "trial-master-0"}, ["headless_service_is_there", "fields_agree"]),
    ],
)
def test_master_and_worker(given, found):
    """A rank of its own, and one place to meet, which is a pod of the job."""
    assert sorted(failed({"job.yaml": by_operator(**given)})) == sorted(found)


def test_workers_of_one_template_share_no_rank():
    """A rank that the template spells out is that of each of its pods."""
    text = by_operator().replace("Worker:\n      replicas: 1", "Worker:\n      replicas: 2")
    assert failed({"job.yaml": text}) == ["static_rendezvous_has_node_ranks"]


def test_a_host_may_be_called_a_worker():
    """On the hosts' own network the address is a host's."""
    text = by_operator(more="\n          hostNetwork: true").replace("train-master-0", "rack-worker-3")
    assert "headless_service_is_there" not in failed({"job.yaml": text})
    assert failed({"job.yaml": text.replace("hostNetwork: true", "")}) == ["headless_service_is_there"]


SERVER = (
    "python3, -m, sglang.launch_server, --tp, '16', --dist-init-addr, '$(LWS_LEADER_ADDRESS):{port}', --nnodes, '2'"
)


def groups(*, rank: str = "$(LWS_WORKER_INDEX)", port: int = 20000) -> str:
    """A LeaderWorkerSet of SGLang, its worker as given."""
    head = "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: serve}\nspec:\n"
    pods = [
        POD.replace("[{start}, --master_port={port}, train.py]", f"[{SERVER.format(port=at)}, --node-rank, '{number}']")
        for number, at in (("$(LWS_WORKER_INDEX)", 20000), (rank, port))
    ]
    leader, worker = (pod.replace("{{", "{").replace("}}", "}") for pod in pods)
    return f"{head}  leaderWorkerTemplate:\n    size: 2\n    leaderTemplate:{leader}\n    workerTemplate:{worker}\n"


@pytest.mark.parametrize(
    ("given", "found"),
    [({}, []), ({"rank": "0"}, ["ranks_are_distinct"]), ({"rank": "1"}, []), ({"port": 20001}, ["fields_agree"])],
)
def test_leader_and_worker(given, found):
    """The leader is node 0 by its index, and all meet at its port."""
    assert failed({"job.yaml": groups(**given)}) == found


def test_the_plugin_names_tasks_of_the_job():
    """Volcano's pytorch plugin knows the master and the workers by the names of their tasks."""
    assert rules({"job.yaml": VOLCANO}) == []
    for old, new in (("--master=master", "--master=head"), ("--worker=worker", "--worker=workers")):
        assert failed({"job.yaml": VOLCANO.replace(old, new)}) == ["pods_know_their_rank"]
