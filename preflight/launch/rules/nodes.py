"""Do the launch files fit the nodes that are really there?"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.facts.value import Missing
from preflight.judge.ledger.findings import Finding
from preflight.launch.address import is_loopback, wrong_with
from preflight.launch.field import Sourced, firm, value_of, written
from preflight.launch.launchers import logs_in, row_of
from preflight.launch.plan import LaunchFiles, Plan, fail, warn
from preflight.launch.rules.groups import groups
from preflight.launch.slips.program import own_port
from preflight.reach.hosts import fold
from preflight.said import joined, said
from preflight.said.errors import FactMissing


def nodes_are_the_hosts(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """As many nodes in the files as hosts."""
    count = cluster.hosts
    for plan in files.plans:
        nodes = plan.nodes
        fewest = firm(plan.fewest_nodes)
        if (
            not isinstance(nodes, Sourced)
            or nodes.origin == "environment"
            or plan.is_opaque
            or not plan.launcher.nodes_are_hosts
        ):
            continue
        if nodes.origin == "tool" and not plan.launcher.default_nodes_count and count > 1:
            continue
        if not (fewest if fewest is not None else nodes.value) <= count <= nodes.value and not (
            nodes.value == 1 and count == 1
        ):
            message = said(
                "{value} node{s} in the file, {count} host{s2} in --hosts",
                nodes.value,
                "s" * (nodes.value != 1),
                count,
                "s" * (count != 1),
            )
            name = plan.launcher.field_names.nodes or "nodes"
            fix = said(
                "{name}: {count} in every file, or --hosts with the {value} of the job", name, count, nodes.value
            )
            yield fail("nodes_are_the_hosts", message, nodes.where, fix=fix)


def ranks_are_complete(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """With --hosts even a single file must have its siblings, where it names its own rank."""
    for group in groups(files):
        plan = group.plans[0]
        rank = group.rank(plan)
        size = firm(plan.world_size) if group.reads_rank else firm(plan.nodes)
        if row_of(plan).finds_nodes(plan) or logs_in(plan):
            continue  # one command and one file for all nodes
        if len(group.plans) > 1 or not isinstance(rank, Sourced) or rank.origin == "environment":
            continue
        if (
            size is not None
            and size > 1
            and rank.origin == "written"
            and len(cluster) > 1
            and plan.start == "each node"
        ):
            missing = ", ".join(str(other) for other in range(min(size, 64)) if other != rank.value)
            message = said(
                "the file of rank {value} of {size} alone: those of {missing} are not given", rank.value, size, missing
            )
            yield fail("every_node_has_its_file", message, rank.where, fix="give --launch once for each node's file")


def address_is_rank_0s(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """The address of rank 0 is one of the first host, on its training interface, and no loopback."""
    first = cluster.at(0)
    if first is None or len(cluster) < 2:
        return  # where the first host did not answer, the address may be its own
    for plan in files.plans:
        address = plan.master_address
        if not isinstance(address, Sourced) or wrong_with(address.value) or is_loopback(address.value):
            continue
        owners = [node.name for node in cluster if _owns(node, address.value)]
        if not owners and not all(map(_tells_addresses, cluster)):
            continue  # it may be the address of a node that could not tell its own
        right = first.address_for_peers()
        fix = said("{right} (the address of {name})", right, first.name)
        if not owners and _is_ip(address.value) and not _is_of_their_networks(cluster, address.value):
            message = said(
                "the master address {value} belongs to no host of --hosts, and lies in none of their networks",
                address.value,
            )
            reason = said("{message}: right only where a service or NAT leads to {name}", message, first.name)
            yield warn("master_address_is_rank_0s", reason, address.where, fix=fix, nodes=(first.name,))
        elif not owners and _is_ip(address.value):
            message = said("the master address {value} belongs to no host of --hosts", address.value)
            yield fail("master_address_is_rank_0s", message, address.where, fix=fix, nodes=(first.name,))
        elif owners and first.name not in owners and value_of(plan.rendezvous) != "c10d":
            message = said(
                "the master address {value} belongs to {owners}; rank 0 runs on {name}, the first host",
                address.value,
                fold(owners),
                first.name,
            )
            yield fail("master_address_is_rank_0s", message, address.where, fix=fix, nodes=tuple(owners))
        elif len(owners) > 1:
            message = said("{owners} all take the master address {value} for their own", fold(owners), address.value)
            yield fail("master_address_is_rank_0s", message, address.where, fix=fix, nodes=tuple(owners))
        elif owners and _is_ip(address.value):
            yield from _on_training(address, cluster[owners[0]])


def _on_training(address: Sourced[str], node: NodeFacts) -> Iterable[Finding]:
    try:
        interface = node.network.training_interface
        if not interface.holds_any([address.value]):
            message = said(
                "the master address {value} is not on {name}, the training interface of {name2}",
                address.value,
                interface.name,
                node.name,
            )
            yield warn(
                "master_address_is_on_the_training_interface",
                message,
                address.where,
                fix=node.address_for_peers(),
                nodes=(node.name,),
            )
    except FactMissing:
        return


def _tells_addresses(node: NodeFacts) -> bool:
    try:
        return bool(node.network.interfaces)
    except FactMissing:
        return False


def _is_of_their_networks(cluster: Cluster, address: str) -> bool:
    """Whether an address lies in a network that an interface of a node is in."""
    wanted = ipaddress.ip_address(address.strip("[]"))
    for node in cluster:
        for entry in (entry for interface in node.network.interfaces for entry in interface.addresses):
            try:
                network = ipaddress.ip_network(f"{entry.address}/{entry.prefix_length}", strict=False)
            except ValueError:
                continue
            if wanted.version == network.version and wanted in network:
                return True
    return False


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return False
    return True


def _owns(node: NodeFacts, address: str) -> bool:
    """Whether a node would recognise an address or name as its own, as torchrun's c10d does."""
    try:
        if _is_ip(address):
            return node.network.holds_any([address.strip("[]")], reachable=True) or node.address == address
        names = {node.name, node.identity.hostname, node.identity.fqdn}
    except FactMissing:
        return node.address == address
    lower = {name.lower().rstrip(".") for name in names}
    return address.lower().rstrip(".") in lower


