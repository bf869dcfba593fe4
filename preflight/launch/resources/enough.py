"""Are there as many nodes and GPUs as are counted on, whoever gives and whoever takes them?"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from preflight.facts.cluster import Cluster
from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.containers import run_of
from preflight.launch.field import firm, value_of
from preflight.launch.plan import LaunchFiles, Plan, ScriptFile, fail, warn
from preflight.launch.resources.promises import Promise, all_words, counted, given, number, sized, taken, text_of
from preflight.launch.text.marks import is_known
from preflight.said import said
from preflight.said.errors import FactMissing

DEGREES = (
    "tensor_parallel_degree",
    "pipeline_parallel_degree",
    "context_parallel_degree",
    "data_parallel_replicate_degree",
)
VERL = ("data.train_batch_size", "trainer.nnodes", "trainer.n_gpus_per_node")
ANSWERS = "actor_rollout_ref.rollout.n"
MINI, DYNAMIC = "actor_rollout_ref.actor.ppo_mini_batch_size", "actor_rollout_ref.actor.use_dynamic_bsz"
ENGINES_OF_IMAGES = frozenset({"singularity", "apptainer"})
GIVES_GPUS = frozenset({"--nv", "--nvccli", "--rocm"})
OF_AMD = re.compile(r"(?i)rocm|rocr_|hip_|hsa_|miopen|lumi|\bamd|\bmi\d{2,3}")
SETS_GPUS = re.compile(r"(SINGULARITY|APPTAINER)_(NV|NVCCLI|ROCM)")
SHARDED = "data_parallel_shard_degree"


def resources_are_enough(script: ScriptFile) -> Iterable[Finding]:
    """A program waits for nodes and GPUs that nobody gives it until it times out, or stops at once."""
    told: set[tuple[Where, str]] = set()
    for command in script.commands:
        if command.is_conditional:
            continue
        gives = list(given(script, command))
        takes = list(taken(script, command))
        here = (plan for plan in script.plans if plan.where.line == command.line and not _differs_from_granted(plan))
        of_plans = [one for plan in here for one in counted(plan)]
        pairs = [(take, give) for take in takes for give in gives]
        # a launcher and its batch system are compared where each option of theirs is known
        pairs += [(take, give) for take in of_plans for give in gives if give.by != "Slurm"]
        for take, give in sorted(pairs, key=lambda pair: pair[0].quantity == "GPUs"):
            if take.quantity == give.quantity and _differ(take, give) and (take.where, give.by) not in told:
                told.add((take.where, give.by))
                yield _not_enough(take, give)


def _differs_from_granted(plan: Plan) -> bool:
    """Whether the nodes of a launcher are not those that PBS or LSF gives, which is told where those are read."""
    nodes = firm(plan.granted.nodes) if plan.granted is not None else None
    return nodes is not None and nodes != firm(plan.nodes)


def _differ(take: Promise, give: Promise) -> bool:
    return take.count > give.count or (give.is_exact and take.count < give.count)


def _not_enough(take: Promise, give: Promise) -> Finding:
    message = said(
        "{by} counts on {count} {quantity}, and {by2} gives {count2}",
        take.by,
        take.count,
        take.quantity,
        give.by,
        give.count,
    )
    return fail(
        "resources_are_enough",
        message,
        take.where,
        give.where,
        fix=said("{count} {quantity} in both places", give.count, give.quantity),
    )


def containers_get_gpus(plan: Plan) -> Iterable[Finding]:
    """docker run hands a container no GPU unless it is told to; a default runtime of the machine may do it too."""
    container, each = run_of(plan.wrapper, plan.where.file, plan.where.line), firm(plan.processes_per_node) or 1
    if container is None or each < 2 or not plan.launcher.has_agent or value_of(plan.backend) == "gloo":
        return
    is_given = container.has_gpus or container.is_privileged or container.is_opaque
    if not is_given and "NVIDIA_VISIBLE_DEVICES" not in container.variables:
        message = said("{each} processes in a container that is given no GPU", each)
        yield warn("resources_are_enough", message, plan.where, fix="docker run --gpus all")


def images_get_gpus(plan: Plan) -> Iterable[Finding]:
    """Singularity binds the driver into a container only where --nv (of AMD: --rocm) or the site's settings say so."""
    names = [word.rpartition("/")[2] for word in plan.wrapper]
    place = next((at for at, name in enumerate(names) if name in ENGINES_OF_IMAGES), None)
    if place is None or not _asks_for_gpus(plan) or value_of(plan.backend) == "gloo" or "--use_cpu" in plan.wrapper:
        return
    words = plan.wrapper[place + 1 :]
    behind = next((at for at, word in enumerate(words) if word in ("exec", "run")), None)
    is_told = any(word in GIVES_GPUS for word in words) or any(map(SETS_GPUS.fullmatch, plan.environment))
    if behind is None or is_told or _is_of_amd(plan) or not all(map(is_known, words)):
        return
    message = said("{name} without --nv: the container sees no GPU, where the site does not set it", names[place])
    yield warn("resources_are_enough", message, plan.where, fix=f"{names[place]} {words[behind]} --nv")


def _is_of_amd(plan: Plan) -> bool:
    """Whether the GPUs may be AMD's: their devices are in every container, and --rocm only adds libraries."""
    partition = value_of(plan.slurm.options.get("partition")) if plan.slurm is not None else ""
    told = " ".join((partition or "", *plan.wrapper, *plan.environment))
    return OF_AMD.search(told) is not None or (partition or "").endswith("-g")


