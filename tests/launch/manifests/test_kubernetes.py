"""Job manifests."""

from __future__ import annotations

from tests.launch.samples import PYTORCHJOB, judged


def test_other_kinds_and_templates_are_one_skip():
    """A kind that is not read, a Helm chart, and envsubst's $NAME in a field of the manifest."""
    for text, reason in (
        ("apiVersion: v1\nkind: ConfigMap\n", "kind ConfigMap"),
        ("apiVersion: v1\nkind: MPIJob\n", "kind MPIJob: no command of a known launcher"),
        (PYTORCHJOB.replace("replicas: 1", "replicas: {{ .Values.workers }}", 1), "unrendered template"),
        (PYTORCHJOB.replace("replicas: 1", "replicas: $NUM_NODES", 1), "$NUM_NODES is not filled in"),
    ):
        (found,) = judged({"job.yaml": text})
        assert str(found.verdict) == "skip"
        assert reason in found.message
