"""What do MPIJob, LeaderWorkerSet, StatefulSet, Volcano's Job, Ray's and plain Pods ask for?"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from preflight.launch.field import Field, Sourced, Unknown, firm
from preflight.launch.manifests import admission, pods, roles, services
from preflight.launch.manifests.group import Group, number, total
from preflight.launch.manifests.pods import Answer
from preflight.launch.plan import Plan, fail, warn
from preflight.launch.text.located import Located
from preflight.ledger.findings import Finding, Where

VOLCANO_TORCH = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")


def group_of(held: Located | None, count: Field[int], role: str) -> list[Group]:
    """The group of a pod template, none where it has no pod."""
    pod = held.get("spec") if held is not None else None
    return [Group(pod, count, role, metadata=held.get("metadata"))] if held is not None and pod is not None else []


def _claims(held: Located | None) -> tuple[str, ...]:
    """The names of the volumes that a set claims for each of its pods."""
    templates = held.get("volumeClaimTemplates") if held is not None else None
    named = (template.get("metadata", "name") for template in (templates.each() if templates else ()))
    return tuple(str(name.value) for name in named if name is not None)


def _in_a_set(
    groups: list[Group], held: Located | None, controller: str, file: str
) -> tuple[list[Group], list[Finding]]:
    """The groups with the volumes that their set claims for them, and what the cluster refuses of their pods."""
    wrong = [one for group in groups for one in admission.restarts(group.pod, controller, ("Always",), "Always", file)]
    return [replace(group, claims=_claims(held)) for group in groups], wrong


def mpijob(document: Located, documents: list[Located], file: str) -> Answer:
    """One launcher pod that runs mpirun, and workers with `slotsPerWorker` slots each."""
    del documents
    roles = document.get("spec", "mpiReplicaSpecs")
    launcher, worker = (roles.get(role) if roles else None for role in ("Launcher", "Worker"))
    if launcher is None or worker is None:
        return [], []
    workers, slots = number(worker.get("replicas"), file, 1), number(document.get("spec", "slotsPerWorker"), file, 1)
    as_workers = group_of(worker.get("template"), workers, "Worker")
    _, problems = pods.plans(as_workers, document, file, are_nodes=False)
    found, more = pods.plans(group_of(launcher.get("template"), None, "Launcher"), document, file, are_nodes=False)
    problems.extend(more)
    placed = []
    for plan in found:
        if plan.launcher.name != "mpirun":
            placed.append(replace(plan, nodes=plan.nodes or workers))
            continue
        placed.append(replace(plan, nodes=workers, processes_per_node=slots))
        problems.extend(_slots(plan, workers, slots))
    gpus = as_workers[0].gpus(file) if as_workers else None
    if isinstance(gpus, Sourced) and isinstance(slots, Sourced) and slots.value > gpus.value > 0:
        message = (
            f"slotsPerWorker {slots.value}, and a worker has {gpus.value} GPU{'s' * (gpus.value != 1)}:"
            " processes share a GPU"
        )
        where = slots.where if slots.origin != "tool" else gpus.where
        problems.append(
            fail("processes_match_devices", message, where, gpus.where, fix=f"slotsPerWorker: {gpus.value}")
        )
    elif isinstance(gpus, Sourced) and isinstance(slots, Sourced) and slots.value < gpus.value:
        message = f"slotsPerWorker {slots.value}, and a worker has {gpus.value} GPUs; idle: {gpus.value - slots.value}"
        where = slots.where if slots.origin != "tool" else gpus.where
        agents = any(plan.launcher.has_agent for plan in found)
        if not agents and any(plan.launcher.name == "mpirun" for plan in found):
            problems.append(
                warn("processes_match_devices", message, where, gpus.where, fix=f"slotsPerWorker: {gpus.value}")
            )
    return placed, problems


def _slots(plan: Plan, workers: Field[int], slots: Field[int]) -> list[Finding]:
    """mpirun starts no more processes than the workers have slots, and no fewer without leaving some out."""
    world = plan.world_size
    if not isinstance(world, Sourced) or not isinstance(workers, Sourced) or not isinstance(slots, Sourced):
        return []
    have = workers.value * slots.value
    places = [held.where for held in (world, workers, slots) if held.origin != "tool"]
    if world.value > have and "oversubscribe" not in plan.settings:
        message = (
            f"-np {world.value}, and {workers.value} worker{'s' * (workers.value != 1)} with"
            f" {slots.value} slot{'s' * (slots.value != 1)} have {have}: mpirun refuses it"
        )
        return [fail("mpi_slots_are_enough", message, *places, fix=f"-np {have}")]
    if world.value < have:
        message = (
            f"-np {world.value}, and {workers.value} worker{'s' * (workers.value != 1)} with"
            f" {slots.value} slot{'s' * (slots.value != 1)} have {have}: some get no process"
        )
        return [warn("mpi_slots_are_enough", message, *places, fix=f"-np {have}")]
    return []


def leaderworkerset(document: Located, documents: list[Located], file: str) -> Answer:
    """Groups of one leader and `size` - 1 workers; every group is a job of its own."""
    del documents
    template = document.get("spec", "leaderWorkerTemplate")
    if template is None:
        return [], []
    size = number(template.get("size"), file, 1)
    worker, leader = template.get("workerTemplate"), template.get("leaderTemplate")
    if not isinstance(size, Sourced) or (leader is None and worker is None):
        return [], []
    rest = Sourced(max(size.value - 1, 0), file, size.line, size.origin)
    one = Sourced(1, file, size.line, "tool")
    groups = group_of(leader, one, "leader") + group_of(worker, rest if leader is not None else size, "worker")
    groups, refused = _in_a_set(groups, template, "LeaderWorkerSet", file)
    found, problems = pods.plans(groups, document, file, index="LWS_WORKER_INDEX", pods_of_a_job=size)
    problems.extend(one for plan in found for one in services.leaders_name(plan, document))
    return found, [*refused, *problems, *_server_fits(found, groups, size, file), *pods.against_gpus(found, groups)]


def _server_fits(found: list[Plan], groups: list[Group], size: Sourced[int], file: str) -> list[Finding]:
    """tensor x pipeline parallel processes on the GPUs of a group of pods."""
    gpus = {firm(group.gpus(file)) for group in groups} - {None}
    problems: list[Finding] = []
    for plan in found:
        world = plan.world_size
        if plan.launcher.name not in ("vllm", "sglang") or not isinstance(world, Sourced) or len(gpus) != 1:
            continue
        have = size.value * (next(iter(gpus)) or 0)
        spelled = f"{world.value} processes (tensor x pipeline parallel), and {size.value} pods have {have} GPUs"
        if world.value > have:
            problems.append(fail("processes_match_devices", spelled, world.where, size.where))
        elif world.value < have and "data parallel" not in plan.settings:
            message = f"{spelled}: {have - world.value} stay idle"
            problems.append(warn("processes_match_devices", message, world.where, size.where))
    return problems


def statefulset(document: Located, documents: list[Located], file: str) -> Answer:
    """Pods with ordinals in their names, which a headless service makes resolvable."""
    count = number(document.get("spec", "replicas"), file, 1)
    groups = group_of(document.get("spec", "template"), count, "pods")
    groups, refused = _in_a_set(groups, document.get("spec"), "StatefulSet", file)
    found, problems = pods.plans(groups, document, file, index="the ordinal in the pod's name", are_nodes=False)
    problems.extend(refused)
    service = document.get("spec", "serviceName")
    several = [plan for plan in found if plan.spans_nodes]
    if several:
        labels = document.get("spec", "template", "metadata", "labels")
        problems.extend(
            services.headless(
                service,
                several,
                documents,
                file,
                labels=labels,
                owner=document.get("metadata", "name"),
                count=count,
                namespace=document.get("metadata", "namespace"),
                pod=document.get("spec", "template", "spec"),
            )
        )
        problems.extend(found for plan in several for found in services.ordinals(plan, document, count))
        problems.extend(_one_by_one(document, file))
        problems.extend(pods.against_gpus(several, groups))
    return found, problems


def _one_by_one(document: Located, file: str) -> list[Finding]:
    """A StatefulSet starts its next pod when the one before is ready, unless it starts all at once."""
    policy, pod = document.get("spec", "podManagementPolicy"), document.get("spec", "template", "spec")
    held = pod.get("containers") if pod is not None else None
    probes = [probe for one in (held.each() if held else ()) if (probe := one.get("readinessProbe")) is not None]
    if not probes or (policy is not None and policy.value == "Parallel"):
        return []
    message = (
        "pods start one by one, each when the one before is ready: a probe that waits for all of them never passes"
    )
    fix = "podManagementPolicy: Parallel"
    return [warn("gang_is_the_whole_job", message, Where(file, probes[0].line), fix=fix)]


def _names_of_hosts(plan: Plan) -> list[Finding]:
    """VC_<TASK>_HOSTS is the svc plugin's, and so are the names that it lists."""
    address = plan.master_address
    named = re.search(r"VC_\w+_HOSTS", address.expression) if isinstance(address, Unknown) else None
    if named is None or address is None:
        return []
    message = f"rank 0's address comes from {named[0]}, which the svc plugin sets, and the job does not have it"
    return [fail("headless_service_is_there", message, address.where, fix="plugins: {svc: []}")]


