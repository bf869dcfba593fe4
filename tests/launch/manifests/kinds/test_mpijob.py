"""MPIJob."""

from __future__ import annotations

import pytest

from tests.launch.manifests.kinds.pods import pod
from tests.launch.plans import launches, values
from tests.launch.samples import failed, judged, rules

MPIJOB = f"""apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {{name: train}}
spec:
  slotsPerWorker: 8
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec: {{containers: [{{name: l, command: [mpirun, -np, "16", -x, NCCL_DEBUG=INFO, python, t.py]}}]}}
    Worker:
      replicas: 2
      template:
        spec: {pod("[/usr/sbin/sshd, -De]")}
"""


def test_a_right_one_is_silent():
    """mpirun over all slots."""
    assert rules({"job.yaml": MPIJOB}) == []


def test_workers_and_slots_are_the_shape_of_an_mpijob():
    """mpirun's own options need not repeat them."""
    (found,) = launches({"job.yaml": MPIJOB})
    assert [values(found)[name] for name in ("nodes", "processes_per_node", "world_size")] == [2, 8, 16]


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ('"16"', '"32"', "mpi_slots_are_enough"),
        ("gpu: 8", "gpu: 4", "processes_match_devices"),
    ],
)
def test_one_thing_broken_fails(old, new, rule):
    """Each with its rule."""
    assert old in MPIJOB
    assert rule in failed({"job.yaml": MPIJOB.replace(old, new)})


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ('"16"', '"8"', "mpi_slots_are_enough"),
    ],
)
def test_what_is_fragile_is_a_warning(old, new, rule):
    """Workers without a process."""
    assert old in MPIJOB
    found = judged({"job.yaml": MPIJOB.replace(old, new)})
    assert [(finding.check, str(finding.verdict)) for finding in found] == [(f"launch.{rule}", "warn")]


def test_the_operators_volumes_may_be_mounted():
    """It adds them to every pod; any other is the file's own."""
    spec = "spec: {containers: [{name: l, "
    mounted = MPIJOB.replace(spec, spec + "image: a, volumeMounts: [{name: mpi-job-config, mountPath: /etc/mpi}], ")
    assert mounted != MPIJOB
    assert rules({"job.yaml": mounted}) == []
    assert rules({"job.yaml": mounted.replace("mpi-job-config", "mine")}) == ["manifest_is_accepted"]


def test_an_interface_that_mpirun_hands_on_is_the_workers():
    """Outside of the hosts' network a pod has eth0."""
    handed = MPIJOB.replace("NCCL_DEBUG=INFO", "NCCL_SOCKET_IFNAME=bond0")
    assert rules({"job.yaml": handed}) == ["interfaces_are_the_pods"]
    assert rules({"job.yaml": handed.replace("bond0", "eth0")}) == []