def port_is_free(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """Nothing listens on the port on rank 0's node, and its kernel does not hand the port out."""
    for plan in files.plans:
        own, address = own_port(plan, files.programs), value_of(plan.master_address)
        port = own or plan.master_port
        if not isinstance(port, Sourced) or not 0 < port.value < 65536 or not (plan.may_span_nodes or own):
            continue
        owner = next((node for node in cluster if address and _owns(node, address)), cluster.at(0))
        if owner is None:
            continue  # the address may be that of the first host, which did not answer
        try:
            holders = [listener for listener in owner.ports.listeners if listener.port == port.value]
            low, high = owner.network.ephemeral_ports
        except FactMissing:
            continue
        if holders:
            program = holders[0].program
            by = "" if isinstance(program, Missing) else f" ({program})"
            message = said("port {value} is in use on {name}{by}", port.value, owner.name, by)
            fix = _with_a_free_port(plan, owner)
            yield fail("master_port_is_free", message, port.where, fix=fix, nodes=(owner.name,))
        if low <= port.value <= high and not 32768 <= port.value <= 60999:
            message = said(
                "port {value} is in the ephemeral range {low}-{high} of {name}", port.value, low, high, owner.name
            )
            fix = _with_a_free_port(plan, owner)
            yield warn("master_port_is_not_ephemeral", message, port.where, fix=fix, nodes=(owner.name,))


def _free_port(node: NodeFacts) -> int:
    """A port that nobody listens on there, and that the kernel does not hand out."""
    low, high = node.network.ephemeral_ports
    taken = {listener.port for listener in node.ports.listeners}
    usual = (*range(29500, 29600), *range(20000, 20100), *range(1024, 65536))
    return next((port for port in usual if port not in taken and not low <= port <= high), 29500)


def _with_a_free_port(plan: Plan, node: NodeFacts) -> str:
    """The port that is free there, under the name that the launcher has for it."""
    return said(
        "{port}: {free_port} in every file; that port is free on {name}",
        plan.field_names.port,
        _free_port(node),
        node.name,
    )


def _own_nodes(plan: Plan, cluster: Cluster) -> tuple[str, ...]:
    """The nodes that a file may be for: that of its rank, if it answered, or all, as where all have the same count."""
    rank = firm(plan.node_rank) if written(plan.node_rank) else None
    may_differ = plan.launcher.has_agent and not plan.launcher.equal_ranks
    if not may_differ or plan.start != "each node" or rank is None or not 0 <= rank < cluster.hosts:
        return cluster.names
    own = cluster.at(rank)
    return (own.name,) if own is not None else ()


def _with_processes(plan: Plan, counts: dict[str, int], cluster: Cluster) -> str:
    """The number of processes that all nodes have GPUs for, as the launcher wants it written."""
    each = min(counts.values())
    if plan.launcher.name == "accelerate":
        return said("num_processes: {each} ({each2} on every node)", each * cluster.hosts, each)
    return (
        f"--nproc_per_node={each}"
        if plan.launcher.name == "torchrun"
        else said("{each} process{s} on each node", each, "es" * (each != 1))
    )


def processes_fit_gpus(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """As many processes on every node as it has GPUs; nodes without any are left to the CPU."""
    counts: dict[str, int] = {}
    for node in cluster:
        try:
            counts[node.name] = len(node.gpu.readable())
        except FactMissing:
            continue
    if not any(counts.values()):
        return
    for plan in files.plans:
        yield from _world_counts_nodes(plan, counts, cluster)
        if isinstance(plan.processes_per_node, Sourced) and plan.processes_per_node.value >= 1:
            yield from _processes_beside_gpus(plan, plan.processes_per_node, counts, cluster)


def gpus_are_counted(cluster: Cluster) -> bool:
    """Whether every node says how many GPUs it has."""
    try:
        return all(len(node.gpu.readable()) >= 0 for node in cluster)
    except FactMissing:
        return False


def _world_counts_nodes(plan: Plan, counts: dict[str, int], cluster: Cluster) -> Iterable[Finding]:
    """A job started by hand, with one process on each node though nodes have several GPUs."""
    if not plan.is_by_hand or not isinstance(plan.world_size, Sourced) or value_of(plan.local_rank) != 0:
        return
    idle = {name: count - 1 for name, count in counts.items() if count > 1}
    if not idle or plan.world_size.value > cluster.hosts:
        return
    yield warn(
        "world_size_counts_processes",
        said(
            "WORLD_SIZE={value} counts nodes: {sum} GPUs stay idle ({idle})",
            plan.world_size.value,
            sum(idle.values()),
            fold(idle),
        ),
        plan.world_size.where,
        fix=said(
            "WORLD_SIZE={sum}, and a process for each GPU: RANK 0 to {sum2}, LOCAL_RANK counted on each node from 0",
            sum(counts.values()),
            sum(counts.values()) - 1,
        ),
        nodes=tuple(idle),
    )


def _processes_beside_gpus(
    plan: Plan, each: Sourced[int], counts: dict[str, int], cluster: Cluster
) -> Iterable[Finding]:
    """The plan's nodes with fewer GPUs than processes, else those with more."""
    own = _own_nodes(plan, cluster)
    here = {name: count for name, count in counts.items() if name in own}
    short = tuple(name for name, count in here.items() if count < each.value)
    spare = tuple(name for name, count in here.items() if count > each.value)
    if short:
        having = joined([said("{counts} on {name}", counts[name], name) for name in short[:4]], ", ")
        message = said(
            "{value} process{s} on each node, and fewer GPUs: {having}", each.value, "es" * (each.value != 1), having
        )
        fix = _with_processes(plan, counts, cluster)
        yield fail("processes_fit_gpus", message, each.where, fix=fix, nodes=short)
    elif spare and value_of(plan.device_ids) in (None, "all", ""):
        idle_gpus = sum(counts[name] - each.value for name in spare)
        message = said(
            "{value} process{s} on each node; {idle_gpus} GPU{s2} of {spare} stay{s3} idle",
            each.value,
            "es" * (each.value != 1),
            idle_gpus,
            "s" * (idle_gpus != 1),
            fold(spare),
            "s" * (idle_gpus == 1),
        )
        fix = _with_processes(plan, counts, cluster)
        yield warn("processes_fit_gpus", message, each.where, fix=fix, nodes=spare)


RULES = (
    nodes_are_the_hosts,
    ranks_are_complete,
    address_is_rank_0s,
    port_is_free,
    processes_fit_gpus,
)
