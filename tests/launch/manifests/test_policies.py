"""Are policies told that keep the pods of a job apart?"""

from __future__ import annotations

import pytest

from tests.launch.samples import INDEXED, judged, rules

LABELLED = INDEXED.replace(
    "  template:\n    spec:\n", "  template:\n    metadata:\n      labels: {app: train}\n    spec:\n"
)


def policy(spec, namespace=""):
    """The job beside a policy."""
    space = f", namespace: {namespace}" if namespace else ""
    head = f"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: deny{space}}}\n"
    return f"{head}spec: {spec}\n---\n{LABELLED}"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("{podSelector: {}, policyTypes: [Ingress]}", "lets them receive nothing"),
        ("{podSelector: {matchLabels: {app: train}}, ingress: []}", "lets them receive nothing"),
        ("{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]}", "receive nothing"),
        ("{podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: 53}]}]}", "opens single ports"),
        ("{podSelector: {}, policyTypes: [Egress]}", "lets them send nothing"),
        ("{podSelector: {}, ingress: [{ports: [{port: 29500}]}]}", "opens single ports"),
    ],
)
def test_a_policy_that_keeps_pods_apart_fails(spec, said):
    """All of it, or all but one port."""
    (found,) = judged({"job.yaml": policy(spec)})
    assert (found.check, str(found.verdict)) == ("launch.policies_let_pods_talk", "fail")
    assert said in found.message


@pytest.mark.parametrize(
    "spec",
    [
        "{podSelector: {matchLabels: {app: web}}}",
        "{podSelector: {}, ingress: [{}]}",
        "{podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}",
        "{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {job-name: train}}}]}]}",
        "{podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]}",
        "{podSelector: {}, ingress: [{ports: [{port: 1024, endPort: 65535}]}]}",
        "{podSelector: {}, ingress: [{ports: [{port: 22}]}, {from: [{podSelector: {matchLabels: {app: train}}}]}]}",
    ],
)
def test_a_policy_that_lets_them_talk_is_silent(spec):
    """It selects others, or one of its rules allows every port to the job's own pods."""
    assert rules({"job.yaml": policy(spec)}) == []


def test_a_policy_of_another_namespace_is_not_theirs():
    """Where both say their namespace."""
    text = policy("{podSelector: {}}", "web").replace(
        "kind: Job\nmetadata:\n", "kind: Job\nmetadata:\n  namespace: ml\n"
    )
    assert rules({"job.yaml": text}) == []


@pytest.mark.parametrize(
    ("of_policy", "of_job", "is_told"), [("", "", True), ("", "ml", True), ("web", "", True), ("web", "ml", False)]
)
def test_a_namespace_that_is_not_named_may_be_any(of_policy, of_job, is_told):
    """It is given with `kubectl -n`; where both name one, it must be the same."""
    text = policy("{podSelector: {}}", of_policy) if of_policy else policy("{podSelector: {}}")
    if of_job:
        text = text.replace("kind: Job\nmetadata:\n", f"kind: Job\nmetadata:\n  namespace: {of_job}\n")
    assert ("policies_let_pods_talk" in rules({"job.yaml": text})) is is_told
