"""Is a manifest told that the cluster would refuse?"""

from __future__ import annotations

import pytest

from tests.launch.samples import INDEXED, PYTORCHJOB, judged, rules

RESTART = "      restartPolicy: Never\n"


def refused(text):
    """The messages of what the cluster refuses."""
    return [one.message for one in judged({"job.yaml": text}) if one.check == "launch.manifest_is_accepted"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("completions: 2", 'completions: "2"', 'completions: "2" is a string, and the field must be a number'),
        (
            RESTART,
            f'{RESTART}      hostNetwork: "true"\n',
            'hostNetwork: "true" is a string, and the field must be true or false',
        ),
        (
            RESTART,
            f"{RESTART}      nodeSelector: {{gpu: true}}\n",
            "gpu: true is not a string, and the field must be one",
        ),
        ("restartPolicy: Never", "restartPolicy: Always", "restartPolicy: Always, and the pods of a Job take Never"),
        (RESTART, "", "no restartPolicy means Always, and the pods of a Job take Never, OnFailure"),
    ],
)
def test_what_the_cluster_refuses_is_told(old, new, said):
    """Texts in the place of numbers, and a pod that a Job may not have."""
    assert old in INDEXED
    (message,) = refused(INDEXED.replace(old, new, 1))
    assert message.startswith(said)
    assert refused(INDEXED) == []


def test_a_mounted_volume_is_one_of_the_pod():
    """A volume of another name; one that the set claims for its pods is there."""
    named = PYTORCHJOB.replace("volumes:\n          - name: ", "volumes:\n          - name: other-")
    assert named != PYTORCHJOB
    assert "is mounted, but the pod has only other-shm" in refused(named)[0]
    claimed = """apiVersion: apps/v1
kind: StatefulSet
metadata: {name: train}
spec:
  replicas: 2
  template:
    spec:
      containers:
      - name: t
        image: trainer
        command: [torchrun, --standalone, t.py]
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
"""
    assert refused(claimed) == []
    assert refused(claimed.replace("name: data}\n", "name: scratch}\n")) != []


def test_the_processes_of_a_pytorchjob_are_a_text():
    """nprocPerNode may also be auto, and so is a text of the API."""
    spec = PYTORCHJOB.replace("spec:\n", 'spec:\n  nprocPerNode: "8"\n', 1)
    assert refused(spec) == []
    assert refused(spec.replace('"8"', "8", 1)) == [
        "nprocPerNode: 8 is not a string, and the field must be one: the cluster refuses it"
    ]


def test_a_device_is_asked_for_by_its_limit():
    """Requests alone are refused, of adapters too."""
    text = PYTORCHJOB.replace("limits:", "requests:")
    assert "gpu_requests_equal_limits" in rules({"job.yaml": text})


def test_a_patch_is_no_whole_manifest():
    """What kustomize merges with another file lacks what stands there."""
    patch = (
        INDEXED.replace("        image: pytorch/pytorch\n", "").replace(RESTART, "").replace("  completions: 2\n", "")
    )
    assert refused(patch) == []
