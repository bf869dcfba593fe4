"""Are the interfaces, adapters, hosts and number formats that the files name there on every node?"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable

from preflight.facts import fabric, selection
from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.judge.ledger.findings import Finding, Verdict
from preflight.knowledge.variables.interfaces import parse_patterns
from preflight.launch.address import address_of
from preflight.launch.field import Sourced
from preflight.launch.launchers.deepspeed.command import DEEPSPEED
from preflight.launch.plan import LaunchFiles, fail, problem, warn
from preflight.launch.rules.groups import groups
from preflight.launch.rules.variables import RISKY
from preflight.reach.hosts import fold
from preflight.said import joined, said
from preflight.said.errors import FactMissing

# Compute capability: bf16 wants Ampere (8.0), fp8 wants Ada or Hopper (8.9).
NO_BF16 = re.compile(
    r"\b(V100|P100|P40|P4|K80|M60|T4|TITAN (V|X|RTX)|GTX|RTX 20\d\d|Quadro RTX|V100S)\b", re.IGNORECASE
)
NO_FP8 = re.compile(r"\b(A100|A800|A30|A40|A10G?|A16|A2|RTX 30\d\d|RTX A\d000)\b", re.IGNORECASE)


def variables_fit_the_nodes(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """The interfaces, adapters and GID indices that the variables name are on every node."""
    nodes_of = of_nodes(files, cluster)
    sources = [(plan.environment, nodes_of.get(plan.where.file, cluster.nodes)) for plan in files.plans]
    sources += [(variables, cluster.nodes) for _, variables in files.variables]
    rules: dict[str, Callable[[NodeFacts, str], bool]] = {
        "NCCL_SOCKET_IFNAME": lambda node, text: bool(selection.nccl_interfaces(node.network, text)),
        "GLOO_SOCKET_IFNAME": lambda node, text: (
            set(text.split(",")) <= {held.name for held in node.network.interfaces}
        ),
        "NCCL_IB_HCA": lambda node, text: bool(fabric.chosen_hcas(node.rdma, text)) or not node.rdma.devices,
        "NCCL_IB_GID_INDEX": _has_gid,
    }
    seen: set[tuple[str, str, tuple[str, ...]]] = set()
    for variables, nodes in sources:
        names = tuple(node.name for node in nodes)
        for name, holds in rules.items():
            value = variables.get(name)
            if (
                not isinstance(value, Sourced)
                or len(value.value) < 2 - (name == "NCCL_IB_GID_INDEX")
                or (name, value.value, names) in seen
            ):
                continue
            seen.add((name, value.value, names))
            without = []
            for node in nodes:
                try:
                    if not holds(node, value.value):
                        without.append(node.name)
                except FactMissing:
                    continue
            if without:
                message = said(
                    "{name}={value} fits nothing on {without}{has}",
                    name,
                    value.value,
                    fold(without),
                    _has(cluster[without[0]], name),
                )
                fix = _right_values(name, [cluster[node] for node in without])
                yield fail("variables_fit_the_nodes", message, value.where, fix=fix, nodes=tuple(without))


def of_nodes(files: LaunchFiles, cluster: Cluster) -> dict[str, tuple[NodeFacts, ...]]:
    """The node that a script is for, where there is one script for each: by its name, or by the rank that it has.

    None of a script that is for a host which did not answer.
    """
    found: dict[str, tuple[NodeFacts, ...]] = {}
    for group in groups(files):
        if not group.is_set or len(group.files) != len(group.plans) or len(group.plans) > cluster.hosts:
            continue
        named = {plan.where.file: _named_in(plan.where.file, cluster) for plan in group.plans}
        holders = [node for node in cluster for plan in group.plans if _holds(node, address_of(plan))]
        first = cluster.at(0)
        is_in_order = not holders or (first is not None and holders[0].name == first.name)
        for plan in group.plans:
            node, rank = named[plan.where.file], plan.written_rank
            if node is not None:
                found[plan.where.file] = (node,)
            elif any(named.values()):
                if len(cluster) < cluster.hosts:
                    found[plan.where.file] = ()  # of a host whose name it bears, and which did not answer
            elif is_in_order and rank is not None and 0 <= rank < cluster.hosts:
                host = cluster.at(rank)
                found[plan.where.file] = (host,) if host is not None else ()
    return found


def _named_in(file: str, cluster: Cluster) -> NodeFacts | None:
    """The node whose name is a part of a file's name by itself: `start-node3.sh`."""
    stem = os.path.splitext(os.path.basename(file))[0]
    found = [node for node in cluster if re.search(rf"(?<![\w]){re.escape(node.name)}(?![\w])", stem)]
    return found[0] if len(found) == 1 else None


