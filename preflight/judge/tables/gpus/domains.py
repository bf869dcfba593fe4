"""Can the nodes of one NVLink domain (NVL72) reach each other's memory: the same clique, and an IMEX that works?

NCCL makes a fabric handle on every rank where NVLink joins nodes, and ends with ncclSystemError where a node's IMEX
does not let it (mnnvl.cc: "MNNVL is available but not working on this system"); NCCL_MNNVL_ENABLE=0 leaves it out.
"""

from __future__ import annotations

from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.facts.subjects.gpu import Imex
from preflight.facts.value import Missing, present
from preflight.judge.tables import faults
from preflight.judge.tables.faults import Fault
from preflight.said import said
from preflight.said.errors import Blame, FactMissing, NotApplicable

GUIDE = "NVIDIA IMEX Service Guide; NCCL mnnvl.cc"
START = "`systemctl enable --now nvidia-imex` on the nodes named"
CHANNEL = (
    "`nvidia-modprobe -c 0` on the nodes named, and for containers the device /dev/nvidia-caps-imex-channels/channel0"
)
MOST_NAMED = 4
SAME_NODES = (
    "write the same addresses into /etc/nvidia-imex/nodes_config.cfg of every node of the domain, then run "
    "`systemctl restart nvidia-imex` on all of them"
)


def joined(cluster: Cluster) -> dict[str, dict[str, list[str]]]:
    """NVLink domain -> clique -> its nodes, of the domains that several nodes are in; NotApplicable without one."""
    cluster.needs_peers()
    cliques: dict[str, dict[str, list[str]]] = {}
    for name, gpus in cluster.gather(lambda node: node.gpu.readable()).items():
        for gpu in gpus[:1]:
            if gpu.status.domain():
                try:
                    clique = present(gpu.status.fabric_clique, "clique of the NVLink fabric")
                except FactMissing as missing:
                    cluster.cannot_judge(name, missing)
                    continue
                cliques.setdefault(gpu.status.domain(), {}).setdefault(clique, []).append(name)
    found = {domain: found for domain, found in cliques.items() if sum(map(len, found.values())) > 1}
    if not found:
        raise NotApplicable("no NVLink domain spans several of the nodes")
    return found


def cliques_apart(cluster: Cluster) -> list[Blame]:
    """A Blame for nodes of one NVLink domain that are in another clique than the others of it."""
    return [
        blame
        for domain, found in joined(cluster).items()
        for blame in cluster.differing(found, said("clique of the NVLink domain {domain}", domain))
    ]


def goes_by_the_domain(node: NodeFacts) -> bool:
    """Whether a job on the node takes NVLink to other nodes, unless it was switched off."""
    is_off = any(node.value(name).startswith("0") for name in ("NCCL_MNNVL_ENABLE", "NCCL_CUMEM_ENABLE"))
    return node.backend == "nccl" and not is_off and not node.value("NCCL_P2P_DISABLE").startswith("1")


def _channel(node: NodeFacts) -> str:
    channels = node.gpu.imex_channels
    if isinstance(channels, Missing) and channels.kind != "absent":
        raise FactMissing("channels of IMEX", channels.missing, channels.kind)
    return "" if not isinstance(channels, Missing) and channels > 0 else "there is no IMEX channel"


def _imex(node: NodeFacts) -> Imex:
    return present(node.gpu.imex, "IMEX")


def _daemon(node: NodeFacts) -> str:
    return "" if present(_imex(node).is_running, "whether nvidia-imex runs") else "nvidia-imex does not run"


def _state(node: NodeFacts) -> str:
    imex = _imex(node)
    state, unready = present(imex.state, "state of IMEX"), present(imex.not_ready, "nodes of IMEX")
    own = [state_of for state_of in unready if state_of.split()[0] in own_names(node)]
    if state == "DOWN" or own:
        return said("its IMEX is not ready: domain {state}{own}", state, f", {own[0]}" if own else "")
    return ""


