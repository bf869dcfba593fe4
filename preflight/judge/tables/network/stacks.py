"""Which address does a library take for its node where nobody names one, and is it one that the peers are on?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.facts.subjects.network import Interface, Network, is_loopback
from preflight.knowledge.interfaces import kind
from preflight.reach.hosts import fold
from preflight.said import joined, said
from preflight.said.errors import Blame, FactMissing, NotApplicable


class Stack(NamedTuple):
    """A library that takes the address of the default route, and what names another."""

    package: str
    name: str
    variables: tuple[str, ...]  # the first is the one to set
    option: str  # where no variable does it


STACKS = (
    Stack("vllm", "vLLM", ("VLLM_HOST_IP",), ""),
    Stack("sglang", "SGLang", ("SGLANG_HOST_IP", "HOST_IP"), ""),
    Stack("ray", "Ray", (), "--node-ip-address"),
)
MPI_CHOICE = ("OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_btl_tcp_if_exclude")


def by_default_route(node: NodeFacts) -> tuple[str, str]:
    """What is taken on the default route, and the command that names the training address; "" where they are one.

    NotApplicable where none of these libraries is installed, or the node has no default route.
    """
    found = [stack for stack in STACKS if stack.package in node.software.packages]
    if not found:
        raise NotApplicable("none of vLLM, SGLang and Ray is installed")
    ways = [gateway.interface for gateway in node.network.gateways if gateway.family == "inet"]
    if not ways:
        raise NotApplicable("no default route of IPv4")
    training, wanted = node.network.training_interface, node.network.training_interface.address()
    left = [stack for stack in found if not any(node.has_variable(name) for name in stack.variables)]
    if ways[0] == training.name or not left:
        return "", ""
    taken = _address(node.network.interface(ways[0]))
    commands = [f"export {stack.variables[0]}={wanted}" for stack in left if stack.variables]
    commands += [f"ray start {stack.option}={wanted}" for stack in left if not stack.variables]
    words = said(
        "{stacks} take{s} the address of the default route: {taken} of {interface}, and the job trains over {training}",
        " and ".join(stack.name for stack in left),
        "s" * (len(left) == 1),
        taken,
        ways[0],
        training.name,
    )
    return words, joined([f"`{command}`" for command in commands], ", ")


def _address(interface: Interface) -> str:
    try:
        return interface.address("inet")
    except FactMissing:
        return "no address"


def alike(cluster: Cluster) -> Mapping[str, tuple[str, list[str]]]:
    """Interface -> the address that it has on several machines, and these: a bridge that each has for itself."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for name, network in cluster.gather(lambda node: node.network).items():
        for one in network.interfaces:
            for held in one.addresses:
                if held.family == "inet" and not is_loopback(held.address) and one.name != network.training:
                    found.setdefault((one.name, held.address), {})[cluster[name].identity.boot_id] = name
    return {
        name: (address, list(machines.values())) for (name, address), machines in found.items() if len(machines) > 1
    }


def of_mpi(cluster: Cluster) -> list[Blame]:
    """A Blame for machines with a bridge of the same address, where Open MPI is left to take it."""
    if not any(cluster.gather(_runs_mpi).values()):
        raise NotApplicable("nothing of the job is started by Open MPI, or it is told which interfaces to take")
    bridges = alike(cluster)
    if not bridges:
        return []
    nodes = [name for name in cluster.names if any(name in names for _, names in bridges.values())]
    words = [said("{name} has {address} on each", name, address) for name, (address, _) in bridges.items()]
    message = said("Open MPI connects over every interface, and {words}: a peer's is its own", joined(words, ", "))
    fix = said("`export {variable}=lo,{names}` where mpirun is called", MPI_CHOICE[1], ",".join(bridges))
    is_sure = any(_calls_mpi(node) for node in cluster) and not any(map(_has_verbs, cluster))
    return [Blame(message, nodes=nodes, fix=fix, is_advisory=not is_sure)]


CALLING_MPI = ("horovod", "mpi4py")


def _calls_mpi(node: NodeFacts) -> bool:
    """Whether mpirun starts what joins MPI's own network, and does not only want to be started on every node."""
    try:
        return _runs_mpi(node) and "mpirun" in node.trust.programs and _has_any(node, CALLING_MPI)
    except FactMissing:
        return False


def _has_any(node: NodeFacts, packages: Iterable[str]) -> bool:
    return any(name in node.software.packages for name in packages)


def _has_verbs(node: NodeFacts) -> bool:
    """Whether Open MPI may have UCX carry the data, which takes no bridge."""
    try:
        return bool(node.rdma.active_ports())
    except FactMissing:
        return False


def _runs_mpi(node: NodeFacts) -> bool:
    if any(node.has_variable(name) for name in MPI_CHOICE):
        return False
    if "horovod" in node.software.packages:
        return True
    try:
        return bool(node.trust.programs.get("mpirun")) and MPI_CHOICE[1] in node.trust.unset
    except FactMissing:
        return False


def without_common_name(cluster: Cluster) -> list[Blame]:
    """A Blame where no interface has one name on all nodes, as horovodrun wants it."""
    if not any("horovod" in packages for packages in cluster.gather(lambda node: node.software.packages).values()):
        raise NotApplicable("horovod is not installed")
    if any(cluster.gather(lambda node: node.has_variable("HOROVOD_GLOO_IFACE")).values()):
        return []
    names = cluster.gather(lambda node: _usable(node.network))
    counted = Counter(name for held in names.values() for name in held)
    if len(names) < 2 or any(count == len(names) for count in counted.values()):
        return []
    groups: dict[str, list[str]] = {}
    for node, held in names.items():
        groups.setdefault(", ".join(sorted(held)) or "none", []).append(node)
    words = [said("{names} on {nodes}", held, fold(nodes)) for held, nodes in groups.items()]
    message = said("no interface has one name on all nodes: {words}", joined(words))
    return [Blame(message, nodes=list(names), is_advisory=not _by_horovodrun(cluster.first))]


def _by_horovodrun(first: NodeFacts) -> bool:
    """Whether a launch file has horovodrun look for the interface."""
    try:
        return "HOROVOD_GLOO_IFACE" in first.trust.unset
    except FactMissing:
        return False


def _usable(network: Network) -> set[str]:
    """Those that may lead to another machine: horovodrun tries what it finds."""
    used = [one for one in network.interfaces if not one.is_loopback and one.is_up and one.families()]
    return {one.name for one in used if not ((row := kind(one.name)) and row.is_home)}