def _tasks_of_plugin(given: Located | None, names: list[str], file: str) -> list[Finding]:
    """The pytorch plugin numbers the pods of the tasks that it is told of, `master` and `worker` where it is not."""
    problems = []
    words = given.each() if given is not None and isinstance(given.value, list) else []
    for option in ("master", "worker"):
        held = next((word for word in words if re.fullmatch(rf"--?{option}=.+", word.text)), None)
        name = held.text.partition("=")[2] if held is not None else option
        if name in names or (option == "worker" and held is None and len(names) < 2):
            continue
        where = Where(file, held.line if held is not None else given.line if given is not None else 1)
        message = f"the pytorch plugin's {option} is the task {name}, and the tasks are {', '.join(names)}"
        fix = f"--{option}=<one of {', '.join(names)}>"
        problems.append(fail("pods_know_their_rank", message, where, fix=fix))
    return problems


def volcano(document: Located, documents: list[Located], file: str) -> Answer:
    """Tasks with replicas, gang-scheduled by `minAvailable`; the pytorch plugin gives ranks and an address."""
    del documents
    tasks, plugins = document.get("spec", "tasks"), document.get("spec", "plugins")
    groups: list[Group] = []
    for task in tasks.each() if tasks else []:
        name = task.get("name")
        count = number(task.get("replicas"), file, 1)
        groups += group_of(task.get("template"), count, str(name.value) if name else "task")
    by_plugin = plugins is not None and plugins.get("pytorch") is not None
    found, problems = pods.plans(
        groups, document, file, operator=VOLCANO_TORCH if by_plugin else (), index="VC_TASK_INDEX"
    )
    least = document.get("spec", "minAvailable")
    names = [group.role for group in groups]
    problems.extend(roles.names_a_pod(found, document.get("metadata", "name"), groups))
    if plugins is not None and by_plugin:
        problems.extend(_tasks_of_plugin(plugins.get("pytorch"), names, file))
    if plugins is None or {name for name, _ in plugins.items()} <= {"env", "ssh"}:
        problems.extend(one for plan in found for one in _names_of_hosts(plan))
    return found, [
        *problems,
        *pods.gang(least, total(groups), file, is_one_job=bool(found)),
        *pods.against_gpus(found, groups),
    ]


