"""Do the NCCL, Gloo and CUDA variables of the job exist, mean something and arrive?"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping

from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.judge.ledger.findings import Finding, Where
from preflight.knowledge.variables import interfaces, leftovers
from preflight.knowledge.variables import judged as table
from preflight.knowledge.variables.names import ROWS
from preflight.launch.field import Field, Sourced, Unknown, firm, value_of
from preflight.launch.launchers.deepspeed.command import DEEPSPEED, logs_in
from preflight.launch.launchers.slurm import SRUN
from preflight.launch.plan import LaunchFiles, Plan, ScriptFile, Unset, fail, warn
from preflight.launch.reading.unset import EVERYWHERE
from preflight.launch.text.execute import LEAVING
from preflight.launch.text.expansion import Assigned
from preflight.said import said
from preflight.said.errors import FactMissing

RISKY = {row.name: row.does for row in leftovers.LEFTOVERS if row.does == leftovers.BUFFERS}
# Who sets one of them has RDMA.
OF_RDMA = ("NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_IB_TC", "NCCL_IB_SL", "NCCL_IB_PKEY")
# What DeepSpeed's runner hands to the other nodes; .deepspeed_env brings the rest.
EXPORTED = ("MLFLOW", "PYTHON", "MV2", "UCX", "NCCL")
STEERING = re.compile(r"TORCH\w*|(GLOO|CUDA|HF|TRANSFORMERS|OMP|WANDB|DS|TRITON|FI|UCX)_\w*|LD_LIBRARY_PATH")
ASKED = ("gres", "gpus", "gpus_per_node", "gpus_per_task", "constraint", "nodelist", "partition")  # may name the GPUs
MEETING = ("MASTER_ADDR", "MASTER_PORT")
NEEDED = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")


def in_plans(plan: Plan) -> Iterable[Finding]:
    """The variables that a plan's command sees."""
    asked = (plan.slurm.options.get(name) for name in ASKED) if plan.slurm is not None else ()
    gpus = [str(held.value) for held in asked if isinstance(held, Sourced)]
    yield from _judged(plan.environment, several=plan.has_peers, gpus=gpus)


def in_files(files: LaunchFiles) -> Iterable[Finding]:
    """The variables of environment files and of scripts that only set some."""
    for _, variables in files.variables:
        yield from _judged(variables, several=True)


def _judged(variables: Mapping[str, Field[str]], *, several: bool, gpus: Collection[str] = ()) -> Iterable[Finding]:
    """What the checks of a live run say of the same variables, where the file alone decides it, and of slips in it."""
    has_rdma = _tells_of_rdma(variables)
    family = value_of(variables.get("NCCL_SOCKET_FAMILY")) or ""
    for name, value in variables.items():
        if not isinstance(value, Sourced) or "\n" in value.value.strip():  # a quote that was never closed
            continue
        yield from _existing(name, value)
        yield from _possible(name, value)
        yield from _left(name, value, has_rdma=has_rdma, gpus=gpus)
        if name in ("NCCL_SOCKET_IFNAME", "NCCL_IB_HCA") and re.search(r"\s", value.value.strip()):
            message = said("{name}={value!r}: NCCL keeps blanks, and no device has one in its name", name, value.value)
            fix = f"{name}={re.sub(r'[ ,]+', ',', value.value.strip())}"
            yield fail("variables_have_values_that_count", message, value.where, fix=fix)
        elif name in interfaces.NAMES:
            yield from _interfaces(name, value, several=several, family=family)
        elif name == "NCCL_IB_HCA":
            yield from _netdevs(value)


def _existing(name: str, value: Sourced[str]) -> Iterable[Finding]:
    """A name that nothing reads, or reads any more: where it is a slip, with the name that was meant."""
    words = table.unknown(name) or table.unread(name)
    if not words:
        return
    text = value.value.strip()
    near = table.nearest(name)
    is_meant = near and near != name and table.is_misspelt(name, near) and not table.refused(near, text)
    fix = f"{near}={text}" if is_meant else said("unset {name}", name)
    yield warn("nccl_variables_are_known", words, value.where, fix=fix)