def _degraded(node: NodeFacts) -> str:
    imex = _imex(node)
    state, unready = present(imex.state, "state of IMEX"), present(imex.not_ready, "nodes of IMEX")
    is_own = any(state_of.split()[0] in own_names(node) for state_of in unready)
    if state in ("UP", "DOWN") or is_own:
        return ""
    return said("its IMEX domain is {state}: {unready}", state, ", ".join(unready[:4]) or "not all nodes are connected")


def _listed(node: NodeFacts) -> str:
    if node.identity.context == "container":
        raise NotApplicable("a container may have other addresses than its machine")
    named = present(_imex(node).nodes, "nodes_config.cfg of IMEX")
    return "" if set(named) & own_names(node) else "/etc/nvidia-imex/nodes_config.cfg does not name the node itself"


def own_names(node: NodeFacts) -> set[str]:
    """What the others may call a node: its addresses, loopback ones aside, and its names."""
    addresses = {
        held.address
        for interface in node.network.interfaces
        if not interface.is_loopback
        for held in interface.addresses
    }
    return {*addresses, node.identity.hostname, node.identity.fqdn, node.identity.hostname.partition(".")[0]}


ROWS = (
    Fault("channel of IMEX", _channel, CHANNEL, GUIDE),
    Fault("daemon of IMEX", _daemon, START, GUIDE),
    Fault("state of IMEX", _state, "`nvidia-imex-ctl -N` and /var/log/nvidia-imex.log on the nodes named", GUIDE),
    Fault("other nodes of IMEX", _degraded, "`nvidia-imex-ctl -N` on the nodes named", GUIDE, is_advisory=True),
    Fault("own line of nodes_config.cfg", _listed, SAME_NODES, GUIDE),
)


def judge_imex(cluster: Cluster) -> list[Blame]:
    """A Blame for each node of a shared domain whose IMEX keeps NCCL from its peers; mild where no job asks for it."""
    domains = joined(cluster)
    members = {name for found in domains.values() for names in found.values() for name in names}

    def things(node: NodeFacts) -> list[tuple[str, NodeFacts]]:
        return [("", node)] if node.name in members else []

    blames = faults.blames(cluster, ROWS, things)
    for domain, found in domains.items():
        names = [name for held in found.values() for name in held]
        groups: dict[str, list[str]] = {}
        for name, text in _lists(cluster, names).items():
            groups.setdefault(text, []).append(name)
        blames += cluster.differing(
            groups, said("nodes_config.cfg of IMEX in the NVLink domain {domain}", domain), fix=SAME_NODES
        )
    return [
        Blame(blame.message, nodes=names, fix=blame.fix, is_advisory=blame.is_advisory or is_mild)
        for blame in blames
        for is_mild, names in _by_need(cluster, blame).items()
    ]


def _by_need(cluster: Cluster, blame: Blame) -> dict[bool, list[str]]:
    found: dict[bool, list[str]] = {}
    for name in blame.nodes:
        found.setdefault(not goes_by_the_domain(cluster[name]), []).append(name)
    return found


def _lists(cluster: Cluster, names: list[str]) -> dict[str, str]:
    """How many nodes each node's IMEX was told, and which it was not told of those that another one was.

    Where some cannot be read and others can, those are not judged.
    """
    reported: dict[str, set[str]] = {}
    lacking: dict[str, FactMissing] = {}
    for name in names:
        try:
            reported[name] = set(present(_imex(cluster[name]).nodes, "nodes_config.cfg of IMEX"))
        except FactMissing as missing:
            lacking[name] = missing.kept()
    for name, reason in lacking.items():
        if reported or reason.kind != "absent":
            cluster.cannot_judge(name, reason)
    union: set[str] = set().union(*reported.values())
    return {name: _reported(held, union) for name, held in reported.items()}


def _reported(held: set[str], union: set[str]) -> str:
    without = sorted(union - held)
    more = said(" and {MOST_NAMED} more", len(without) - MOST_NAMED) if len(without) > MOST_NAMED else ""
    return said("{held} nodes", len(held)) + (
        said(" without {without}{more}", ", ".join(without[:MOST_NAMED]), more) if without else ""
    )
