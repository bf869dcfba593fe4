"""What does a PyTorchJob of SageMaker HyperPod ask for?"""

from __future__ import annotations

from preflight.launch.manifests import pods
from preflight.launch.manifests.group import Group, group_of, number
from preflight.launch.manifests.pods import Answer
from preflight.launch.text.located import Located


def hyperpod(document: Located, documents: list[Located], file: str) -> Answer:
    """SageMaker HyperPod's PyTorchJob: its operator numbers the pods."""
    del documents
    specs = document.get("spec", "replicaSpecs")
    groups: list[Group] = []
    for spec in specs.each() if specs else []:
        groups += group_of(spec.get("template"), number(spec.get("replicas"), file, 1), "pods")
    torch = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "NODE_RANK", "PET_NODE_RANK", "PET_NNODES")
    return pods.plans(groups, document, file, operator=torch)