def _possible(name: str, value: Sourced[str]) -> Iterable[Finding]:
    """A value that the library does not take."""
    refused = table.refused(name, value.value)
    if refused:
        tell = warn if table.is_harmless(name) else fail
        fix = _meant(name, value.value.strip())
        yield tell("variables_have_values_that_count", refused, value.where, fix=fix)


def _left(name: str, value: Sourced[str], *, has_rdma: bool, gpus: Collection[str]) -> Iterable[Finding]:
    """A variable left over from troubleshooting."""
    words = leftovers.leftover(name, value.value, has_rdma=has_rdma, devices=gpus)
    if words:
        rule = "cuda_launches_do_not_block" if name == "CUDA_LAUNCH_BLOCKING" else "nccl_variables_are_safe"
        yield warn(rule, words, value.where, fix=said("unset {name}", name))


def _tells_of_rdma(variables: Mapping[str, Field[str]]) -> bool:
    return any(value_of(variables.get(name)) for name in OF_RDMA)


def host_ids_are_each_nodes_own(files: LaunchFiles) -> Iterable[Finding]:
    """NCCL_HOSTID tells nodes apart: with one value on two of them NCCL looks for a peer's GPUs in its own machine."""
    held: dict[str, list[tuple[Plan, Sourced[str]]]] = {}
    for plan in files.plans:
        value = plan.environment.get("NCCL_HOSTID")
        if isinstance(value, Sourced) and value.origin == "written" and value.value.strip() and plan.has_peers:
            held.setdefault(value.value.strip(), []).append((plan, value))
    for text, given in held.items():
        is_of_one = len({plan.where.file for plan, _ in given}) == 1 and given[0][0].written_rank is not None
        if not is_of_one:
            message = said("NCCL_HOSTID={text} on several nodes: it tells them apart", text)
            places = (value.where for _, value in given)
            yield fail("variables_have_values_that_count", message, *places, fix="unset NCCL_HOSTID")