def _asks_for_gpus(plan: Plan) -> bool:
    """Whether the batch script asks for GPUs: what it starts in a container is to compute on them."""
    options = plan.slurm.options if plan.slurm is not None else {}
    generic = value_of(options.get("gres")) or ""
    return "gpu" in generic or any(name in options for name in ("gpus", "gpus_per_node", "gpus_per_task"))


def programs_share_out(script: ScriptFile) -> Iterable[Finding]:
    """The sizes of a model's parallel parts divide the number of GPUs that the program is told of."""
    for command in script.commands:
        words = all_words(command)
        for program in sized(words) if not command.is_conditional else ():
            whole = (number(words, program.nodes[0]) or program.nodes[1]) * (
                number(words, program.gpus[0]) or program.gpus[1]
            )
            for keys in program.shares:
                sizes = {key: size for key in keys if (size := number(words, key)) is not None}
                part = math.prod(sizes.values())
                if part and whole % part:
                    spelled = " x ".join(f"{key.rpartition('.')[2]} {size}" for key, size in sizes.items())
                    message = said("{whole} GPUs do not divide by {spelled}", whole, spelled)
                    yield fail("model_parallelism_fits", message, Where(script.marks.file, command.line))


def batches_share_out(script: ScriptFile) -> Iterable[Finding]:
    """verl refuses a batch that its GPUs cannot share alike, before it loads anything."""
    for command in script.commands:
        words = all_words(command)
        batch, nodes, gpus = (number(words, key) for key in VERL)
        # a file may say what no word does; of Megatron, by a word or such a file, model-parallel parts share one answer
        is_open = any("megatron" in word or word.startswith(("--config-name", "--config-path")) for word in words)
        answers = number(words, ANSWERS) if any(word.startswith(f"{ANSWERS}=") for word in words) else 1
        if not batch or not nodes or not gpus or not answers or is_open or command.is_conditional:
            continue
        if batch * answers % (nodes * gpus):
            message = said(
                "train_batch_size {batch} x {answers} answers does not divide by {gpus} GPUs: verl stops",
                batch,
                answers,
                nodes * gpus,
            )
            right = max(1, batch // (nodes * gpus)) * nodes * gpus
            where = Where(script.marks.file, command.line)
            yield fail("batch_sizes_multiply", message, where, fix=f"data.train_batch_size={right}")


def batches_hold_a_mini_batch(script: ScriptFile) -> Iterable[Finding]:
    """verl takes whole mini batches out of a batch; it does not ask where their sizes follow the lengths of texts."""
    for command in script.commands:
        words = all_words(command)
        batch, mini = number(words, VERL[0]), number(words, MINI)
        is_open = any(word.lstrip("+").startswith((f"{DYNAMIC}=", "--config-name", "--config-path")) for word in words)
        if batch and mini and batch < mini and not is_open and not command.is_conditional:
            message = said("train_batch_size {batch} is less than ppo_mini_batch_size {mini}: verl stops", batch, mini)
            yield fail("batch_sizes_multiply", message, Where(script.marks.file, command.line), fix=f"{MINI}={batch}")


def degrees_multiply(plan: Plan) -> Iterable[Finding]:
    """The degrees of torchtitan multiply to the number of processes; -1, the default, shards over what is left."""
    words, world = text_of(plan), firm(plan.world_size)
    sizes = {name: number(words, name, f"parallelism.{name}") for name in (*DEGREES, SHARDED)}
    known = {name: size for name, size in sizes.items() if size}
    if world is None or not known or plan.is_conditional:
        return
    part = math.prod(known.values())
    if world % part or (sizes[SHARDED] and world != part):
        spelled = " x ".join(f"{name} {size}" for name, size in known.items())
        message = said("{world} processes, and {spelled} = {part}: torchtitan stops", world, spelled, part)
        yield fail("model_parallelism_fits", message, plan.where)


def heads_are_shared_out(plan: Plan) -> Iterable[Finding]:
    """Every tensor-parallel rank of Megatron has the same number of attention heads."""
    words = text_of(plan)
    tensor, heads = number(words, "tensor_model_parallel_size"), number(words, "num_attention_heads")
    if tensor and heads and heads % tensor and not plan.is_conditional:
        message = said("{heads} attention heads do not divide by {tensor} (tensor): Megatron stops", heads, tensor)
        yield fail("model_parallelism_fits", message, plan.where)


def resources_are_there(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """The same against the nodes themselves: as many hosts, and on each as many GPUs."""
    gpus: dict[str, int] = {}
    for node in cluster:
        try:
            gpus[node.name] = len(node.gpu.readable())
        except FactMissing:
            continue
    for script in files.scripts:
        for take in dict.fromkeys(one for command in script.commands for one in taken(script, command)):
            few = tuple(name for name, count in gpus.items() if count < take.count)
            if take.quantity == "nodes" and take.count > cluster.hosts:
                there = Promise("nodes", cluster.hosts, "--hosts", take.where)
                yield _not_enough(take, there)
            elif take.quantity == "GPUs on a node" and few:
                message = said(
                    "{by} counts on {count} {quantity}, and {name} has {there}",
                    take.by,
                    take.count,
                    take.quantity,
                    few[0],
                    gpus[few[0]],
                )
                yield fail("resources_are_enough", message, take.where, nodes=few)


PLAN_RULES = (containers_get_gpus, images_get_gpus, degrees_multiply, heads_are_shared_out)
SCRIPT_RULES = (resources_are_enough, programs_share_out, batches_share_out, batches_hold_a_mini_batch)
LIVE_RULES = (resources_are_there,)