def ray_cluster(document: Located, documents: list[Located], file: str) -> Answer:
    """The head and the groups of workers of KubeRay; the operator starts Ray in them."""
    del documents
    spec = document.get("spec", "rayClusterSpec") or document.get("spec", "rayClusterConfig") or document.get("spec")
    if spec is None:
        return [], []
    head = spec.get("headGroupSpec")
    groups = group_of(head.get("template") if head else None, Sourced(1, file, document.line, "tool"), "head")
    workers = spec.get("workerGroupSpecs")
    for worker in workers.each() if workers else []:
        groups += group_of(worker.get("template"), number(worker.get("replicas"), file, 1), "workers")
    problems = _versions(groups, file)
    for part in (head, *(workers.each() if workers else ())):
        given = part.get("rayStartParams") if part is not None else None
        problems.extend(_gpus_of_ray(part, file) if part is not None else ())
        for name, held in given.items() if given is not None else ():
            if isinstance(held.value, (int, float)):
                message = f"{name}: {held.text} is a bare value, and rayStartParams holds texts: the cluster refuses it"
                problems.append(
                    fail("variables_are_texts", message, Where(file, held.line), fix=f'{name}: "{held.text}"')
                )
    mounted = [replace(group, knows_volumes=False) for group in groups]  # KubeRay adds a volume at /dev/shm
    found, more = pods.plans(mounted, document, file)
    return found, [*problems, *more]