def rdma_is_left_on(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """What is left over from troubleshooting and harms RDMA alone, on the nodes that have it."""
    nodes = tuple(node.name for node in cluster if _has_rdma(node))
    held = [plan.environment for plan in files.plans] + [variables for _, variables in files.variables]
    for variables in held if nodes else []:
        if _tells_of_rdma(variables):
            continue  # the file alone says so
        for name, value in variables.items():
            if not isinstance(value, Sourced) or leftovers.leftover(name, value.value, has_rdma=False):
                continue
            words = leftovers.leftover(name, value.value, has_rdma=True)
            if words:
                fix = said("unset {name}", name)
                yield warn("nccl_variables_are_safe", words, value.where, fix=fix, nodes=nodes)


def _has_rdma(node: NodeFacts) -> bool:
    try:
        return bool(node.rdma.active_ports())
    except FactMissing:
        return False


def _interfaces(name: str, value: Sourced[str], *, several: bool, family: str) -> Iterable[Finding]:
    """Interfaces that no machine has, or over which none reaches another."""
    text = value.value.strip()
    unmatched = interfaces.matches_nothing(name, text)
    if unmatched:
        fix = "GLOO_SOCKET_IFNAME=eth0" if name == interfaces.GLOO else said("unset {name}", name)
        yield fail("variables_have_values_that_count", unmatched, value.where, fix=fix)
    elif several and (words := interfaces.leads_home(name, text, family=family)):
        fix = f"{name}={text},lo" if text.startswith("^") else said("unset {name}", name)
        yield fail("interface_leads_to_other_nodes", words, value.where, fix=fix)


def _meant(name: str, text: str) -> str:
    """The assignment that was most likely meant, "" where nothing tells."""
    kind = ROWS[name].kind
    switched = {"true": "1", "yes": "1", "on": "1", "false": "0", "no": "0", "off": "0"}.get(text.lower())
    if switched is not None and not kind.refuses(switched):
        return f"{name}={switched}"
    if re.fullmatch(r"\d{1,9}", text) and kind.low is not None and kind.high is not None:
        return f"{name}={min(max(int(text), kind.low), kind.high)}"
    return said("unset {name}", name)


# Interfaces of the kernel, as systemd names them; adapters are mlx5_0, bnxt_re1, irdma0, rocep1s0, ibp24s0.
NETDEV = re.compile(r"(eth|en[ospx]|bond|ib|br-?|docker|veth|wlan|wl[ospx]|team|vlan)\d\w*(\.\d+)?(:\d+)?")


def _netdevs(value: Sourced[str]) -> Iterable[Finding]:
    """NCCL_IB_HCA names adapters; an interface's name there chooses no adapter, or excludes none."""
    entries = [entry for entry in value.value.strip().lstrip("^=").split(",") if entry]
    odd = [entry for entry in entries if NETDEV.fullmatch(entry)]
    if not odd or any(re.match(r"ibp\d|ibs\d", entry) for entry in odd):
        return
    what = "excludes no adapter" if value.value.strip().startswith("^") else "chooses no adapter"
    message = said("{odd} in NCCL_IB_HCA={value} is an interface's name: it {what}", ", ".join(odd), value.value, what)
    tell = fail if len(odd) == len(entries) and not value.value.strip().startswith("^") else warn
    yield tell("adapters_are_adapters", message, value.where, fix="NCCL_IB_HCA=mlx5_0, as `ibv_devices` lists them")


def variables_are_exported(plan: Plan) -> Iterable[Finding]:
    """A variable that is set and not exported stays in the shell: python never sees it."""
    if not plan.is_by_hand and plan.launcher is not SRUN:
        return
    if "ssh" in plan.wraps:
        return
    told = [name for name in NEEDED if name in plan.environment or name in plan.unexported]
    # RANK alone is a number that the script works with itself
    is_by_rank = "RANK" in plan.environment or ("RANK" in told and len(told) > 1)
    if not is_by_rank and not any(name in plan.environment for name in MEETING):
        return  # the script's own arithmetic, for another command than this one
    reads = {value_of(argument) or "" for argument in plan.arguments}
    for name in NEEDED if is_by_rank else MEETING:
        value = plan.unexported.get(name)
        text = value.expression if isinstance(value, Unknown) else value_of(value) or ""
        if not is_by_rank and text and text in plan.command:
            continue  # an argument hands it on
        if value is not None and not any(name.lower() in word.lower() for word in reads):
            yield fail(
                "variables_are_exported",
                said("{name} is set and not exported: the program does not see it", name),
                value.where,
                fix=said("export {name}={value_of}", name, value_of(value) or "..."),
            )


def other_nodes_see_variables(plan: Plan) -> Iterable[Finding]:
    """The shell that ssh starts on another node knows no variable of this one, exported or not."""
    fields = (plan.nodes, plan.node_rank, plan.processes_per_node, plan.master_address, plan.master_port)
    unknown = [
        held for held in (*fields, plan.rendezvous_id, plan.program, *plan.arguments) if isinstance(held, Unknown)
    ]
    leaving = sorted(plan.wraps & LEAVING)
    for value in unknown if leaving else []:
        held = plan.unexported.get(value.hidden) or plan.environment.get(value.hidden)
        if held is not None:
            message = said(
                "{hidden} is set here, and the shell of the other node does not know it: within '...' it is "
                "not filled in",
                value.hidden,
            )
            fix = said('{leaving} HOST "...", in double quotes', leaving[0])
            yield fail("variables_are_exported", message, held.where, value.where, fix=fix)


def inner_shells_see_variables(files: LaunchFiles) -> Iterable[Finding]:
    """The shell of `bash -c '...'` sees what is exported; every other variable is empty in it, in tests and options."""
    for script in files.scripts:
        lines = files.texts.get(script.marks.file, "").split("\n")
        told: set[str] = set()
        for value in script.marks.unknowns:
            held = _left_outside(script, value.hidden)
            here = lines[value.line - 1] if 0 < value.line <= len(lines) else ""
            is_bare = value.expression.strip('"') in (f"${value.hidden}", f"${{{value.hidden}}}")
            if held is None or value.hidden in told or not is_bare or PRINTS.match(here):
                continue
            if any(re.search(rf"{TAKES}\b{re.escape(value.hidden)}\b", line) for line in lines):
                continue  # the inner shell gives it a value of its own
            told.add(value.hidden)
            message = said(
                "{hidden} is set and not exported: the shell of `bash -c '...'` does not see it", value.hidden
            )
            places = (Where(script.marks.file, held.line), Where(script.marks.file, value.line))
            yield fail("variables_are_exported", message, *places, fix=said("export {hidden}", value.hidden))


PRINTS = re.compile(r"\s*(echo|printf|log|logger)\b")
TAKES = r"\b(?:for|read|mapfile|readarray|local|declare|getopts)\s[^;\n]*"


def _left_outside(script: ScriptFile, name: str) -> Assigned | None:
    """What the script sets by this name and exports nowhere; None of a name that a shell or a node has itself."""
    found = [held for command in script.commands if (held := command.variables.get(name)) is not None]
    is_left = bool(name) and name not in EVERYWHERE and bool(found) and not any(held.exported for held in found)
    return found[0] if is_left else None


def needed_variables_are_set(plan: Plan) -> Iterable[Finding]:
    """env:// wants all four of them."""
    if not plan.launcher.numbers_processes or plan.rank is None or plan.world_size is None:
        return
    if plan.launcher is SRUN and not (plan.slurm and plan.slurm.has_directives):
        return  # a script that another one starts, which may have set them
    if "hands on" in plan.settings:
        return  # mpirun itself gives RANK to python, which its own rules judge
    tell = warn if plan.launcher.name == "mpirun" else fail  # a program may ask MPI where rank 0 is
    handed = {part for word in plan.wrapper for part in re.split("[,=]", word)}  # mpirun -x NAME, srun --export=NAME
    for name in [name for name in NEEDED[:2] if name not in handed]:
        if name not in plan.environment and name not in plan.unexported and (firm(plan.world_size) or 1) > 1:
            yield tell(
                "variables_are_set",
                said("RANK and WORLD_SIZE are set and {name} is not: init_process_group stops", name),
                plan.where,
                fix=said("export {name}=...", name),
            )


def deepspeed_exports(files: LaunchFiles) -> Iterable[Finding]:
    """DeepSpeed's runner brings only some variables to the other nodes; where it starts on this one alone, all of them.

    Which devices a process sees it sets itself on every node, and srun (--launcher slurm) takes everything along.
    """
    handed = {name for file, variables in files.variables if "deepspeed_env" in file for name in variables}
    for plan in files.plans:
        if plan.launcher is not DEEPSPEED or "hostfile" not in plan.settings or not logs_in(plan):
            continue
        left = {
            name: value
            for name, value in plan.environment.items()
            if value is not None and not name.startswith(EXPORTED) and name not in handed and STEERING.fullmatch(name)
        }
        for own in ("CUDA_VISIBLE_DEVICES", "DS_ENV_FILE"):  # DeepSpeed's own to set, and its runner's alone to read
            left.pop(own, None)
        if left and str(plan.setting("launcher") or "pdsh").lower() != "slurm":
            are = "are" if len(left) > 1 else "is"
            message = said(
                "{left} {are} exported on this node only: DeepSpeed hands on {EXPORTED}* and what .deepspeed_env holds",
                ", ".join(left),
                are,
                ", ".join(EXPORTED),
            )
            lines = ", ".join(f"{name}={value_of(value) or '...'}" for name, value in left.items())
            each = ", each in a line of its own" if len(left) > 1 else ""
            fix = said("{lines} in ~/.deepspeed_env{each}", lines, each)
            yield warn("deepspeed_hands_variables_on", message, *(value.where for value in left.values()), fix=fix)


STOPS_UNSET = re.compile(r"(?m)^\s*set\s+(-\w*u|-o\s+nounset)|^#!.*\s-\w*u")
LIKE = 0.9  # of two names from which on one is the other misspelt
DIGIT = re.compile(r"\d")  # node1_ip and node2_ip are two names
SET = re.compile(r"(?m)^\s*(?:export\s+|local\s+|declare\s+(?:-\w+\s+)*)?([A-Za-z_]\w*)=")


def outside_variables_are_set(files: LaunchFiles) -> Iterable[Finding]:
    """A variable that nothing sets is empty: the start then stops, or every node takes itself for rank 0's."""
    for plan in files.plans:
        text = files.texts.get(plan.where.file, "")
        stops = STOPS_UNSET.search(text) is not None
        for unset in plan.unset:
            if unset.holds in ("address", "id") and not plan.may_span_nodes:
                continue
            others = [name for name in SET.findall(text) if DIGIT.sub("", name) != DIGIT.sub("", unset.name)]
            near = difflib.get_close_matches(unset.name, others, n=1, cutoff=LIKE)
            if near:
                rule = "master_address_is_given" if unset.holds == "address" else "outside_variables_are_set"
                empty = ": the address of rank 0 is empty" if unset.holds == "address" else ""
                message = f"${unset.name} is set nowhere in the script, and ${near[0]} is{empty}"
                yield fail(rule, message, unset.where, fix=f"${near[0]}")
                continue
            if plan.is_open:
                continue  # all of it comes from outside, which is said of the whole start
            numbers = [other for other in plan.unset if other.holds == "number"]
            if unset.holds == "number" and any(other.holds == "address" for other in plan.unset):
                continue  # told with the address: the same caller sets both, or nobody does
            told = [unset, *(numbers if unset.holds == "address" else ())]
            names = ", ".join(one.name for one in told)
            more = ", ".join(f"${one.name}" for one in told[1:])
            listed = f"${unset.name} (and {more})" if more else f"${unset.name}"
            becomes = "the script stops there: unbound variable" if stops else _consequence(plan, unset)
            message = f"{listed} is set nowhere in these files; where nobody exports it on every node, {becomes}"
            fix = f"Set {names} in a line above, or write ${{{unset.name}:?}} there: without it the script stops."
            if "kubernetes" in plan.wraps:
                fix = f"env: [{{name: {unset.name}, value: ...}}] in the container"
            yield warn("outside_variables_are_set", message, *(one.where for one in told), fix=fix)


def _consequence(plan: Plan, unset: Unset) -> str:
    if unset.holds == "address":
        is_torch = plan.launcher.rendezvous_gives_ranks and value_of(plan.rendezvous) != "env"
        empty = "torch takes the empty address for localhost" if is_torch else "the address of rank 0 is empty"
        return said("{empty}, and every node waits for itself", empty)
    if unset.holds == "id":
        return said("{name} makes up an id of its own on every node, and none meets another", plan.launcher.name)
    if unset.holds == "number":
        return said("{name} gets no number there and stops, or takes its own default on every node", plan.launcher.name)
    return "the program gets an empty word, or takes the next option for it"


PLAN_RULES = (in_plans, variables_are_exported, other_nodes_see_variables, needed_variables_are_set)
LIVE_RULES = (rdma_is_left_on,)
FILES_RULES = (
    in_files,
    host_ids_are_each_nodes_own,
    deepspeed_exports,
    inner_shells_see_variables,
    outside_variables_are_set,
)
