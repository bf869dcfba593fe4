"""RayCluster."""

from __future__ import annotations

import json
import re

import pytest

from preflight.said import value_in
from tests.launch.manifests.kinds.pods import pod
from tests.launch.samples import judged, rules


def test_a_cluster_of_rays_is_read_for_its_pods():
    """The operator starts Ray, and gives each pod a volume at /dev/shm; the rest of a pod is judged."""
    text = "apiVersion: ray.io/v1\nkind: RayCluster\nspec:\n  headGroupSpec:\n    template:\n      spec: {pod}\n"
    right = text.replace("{pod}", pod("[sleep, inf]"))
    assert rules({"ray.yaml": right}) == []
    assert rules({"ray.yaml": right.replace("/dev/shm", "/tmp/x")}) == []
    assert rules({"ray.yaml": right.replace("limits: {", "limits: {rdma/hca: 1, ")}) == ["containers_lock_memory"]


RAY = """apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: ray}
spec:
  headGroupSpec:
    rayStartParams: {num-gpus: "8"}
    template:
      spec:
        containers:
        - {name: head, image: ray, resources: {limits: {nvidia.com/gpu: 8}}}
"""


def test_ray_hands_out_the_gpus_that_a_pod_has():
    """No more than its limit; fewer may be meant."""
    assert "processes_match_devices" in rules({"ray.yaml": RAY.replace('num-gpus: "8"', 'num-gpus: "16"')})
    for told in ("8", "0"):
        found = rules({"ray.yaml": RAY.replace('num-gpus: "8"', f'num-gpus: "{told}"')})
        assert "processes_match_devices" not in found


@pytest.mark.parametrize("bare", ["8", "0.5"])
@pytest.mark.parametrize("group", ["headGroupSpec", "workerGroupSpecs"])
def test_a_number_among_the_start_parameters_is_told_at_its_line(group, bare):
    """The CRD has texts there, and the server refuses a number; of the head and of every group of workers."""
    worker = "    rayStartParams: {}\n"
    text = RAY.replace('{num-gpus: "8"}', "{}") + f"  workerGroupSpecs:\n  - replicas: 1\n{worker}"
    text += RAY.partition("rayStartParams")[2].partition("\n")[2]
    assert "variables_are_texts" not in rules({"ray.yaml": text})
    empty = worker if group == "workerGroupSpecs" else "    rayStartParams: {}\n    template"
    wrong = text.replace(empty, empty.replace("{}", f"{{num-cpus: {bare}}}"), 1)
    (found,) = [one for one in judged({"ray.yaml": wrong}) if one.check == "launch.variables_are_texts"]
    assert (str(found.verdict), value_in(found.message, "text")) == ("fail", bare)
    assert wrong.splitlines()[found.where[0].line - 1].strip() == f"rayStartParams: {{num-cpus: {bare}}}"


JOB = """apiVersion: ray.io/v1
kind: RayJob
metadata: {name: ray}
spec:
  entrypoint: python -m verl.trainer.main_ppo trainer.nnodes={nodes} trainer.n_gpus_per_node=8
  rayClusterSpec:
    enableInTreeAutoscaling: {grows}
    headGroupSpec:
      template: {spec: {containers: [{name: head, image: ray}]}}
    workerGroupSpecs:
    - replicas: 2
      template:
        spec:
          containers:
          - {name: worker, image: ray, resources: {limits: {nvidia.com/gpu: 8}}}
"""


@pytest.mark.parametrize(("nodes", "grows", "is_told"), [(2, "false", False), (4, "false", True), (4, "true", False)])
def test_the_program_of_a_job_counts_on_no_more_gpus_than_its_pods_have(nodes, grows, is_told):
    """A cluster that grows by itself may get there."""
    text = JOB.replace("{nodes}", str(nodes)).replace("{grows}", grows)
    assert ("resources_are_enough" in rules({"ray.yaml": text})) is is_told


@pytest.mark.parametrize(
    ("entrypoint", "behind"),
    [
        ("python train.py --steps 4", ""),
        ("bash -c 'preflight run --hosts=ray && python train.py'", ""),
        ("python train.py 2>&1 | tee /log", ""),
        ('python -c "\nimport ray\nray.init()\n"', ""),
        ("python train.py \\\n  --steps 4\n", ""),
        ("preflight run --hosts=ray && python train.py", "python train.py"),
        ("cd /job; python train.py; date", "python train.py; date"),
        ("# prepare\npip install -r /job/req.txt\npython train.py\n", "python train.py"),
        ("test -f /x || exit 1 && python train.py", "exit 1 && python train.py"),
    ],
)
@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode", ""])
def test_the_program_of_a_job_is_one_command_unless_ray_gets_it_itself(entrypoint, behind, mode):
    """The others run in the pod that submits; with HTTPMode no shell of a pod reads it."""
    text = JOB.replace("{nodes}", "2").replace("{grows}", "false")
    told = json.dumps(entrypoint) + (f"\n  submissionMode: {mode}" if mode else "")
    text = re.sub(r"entrypoint: .*", lambda _: f"entrypoint: {told}", text)
    found = [one for one in judged({"ray.yaml": text}) if one.check == "launch.entrypoint_runs_in_the_cluster"]
    wanted = [] if mode == "HTTPMode" or not behind else [(behind, 5)]
    assert [(value_in(one.message, "behind"), one.where[0].line) for one in found] == wanted
