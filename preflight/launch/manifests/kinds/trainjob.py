"""What does a TrainJob ask for?"""

from __future__ import annotations

from dataclasses import replace

from preflight.launch.manifests import pods
from preflight.launch.manifests.group import Group, number
from preflight.launch.manifests.pods import Answer
from preflight.launch.plan import fail
from preflight.launch.text.located import Located
from preflight.ledger.findings import Finding, Where

OPERATOR_TORCH = tuple(
    f"PET_{name}" for name in ["NNODES", "NPROC_PER_NODE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"]
)


def trainjob(document: Located, documents: list[Located], file: str) -> Answer:
    """What its trainer says over the pod of its runtime; the controller gives counts and ranks."""
    trainer = document.get("spec", "trainer")
    if trainer is None:
        return [], []
    count = number(trainer.get("numNodes"), file, None)
    own = {**trainer.mapping(), "resources": trainer.mapping().get("resourcesPerNode", Located({}, trainer.line))}
    runtime = _runtime(document, documents)
    pod = _pod_of_runtime(runtime)
    known = next(iter(pod.mapping()["containers"].each()), None) if pod is not None else None
    container = Located({**(known.mapping() if known is not None else {}), **own}, trainer.line)
    held = {**(pod.mapping() if pod is not None else {}), "containers": Located([container], trainer.line)}
    # a runtime that is not in the file brings volumes of its own
    group = Group(Located(held, trainer.line), count, "trainer", knows_volumes=pod is not None)
    plans, problems = pods.plans([group], document, file, operator=OPERATOR_TORCH)
    nproc = number(trainer.get("numProcPerNode"), file)
    if nproc is not None:
        plans = [replace(plan, processes_per_node=nproc) for plan in plans]
    return plans, [*problems, *_given_by_torch(trainer, file), *pods.against_gpus(plans, [group])]


def _runtime(document: Located, documents: list[Located]) -> Located | None:
    """The runtime in the same file that a TrainJob refers to."""
    wanted = document.get("spec", "runtimeRef", "name")
    for held in documents:
        kind, name = held.get("kind"), held.get("metadata", "name")
        is_one = kind is not None and str(kind.value).endswith("TrainingRuntime")
        if is_one and wanted is not None and name is not None and name.text == wanted.text:
            return held
    return None


def _pod_of_runtime(runtime: Located | None) -> Located | None:
    """The pod of a runtime that has one job, the training's."""
    jobs = runtime.get("spec", "template", "spec", "replicatedJobs") if runtime is not None else None
    held = jobs.each() if jobs is not None else []
    pod = held[0].get("template", "spec", "template", "spec") if len(held) == 1 else None
    return pod if pod is not None and pod.get("containers", 0) is not None else None


def _given_by_torch(trainer: Located, file: str) -> list[Finding]:
    """The variables by which the controller tells torchrun of the nodes are not the user's to set."""
    env = trainer.get("env")
    names = [name for entry in (env.each() if env is not None else ()) if (name := entry.get("name")) is not None]
    return [
        fail(
            "manifest_is_accepted",
            f"{name.text} is set by the controller: the cluster refuses a TrainJob that sets it",
            Where(file, name.line),
            fix="set numNodes and numProcPerNode of the trainer",
        )
        for name in names
        if name.value in OPERATOR_TORCH
    ]