def _gpus_of_ray(part: Located, file: str) -> list[Finding]:
    """What Ray is told of a pod's GPUs is what the pod has: it starts as many workers as it was told of."""
    told = number(part.get("rayStartParams", "num-gpus"), file)
    groups = group_of(part.get("template"), Sourced(1, file, part.line, "tool"), "pod")
    have = groups[0].gpus(file) if groups else None
    if not isinstance(told, Sourced) or not isinstance(have, Sourced) or told.value <= have.value:
        return []
    message = f"num-gpus {told.value}, and a pod has {have.value}: Ray hands out GPUs that are not there"
    return [fail("processes_match_devices", message, told.where, have.where, fix=f'num-gpus: "{have.value}"')]


OF_RAY = re.compile(r"(?:.*/)?ray(?:-ml|-llm)?:(\d+\.\d+\.\d+)\b.*")


def _versions(groups: list[Group], file: str) -> list[Finding]:
    """Ray's head refuses a worker of another version."""
    found: dict[str, Where] = {}
    for group in groups:
        for container in group.containers:
            image = container.get("image")
            version = OF_RAY.fullmatch(str(image.value)) if image is not None else None
            if image is not None and version is not None:
                found.setdefault(version[1], Where(file, image.line))
    if len(found) < 2:
        return []
    message = f"Ray {' and '.join(found)} in one cluster: the head refuses a worker of another version"
    return [fail("versions_are_the_same", message, *found.values(), fix="One image for head and workers.")]


def hyperpod(document: Located, documents: list[Located], file: str) -> Answer:
    """SageMaker HyperPod's PyTorchJob: its operator numbers the pods."""
    del documents
    specs = document.get("spec", "replicaSpecs")
    groups: list[Group] = []
    for spec in specs.each() if specs else []:
        groups += group_of(spec.get("template"), number(spec.get("replicas"), file, 1), "pods")
    torch = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "NODE_RANK", "PET_NODE_RANK", "PET_NNODES")
    return pods.plans(groups, document, file, operator=torch)


def pod(document: Located, documents: list[Located], file: str) -> Answer:
    """A pod by itself: one node of a job, whose other pods stand in documents of their own."""
    one = Sourced(1, file, document.line, "tool")
    groups = group_of(document, one, "pod")
    found, problems = pods.plans(groups, document, file, are_nodes=False)
    problems.extend(pods.against_gpus([plan for plan in found if plan.spans_nodes], groups))
    others = [held for held in documents if (kind := held.get("kind")) is not None and kind.value == "Pod"]
    if found and len(others) > 1 and document is others[-1]:
        problems.extend(_ranks_of_pods(others, file))
    return found, problems


def _ranks_of_pods(documents: list[Located], file: str) -> list[Finding]:
    ranks: dict[int, list[Where]] = {}
    meeting: dict[tuple[str, int], Where] = {}
    one = Sourced(1, file, 1, "tool")
    for document in documents:
        found, _ = pods.plans(group_of(document, one, "pod"), document, file, are_nodes=False)
        for plan in found:
            rank = plan.node_rank
            if plan.spans_nodes and isinstance(rank, Sourced) and rank.origin == "written":
                ranks.setdefault(rank.value, []).append(rank.where)
                address, port = plan.master_address, plan.master_port
                if isinstance(address, Sourced) and isinstance(port, Sourced):
                    meeting.setdefault((address.value, port.value), plan.where)
    differing: list[Finding] = []
    if len(meeting) > 1 and len(ranks) > 1:
        listed = "; ".join(
            f"{address}:{port} in {place.file}:{place.line}" for (address, port), place in meeting.items()
        )
        message = f"the address of rank 0 differs: {listed}"
        differing.append(fail("fields_agree", message, *meeting.values(), fix="One address and port in every pod."))
    return differing + [
        fail("ranks_are_distinct", f"node rank {rank} is given to {len(places)} pods", *places)
        for rank, places in ranks.items()
        if len(places) > 1
    ]


KINDS: dict[str, Callable[[Located, list[Located], str], Answer]] = {
    "MPIJob": mpijob,
    "LeaderWorkerSet": leaderworkerset,
    "StatefulSet": statefulset,
    "RayCluster": ray_cluster,
    "RayJob": ray_cluster,
    "HyperPodPyTorchJob": hyperpod,
    "Pod": pod,
}
