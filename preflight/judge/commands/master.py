"""Which lines make MASTER_ADDR and MASTER_PORT lead every node to rank 0?"""

from __future__ import annotations

import re

from preflight.facts.node import NodeFacts
from preflight.judge.commands.names import in_hosts
from preflight.judge.commands.words import Case, Remedy, Row, exported, of_the_others
from preflight.said import said
from preflight.said.errors import FactMissing

PORT = 29500
# A wrong value on the first node is wrong for the whole job.
OF_ALL_NODES = frozenset(
    {
        "master.variables_are_the_same_on_every_node",
        "master.address_belongs_to_the_first_node",
        "master.address_leads_every_node_to_the_first",
        "master.address_is_on_the_training_interface",
        "master.port_is_outside_the_ephemeral_range",
    }
)
VARIABLES = ("MASTER_ADDR", "MASTER_PORT")


def _same(case: Case) -> Remedy:
    """The variable that differs: the first node's own address; the port that most nodes have, or the first one's."""
    name = case.value("about")
    if name not in VARIABLES:
        raise FactMissing("variable", f"{name} is none of rank 0's place")
    if name == "MASTER_ADDR":
        return exported(MASTER_ADDR=case.cluster.first.address_for_peers())
    try:
        port = of_the_others(case, lambda node: _given(node, name), name)
    except FactMissing:
        port = case.cluster.first.value(name)
    low, high = case.cluster.first.network.ephemeral_ports
    is_good = port.isdecimal() and not low <= int(port) <= high
    return exported(MASTER_PORT=port) if is_good else _port(case)


def _given(node: NodeFacts, name: str) -> str:
    """The value of a variable. Raises FactMissing where the node has none."""
    if not node.value(name):
        raise FactMissing(name, "it is not set", "absent")
    return node.value(name)


def _address(case: Case) -> Remedy:
    if case.cluster.first.setting("MASTER_ADDR").layer == "launch files":
        raise FactMissing("export of MASTER_ADDR", "the launch files name the address; it is corrected there", "absent")
    return exported(MASTER_ADDR=case.cluster.first.address_for_peers())


def _port(case: Case) -> Remedy:
    low, _ = case.cluster.first.network.ephemeral_ports
    return exported(MASTER_PORT=str(PORT if low > PORT else max(low - 1, 1024)))


def _holder(case: Case) -> Remedy:
    """Show who holds the port; ending that program is for its owner to decide."""
    first = case.cluster.first
    port = first.value("MASTER_PORT")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        return Remedy(f"export MASTER_PORT={PORT}", is_for_job=True)
    pid = re.search(r"\d+", first.peers.master_port_holder.rpartition("pid")[2])
    end = (
        said("# to end it: kill {pid}", pid[0])
        if pid
        else "# end what it shows, or export another MASTER_PORT on every node"
    )
    return Remedy(f"ss -ltnp 'sport = :{port}'", end)


def _own_name(case: Case) -> Remedy:
    """The endpoint's address for the node's own hostname, where the job trains on it; else MASTER_ADDR is put right."""
    first = case.cluster.first
    (address, *_) = first.peers.addresses_of_master()
    if not first.network.training_interface.holds_any([address]):
        raise FactMissing("line of /etc/hosts", "MASTER_ADDR is not on the training interface")
    return in_hosts(first, {(first.identity.hostname,): address})


ROWS: dict[str, Row] = {
    "master.variables_are_the_same_on_every_node": _same,
    "master.address_belongs_to_the_first_node": _address,
    "master.address_leads_every_node_to_the_first": _address,
    "master.address_is_on_the_training_interface": _address,
    "master.first_node_knows_the_address_for_its_own": _own_name,
    "master.port_is_free_on_the_first_node": _holder,
    "master.port_is_outside_the_ephemeral_range": _port,
}