def _holds(node: NodeFacts, address: str) -> bool:
    try:
        return bool(address) and node.network.holds_any([address.strip("[]")], reachable=True)
    except (FactMissing, ValueError):
        return False


def _right_values(name: str, nodes: Iterable[NodeFacts]) -> str:
    """What the variable may be on these nodes, as the facts say; "" where they do not."""
    right: dict[str, list[str]] = {}
    for node in nodes:
        try:
            value = _right_value(name, node)
        except FactMissing:
            continue
        if value:
            right.setdefault(shlex.quote(value), []).append(node.name)  # a node may call an interface anything
    if len(right) == 1:
        return said("export {name}={next}", name, next(iter(right)))
    return joined(
        [said("export {name}={value} on {names}", name, value, fold(names)) for value, names in right.items()]
    )


def _right_value(name: str, node: NodeFacts) -> str:
    if name.endswith("SOCKET_IFNAME"):
        own = node.address_for_peers()
        holders = [held.name for held in node.network.interfaces if held.holds_any([own]) and not held.is_loopback]
        usual = [held.name for held in selection.nccl_interfaces(node.network) if not held.is_loopback]
        return (*holders, *usual, "")[0]
    active = [hca for hca in fabric.hcas(node.rdma) if hca.is_active]
    if name == "NCCL_IB_HCA":
        return ",".join(hca.name for hca in active)
    rows = {fabric.best_gid(hca.port, node.network).index for hca in active if hca.port.link_layer == "Ethernet"}
    return str(rows.pop()) if len(rows) == 1 else ""


