"""Which lines put the variables of the job right?"""

from __future__ import annotations

import re

from preflight.facts.node import NodeFacts
from preflight.facts.value import or_none
from preflight.judge.commands.words import Case, Remedy, Row, edited, exported, of_the_others, unset
from preflight.judge.tables.network import proxies
from preflight.knowledge.variables import judged as variables
from preflight.knowledge.variables import leftovers
from preflight.said.errors import FactMissing

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LONGEST_VALUE = 16_384  # the report has the line for each of thousands of nodes, and Linux takes none above 128 KiB
FILES = {"/etc/nccl.conf": "/etc/nccl.conf", "~/.nccl.conf": "~/.nccl.conf"}


def without(node: NodeFacts, *names: str) -> Remedy:
    """Taken out of the file that sets them on the node, or out of the job's environment."""
    if not names or not all(map(NAME.fullmatch, names)):
        raise FactMissing("variables", "there is none to unset")
    files = {FILES[layer] for name in names if (layer := node.setting(name).layer) in FILES}
    if len(files) == 1 and all(node.setting(name).layer in FILES for name in names):
        (file,) = files
        script = f"/^[[:space:]]*({'|'.join(names)})[[:space:]]*=/d"
        return Remedy(edited(node, script, file))
    return unset(*names)


def _unknown(case: Case) -> Remedy:
    """The variable under the name that was meant; nothing where no known name is near."""
    node = case.node
    nccl, torch = (or_none(held, "version") for held in (node.software.nccl, node.software.torch))
    held = node.environment.variables
    wrong = [name for name in held if variables.unknown(name) or variables.unread(name, nccl=nccl, torch=torch)]
    near = {name: variables.nearest(name) for name in wrong if variables.unknown(name)}
    if len(wrong) == 1 and near.get(wrong[0]) and NAME.fullmatch(wrong[0]):
        now = f"unset {wrong[0]}; {exported(**{near[wrong[0]]: held[wrong[0]].value}).now}"
        return Remedy(now, is_for_job=True)
    return without(node, *wrong)


def _refused(case: Case) -> Remedy:
    held = case.node.environment.variables
    return without(case.node, *(name for name, one in held.items() if variables.refused(name, one.value)))


def _leftover(case: Case) -> Remedy:
    held, has_rdma = case.node.environment.variables, bool(case.node.rdma.active_ports())
    found = [name for name, one in held.items() if leftovers.leftover(name, one.value, has_rdma=has_rdma)]
    return without(case.node, *found)


def _as_the_others(case: Case) -> Remedy:
    """The variable that differs, as most other nodes have it; unset where they lack it."""
    name = case.value("about")
    if not NAME.fullmatch(name):
        raise FactMissing("variable", f"{name} is no name")
    wanted = of_the_others(case, lambda node: node.value(name), f"{name} of the others")
    return exported(**{name: wanted}) if wanted else without(case.node, name)


def _apart(case: Case) -> Remedy:
    """The node's own rank; what names machines is best left to NCCL."""
    name = case.value("name")
    if name in ("NODE_RANK", "GROUP_RANK"):
        return exported(**{name: str(case.node.index)})
    return without(case.node, name)


def _as_typed(case: Case) -> Remedy:
    """What people's shells have, for the job that a launcher starts."""
    name = case.value("name")
    found = case.node.environment.only_typed(name)
    if not found or not NAME.fullmatch(name):
        raise FactMissing("variables", "no shell has another value")
    return exported(**{name: next(iter(found.values()))})


def _no_proxy(case: Case) -> Remedy:
    """The exceptions so far, and every node by address and name: one value that fits all nodes."""
    excepted = case.node.value("no_proxy") or case.node.value("NO_PROXY")
    return case.once(f"no_proxy={excepted}", lambda: _with_every_node(case, excepted))


def _with_every_node(case: Case, excepted: str) -> Remedy:
    missed = proxies.look(excepted, case.cluster).caught.values()
    names = [name for node in missed for name in (node.address_for_peers(), node.identity.hostname)]
    value = ",".join(dict.fromkeys([*filter(None, [excepted.rstrip(",")]), *names]))
    if len(value) > LONGEST_VALUE:
        raise FactMissing("no_proxy", "so many names need the end of a name or a network instead")
    return exported(no_proxy=value, NO_PROXY=value)


def _switched_off(case: Case) -> Remedy:
    """The variables that keep NCCL from a fast way."""
    return without(case.node, *(name for name in case.value("variables") if case.node.has_variable(name)))


ROWS: dict[str, Row] = {
    "environment.variables_exist": _unknown,
    "environment.values_are_possible": _refused,
    "environment.nothing_is_left_from_debugging": _leftover,
    "environment.variables_of_all_ranks_agree": _as_the_others,
    "environment.other_variables_are_the_same_on_every_node": _as_the_others,
    "environment.what_sets_nodes_apart_is_each_nodes_own": _apart,
    "environment.a_persons_shell_has_the_variables_of_the_job": _as_typed,
    "environment.proxies_leave_the_peers_out": _no_proxy,
    "bench.nccl_stays_on_nvlink_within_a_node": _switched_off,
    "bench.nccl_takes_the_fast_ways": _switched_off,
    "bench.nccl_loads_the_plugin_that_was_asked_for": _switched_off,
}
