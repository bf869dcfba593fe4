"""What does a TrainJob ask for?"""

from __future__ import annotations

import re
from dataclasses import replace

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import value_of
from preflight.launch.launchers.kubernetes import KUBERNETES
from preflight.launch.manifests import pods
from preflight.launch.manifests.group import Group, number
from preflight.launch.manifests.kinds.mpijob import slots_are_filled
from preflight.launch.manifests.pods import Answer
from preflight.launch.plan import Plan, fail, warn
from preflight.launch.text.located import Located
from preflight.said import said

PYTHON = re.compile(r"(.*/)?python[\d.]*")
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
    policy = runtime.get("spec", "mlPolicy") if runtime is not None else None
    mpi = policy.get("mpi") if policy is not None else None
    if mpi is not None:
        each = nproc if nproc is not None else number(mpi.get("numProcPerNode"), file, 1)
        started = (plan for plan in plans if plan.launcher.name == "mpirun")
        problems.extend(one for plan in started for one in slots_are_filled(plan, count, each))
    problems.extend(_runtime_is_there(document, documents, file))
    if _is_of_torch(document, policy) and (value_of(count) or 1) > 1 and not plans_of_programs(plans):
        problems.extend(_plain_python(trainer, file))
    return plans, [*problems, *_given_by_torch(trainer, file), *pods.against_gpus(plans, [group])]


def plans_of_programs(plans: list[Plan]) -> list[Plan]:
    """The plans that start something, not the pods alone."""
    return [plan for plan in plans if plan.launcher is not KUBERNETES]


def _is_of_torch(document: Located, policy: Located | None) -> bool:
    """Whether the runtime is known to be torch's: it says so, or its name does."""
    if policy is not None:
        return policy.get("torch") is not None
    name = document.get("spec", "runtimeRef", "name")
    return name is not None and name.text.startswith("torch-distributed")


def _plain_python(trainer: Located, file: str) -> list[Finding]:
    """The controller tells torchrun of the nodes, by PET_ variables; a plain python is told nothing."""
    words = [word for part in ("command", "args") if (held := trainer.get(part)) for word in held.each()]
    if len(words) < 2 or not PYTHON.fullmatch(words[0].text) or not words[1].text.endswith(".py"):
        return []
    message = said(
        "python {text} gets neither RANK nor WORLD_SIZE: the runtime of torch tells torchrun alone", words[1].text
    )
    return [warn("pods_know_their_rank", message, Where(file, words[0].line), fix=f"torchrun {words[1].text}")]


def _runtime_is_there(document: Located, documents: list[Located], file: str) -> list[Finding]:
    """A runtime in the file is there to be referred to, by its name and its kind."""
    name, kind = document.get("spec", "runtimeRef", "name"), document.get("spec", "runtimeRef", "kind")
    wanted = (kind.text if kind is not None else "ClusterTrainingRuntime", name.text if name is not None else "")
    held = [
        (of_kind.text, own.text)
        for one in documents
        if (of_kind := one.get("kind")) is not None
        and of_kind.text.endswith("TrainingRuntime")
        and (own := one.get("metadata", "name")) is not None
    ]
    jobs = [one for one in documents if (of_kind := one.get("kind")) is not None and of_kind.text == "TrainJob"]
    if name is None or not held or wanted in held or len(jobs) > 1:
        return []
    listed = ", ".join(" ".join(one) for one in held)
    message = said("runtimeRef asks for {wanted}, and the file has {listed}", " ".join(wanted), listed)
    fix = said("runtimeRef: {{kind: {held}, name: {held2}}}", held[0][0], held[0][1])
    return [warn("runtime_is_there", message, Where(file, name.line), fix=fix)]


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
            said("{text} is set by the controller: the cluster refuses a TrainJob that sets it", name.text),
            Where(file, name.line),
            fix="set numNodes and numProcPerNode of the trainer",
        )
        for name in names
        if name.value in OPERATOR_TORCH
    ]