def adapters_are_there(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """An entry of NCCL_IB_HCA that matches no adapter of any node is a slip, and does nothing."""
    sources = [plan.environment for plan in files.plans] + [variables for _, variables in files.variables]
    for value in {id(held): held for held in (source.get("NCCL_IB_HCA") for source in sources)}.values():
        if not isinstance(value, Sourced) or not value.value.strip():
            continue
        missing = []
        for node in cluster:
            try:
                if node.rdma.devices:
                    missing.append(set(fabric.unmatched(node.rdma, value.value.strip())))
            except FactMissing:
                continue
        nowhere = sorted(set.intersection(*missing)) if missing else []
        everything = parse_patterns(value.value.strip()).entries
        if nowhere and len(nowhere) < len(everything) + value.value.strip().startswith("^"):
            none = said(
                "{nowhere} of NCCL_IB_HCA={value} is not an adapter of any node", ", ".join(nowhere), value.value
            )
            message = joined([none, _has(cluster.nodes[0], "NCCL_IB_HCA")])
            yield warn("adapters_are_adapters", message, value.where)


def _has_gid(node: NodeFacts, text: str) -> bool:
    ports = [hca.port for hca in fabric.hcas(node.rdma) if hca.is_active and hca.port.link_layer == "Ethernet"]
    if not ports or not text.isascii() or not text.isdigit():
        return True
    return any(fabric.classify(gid).scope != "empty" for port in ports for gid in port.gids if gid.index == int(text))


def _has(node: NodeFacts, name: str) -> str:
    try:
        if name.endswith("IFNAME"):
            return said(" (has {name})", ", ".join(held.name for held in node.network.interfaces))
        return said(" (has {name})", ", ".join(hca.name for hca in fabric.hcas(node.rdma)))
    except FactMissing:
        return ""


def hostfile_is_the_hosts(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """The hostfile names the hosts, with no more slots than they have GPUs."""
    for hostfile in files.hostfiles:
        named = {host.name: host for host in hostfile.hosts}
        known = {name: node for node in cluster for name in _names(node)}
        strangers = [host for name, host in named.items() if name not in known]
        absent = [node.name for node in cluster if not _names(node) & set(named)]
        if strangers:
            message = said("{name} of the hostfile is not in --hosts", ", ".join(host.name for host in strangers[:8]))
            yield fail("hostfile_is_the_hosts", message, *(host.where for host in strangers))
        if absent:
            where = hostfile.hosts[0].where if hostfile.hosts else None
            message = said("{absent} is not in {file}: no rank runs there", fold(absent), hostfile.file)
            yield warn("hostfile_is_the_hosts", message, *([where] if where else []), nodes=tuple(absent))
        for name, host in named.items():
            node = known.get(name)
            try:
                gpus = len(node.gpu.readable()) if node is not None else 0
            except FactMissing:
                continue
            if node is not None and gpus and isinstance(host.slots, Sourced) and host.slots.value > gpus:
                message = said(
                    "slots={value} for {name}, which has {gpus} GPU{s}", host.slots.value, name, gpus, "s" * (gpus != 1)
                )
                yield fail(
                    "hostfile_slots_fit_gpus", message, host.where, fix=f"{name} slots={gpus}", nodes=(node.name,)
                )


def _names(node: NodeFacts) -> set[str]:
    try:
        return {node.name, node.address, node.identity.hostname, node.identity.fqdn}
    except FactMissing:
        return {node.name, node.address}


def precision_fits_gpus(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """mixed_precision: bf16 and fp8 want GPUs that have them.

    Autocast leaves parameters and gradients in 32 bits: by itself it does not cut what DDP sends in a step.
    """
    for plan in files.plans:
        precision = plan.mixed_precision
        if not isinstance(precision, Sourced) or precision.value not in ("bf16", "fp8"):
            continue
        lacking: dict[str, str] = {}
        for node in cluster:
            try:
                models = {gpu.name for gpu in node.gpu.readable()}
            except FactMissing:
                continue
            for model in models:
                if NO_BF16.search(model) or (precision.value == "fp8" and NO_FP8.search(model)):
                    lacking[node.name] = model
        if lacking:
            message = said(
                "mixed_precision {value}, and {lacking} has {next}, which cannot",
                precision.value,
                fold(lacking),
                next(iter(lacking.values())),
            )
            yield fail(
                "precision_fits_gpus", message, precision.where, fix="mixed_precision: fp16", nodes=tuple(lacking)
            )


def deepspeed_finds_python(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """DeepSpeed starts the other nodes with the path of its own interpreter."""
    for plan in files.plans:
        if plan.launcher is not DEEPSPEED or plan.start != "all nodes":
            continue
        paths: dict[str, list[str]] = {}
        for node in cluster:
            try:
                paths.setdefault(node.software.executable, []).append(node.name)
            except FactMissing:
                continue
        if len(paths) > 1:
            listed = joined([said("{path} on {names}", path, fold(names)) for path, names in paths.items()])
            first = next(iter(paths))
            odd = tuple(name for path, names in paths.items() if path != first for name in names)
            message = said("DeepSpeed repeats the launching node's interpreter path on every node: {listed}", listed)
            fix = "The same environment at the same path on every node."
            yield fail("deepspeed_finds_its_python", message, plan.where, fix=fix, nodes=odd)


def nccl_conf_is_clean(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """A left-over /etc/nccl.conf sets what no launch file shows."""
    del files
    for name, why in RISKY.items():
        nodes = tuple(node.name for node in cluster if _from_conf(node, name))
        if nodes:
            layer = cluster[nodes[0]].setting(name).layer
            message = said("{layer} sets {name} on {nodes}: {why}", layer, name, fold(nodes), why)
            place = shlex.quote(layer)
            yield warn(
                "nccl_variables_are_safe", message, fix=said("Delete {name} from {place}.", name, place), nodes=nodes
            )


def _from_conf(node: NodeFacts, name: str) -> bool:
    try:
        return node.value(name) not in ("", "0") and "nccl.conf" in node.setting(name).layer
    except FactMissing:
        return False


def limits_are_those_of_slurmd(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """The tasks of a job have slurmd's limits, or those of the shell that submits, not those of a login by ssh."""
    started = next((plan for plan in files.plans if plan.slurm is not None or "srun" in plan.wraps), None)
    if started is None:
        return
    read_over = {node.name: _context(node) for node in cluster if _registers_memory(node)}
    for context in dict.fromkeys(read_over.values()):
        if context in ("", "slurm"):
            continue
        nodes = tuple(name for name, over in read_over.items() if over == context)
        message = said(
            "not judged: memlock was read in a session over {context} on {nodes}, and slurmd starts the "
            "job with limits of its own, on which RDMA depends",
            context,
            fold(nodes),
        )
        fix = "`preflight run --hosts slurm` inside an allocation reads them there; or `srun sh -c 'ulimit -l'`."
        yield problem(Verdict.SKIP, "limits_are_those_of_slurmd", message, started.where, nodes=nodes, fix=fix)


def _context(node: NodeFacts) -> str:
    """The kind of session that read a node; "" where it does not say."""
    try:
        return node.identity.context
    except FactMissing:
        return ""


def _registers_memory(node: NodeFacts) -> bool:
    try:
        return bool(node.rdma.active_ports())
    except FactMissing:
        return False


RULES = (
    limits_are_those_of_slurmd,
    variables_fit_the_nodes,
    adapters_are_there,
    hostfile_is_the_hosts,
    precision_fits_gpus,
    deepspeed_finds_python,
    nccl_conf_is_clean,
)
