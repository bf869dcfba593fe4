"""Will every node find rank 0: is the address one, does it lead elsewhere than home, do the nodes meet under one id?"""

from __future__ import annotations

import re
from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding
from preflight.launch.address import in_brackets, is_loopback, wrong_with
from preflight.launch.field import Sourced, Unknown, firm, value_of
from preflight.launch.launchers import row_of
from preflight.launch.plan import Plan, fail, warn
from preflight.launch.rules.groups import Group
from preflight.said import said

WITHIN = re.compile(r"(?:[a-z]+://)?([^/:@]+)(?::\d+)?/?")  # the host in a URL, or before a port
OWN_NAME = re.compile(r"\$\(\s*hostname\b[^|;&]*\)|\$\{?HOSTNAME\}?|`\s*hostname\b[^|;&]*`")
FALLS_BACK = re.compile(r"\|\|\s*(?:echo|printf)\s+[\"']?(localhost|127\.0\.0\.1)\b")


def address_is_an_address(plan: Plan) -> Iterable[Finding]:
    """A placeholder or a user@host resolves to nothing: every rank waits, then dies."""
    address = plan.master_address
    if not isinstance(address, Sourced):
        return
    reason = wrong_with(address.value)
    if not address.value.strip() and address.origin == "environment":
        return  # ${MASTER_ADDR:-}: whoever starts the script is to set it
    if reason and (plan.may_span_nodes or plan.is_by_hand):
        fix = said("{address}: <address of rank 0's node, as `ip -4 addr` prints it there>", plan.field_names.address)
        if "@" in address.value:
            fix = address.value.rpartition("@")[2]
        bracketed = in_brackets(address.value)
        if bracketed:
            fix = bracketed if "rdzv_endpoint" in plan.settings else bracketed.partition("]")[0].removeprefix("[")
        host = WITHIN.fullmatch(address.value)
        if host is not None and not wrong_with(host[1]):
            fix = said("{address}: {host}", plan.field_names.address, host[1])
        yield fail(
            "master_address_is_an_address",
            said("master address {value!r} {reason}", address.value, reason),
            address.where,
            fix=fix,
        )


# Variables of clusters that look like an address, and what they hold.
NO_ADDRESS = {
    "AZ_BATCH_MASTER_NODE": ("HOST:PORT", "${AZ_BATCH_MASTER_NODE%:*}"),
    "SM_HOSTS": ("a list of all hosts", "algo-1"),
    "SLURM_NODELIST": ("a list of all nodes", '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'),
    "SLURM_JOB_NODELIST": ("a list of all nodes", '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'),
    "SLURM_SUBMIT_HOST": ("the login node", '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'),
    "SKYPILOT_NODE_IPS": ("a list of all nodes", '$(echo "$SKYPILOT_NODE_IPS" | head -n 1)'),
    "DSTACK_NODES_IPS": ("a list of all nodes", "$DSTACK_MASTER_NODE_IP"),
    "LSB_HOSTS": ("a list of all slots", "${LSB_HOSTS%% *}"),
    "LSB_DJOB_HOSTFILE": ("the name of a file of hosts", '$(head -n 1 "$LSB_DJOB_HOSTFILE")'),
    "PBS_NODEFILE": ("the name of a file of nodes", '$(head -n 1 "$PBS_NODEFILE")'),
    "PJM_O_NODEINF": ("the name of a file of nodes", '$(head -n 1 "$PJM_O_NODEINF")'),
    "OAR_NODEFILE": ("the name of a file of nodes", '$(head -n 1 "$OAR_NODEFILE")'),
    "AZ_BATCH_HOST_LIST": ("a list of all hosts", "${AZ_BATCH_HOST_LIST%%,*}"),
}


def address_comes_from_an_address(plan: Plan) -> Iterable[Finding]:
    """Some variables of a scheduler hold a list, a port too, or another machine."""
    address = plan.master_address
    if not isinstance(address, Unknown) or not plan.may_span_nodes:
        return
    name = address.expression.strip("\"'").removeprefix("$").strip("{}")
    if name == "SLURM_LAUNCH_NODE_IPADDR" and not (plan.slurm is not None and plan.slurm.has_directives):
        message = (
            "the master address is that of the node where srun is called: a login node, where that is done by hand, "
            "and no rank 0"
        )
        fix = f"{plan.launcher.field_names.address}={NO_ADDRESS['SLURM_SUBMIT_HOST'][1]}"
        yield warn("master_address_is_rank_0s", message, address.where, fix=fix)
    if name in NO_ADDRESS:
        holds, right = NO_ADDRESS[name]
        message = said("the master address is {expression}, which holds {holds}", address.expression, holds)
        fix = f"{plan.launcher.field_names.address}={right}"
        yield fail("master_address_is_an_address", message, address.where, fix=fix)


BRIDGE = re.compile(r"172\.17\.\d{1,3}\.\d{1,3}\Z")  # docker0, as it comes


ALL_ADDRESSES = re.compile(r"\bhostname\s+(-I|--all-ip-addresses)\s*[)`]")


def address_is_one(plan: Plan) -> Iterable[Finding]:
    """`hostname -I` prints every address of the machine, each with a blank behind it."""
    address = plan.master_address
    if isinstance(address, Unknown) and plan.may_span_nodes and ALL_ADDRESSES.search(address.expression):
        message = said(
            "{expression} is every address of the machine, with a blank behind the last: in an option "
            "the shell splits it there, and as a value it is no host name",
            address.expression,
        )
        yield warn("master_address_is_an_address", message, address.where, fix="$(hostname -I | awk '{print $1}')")


def address_is_given(plan: Plan) -> Iterable[Finding]:
    """Without an address every launcher falls back to the node itself."""
    if plan.master_address is not None or not plan.spans_nodes or plan.is_opaque or plan.is_standalone:
        return
    nodes = plan.nodes.where if isinstance(plan.nodes, Sourced) else plan.where
    if (
        plan.launcher.has_agent
        and not plan.launcher.default_nodes_count
        and value_of(plan.rendezvous) in ("static", "c10d")
    ):
        option = (
            "--rdzv_endpoint=<address of rank 0's node>:29500"
            if value_of(plan.rendezvous) == "c10d"
            else said("{address}=<address of rank 0's node>", plan.launcher.field_names.address)
        )
        message = said(
            "{firm} nodes and no address of rank 0: every node takes itself for it and waits for the others",
            firm(plan.nodes),
        )
        yield fail("master_address_is_given", message, plan.where, nodes, fix=option)


def address_leads_elsewhere(plan: Plan) -> Iterable[Finding]:
    """localhost, 127.0.0.1 or 0.0.0.0 as the address of rank 0: every node waits for itself."""
    address = plan.master_address
    if plan.is_standalone and (plan.spans_nodes or (isinstance(plan.nodes, Unknown) and plan.node_rank is not None)):
        yield _standalone(plan)
        return
    if not plan.spans_nodes and not plan.shares_host:
        yield from _leads_home_in_a_step(plan)
    if not plan.spans_nodes or plan.shares_host:
        return
    yield from _falls_back(plan)
    if isinstance(address, Sourced) and BRIDGE.match(address.value) and not plan.is_of_a_manifest:
        message = said(
            "{value} as the address of rank 0 of {firm} nodes: Docker gives such addresses on its own "
            "bridge, where no other node reaches them",
            address.value,
            firm(plan.nodes),
        )
        fix = said(
            "{address}: <address of rank 0's node>, and --network=host for the container", plan.field_names.address
        )
        yield warn("master_address_leads_to_rank_0", message, address.where, fix=fix)
    if isinstance(address, Sourced) and is_loopback(address.value):
        yield _loopback(plan, address)


def _standalone(plan: Plan) -> Finding:
    """--standalone, with which torchrun looks for the other nodes on this one."""
    where = plan.settings.get("standalone")
    if plan.spans_nodes:
        tell, message = (
            fail,
            said("--standalone with {firm} nodes: each waits on its own localhost for the others", firm(plan.nodes)),
        )
    else:  # the node rank says that there may be others
        tell, message = (
            warn,
            "--standalone: were there several nodes, each would wait on its own localhost for the others",
        )
    fix = (
        "Replace --standalone by --rdzv_backend=c10d --rdzv_endpoint=<address of rank 0's node>:29500"
        " --rdzv_id=<one id>"
    )
    return tell("master_address_leads_to_rank_0", message, where.where if where is not None else plan.where, fix=fix)


def _loopback(plan: Plan, address: Sourced[str]) -> Finding:
    """A loopback address of rank 0: a failure, or a warning where one node may rightly have it."""
    nodes = plan.nodes.where if isinstance(plan.nodes, Sourced) else plan.where
    fix = said("{address}: <address of rank 0's node>", plan.field_names.address)
    if row_of(plan).finds_nodes(plan):
        message = said(
            "{value} as the address of rank 0 of {firm} machines; mpirun may hand it to all of them",
            address.value,
            firm(plan.nodes),
        )
        return warn("master_address_leads_to_rank_0", message, address.where, nodes, fix=fix)
    if firm(plan.fewest_nodes) == 1:
        message = said("{value} as the endpoint: a second node never joins, each trains alone", address.value)
        return warn("master_address_leads_to_rank_0", message, address.where, nodes, fix=fix)
    if plan.written_rank == 0 and address.value != "0.0.0.0" and not plan.is_conditional and not plan.is_whole:
        others = (firm(plan.nodes) or 2) - 1
        message = said(
            "{value} as the address of rank 0: right on node 0 alone; the other {others} must name another",
            address.value,
            others,
        )
        return warn("master_address_leads_to_rank_0", message, address.where, nodes, fix=fix)
    if address.origin == "environment":
        message = said(
            "{value} unless the environment says otherwise, with {firm} nodes: every node waits for itself",
            address.value,
            firm(plan.nodes),
        )
        return warn("master_address_leads_to_rank_0", message, address.where, nodes, fix=fix)
    message = said(
        "{value} as the address of rank 0 of {firm} nodes: every node waits for itself", address.value, firm(plan.nodes)
    )
    return fail("master_address_leads_to_rank_0", message, address.where, nodes, fix=fix)


def _leads_home_in_a_step(plan: Plan) -> Iterable[Finding]:
    """The same where the number of nodes is not known, and the step of srun has several."""
    address, slurm = plan.master_address, plan.slurm
    asked = slurm.number("nodes") if slurm is not None and "srun" in plan.wraps and not plan.is_one_step else None
    count = firm(asked) or 1
    if count < 2 or not isinstance(plan.nodes, Unknown) or not isinstance(address, Sourced) or asked is None:
        return
    if is_loopback(address.value) and address.origin == "written" and not plan.is_conditional:
        message = said(
            "{value} as the address of rank 0 of {count} nodes: every node waits for itself", address.value, count
        )
        fix = said("{address}: <address of rank 0's node>", plan.field_names.address)
        yield fail("master_address_leads_to_rank_0", message, address.where, asked.where, fix=fix)


def _falls_back(plan: Plan) -> Iterable[Finding]:
    """``$(... || echo localhost)``: where the command fails, every node waits for itself."""
    address = plan.master_address
    if not isinstance(address, Unknown):
        return
    found = FALLS_BACK.search(address.expression)
    if found:
        fails = said("{found} where {expression} fails", found[1], address.expression[:80])
        message = said("{fails}, with {firm} nodes: every node waits for itself", fails, firm(plan.nodes))
        fix = "Let it fail: without an address no node can join."
        yield warn("master_address_leads_to_rank_0", message, address.where, fix=fix)


def group_leads_elsewhere(group: Group) -> Iterable[Finding]:
    """The same for scripts that set RANK by hand, where several files are several nodes."""
    if not group.is_set or not group.reads_rank:
        return
    for plan in group.plans:
        address = plan.master_address
        if isinstance(address, Sourced) and is_loopback(address.value) and address.origin == "written":
            message = said(
                "{value} as MASTER_ADDR of {files} nodes: every node waits for itself", address.value, len(group.files)
            )
            yield fail(
                "master_address_leads_to_rank_0", message, address.where, fix="MASTER_ADDR=<address of rank 0's node>"
            )


def address_is_the_same_everywhere(plan: Plan) -> Iterable[Finding]:
    """A node's own name as the address of rank 0, worked out on every node: each is its own rank 0."""
    address = plan.master_address
    if not isinstance(address, Unknown) or not address.varies or plan.is_conditional:
        return
    if not plan.spans_nodes and not _is_a_nodes_own(plan, address):
        return
    if plan.launcher.starts_all_nodes and plan.launcher.numbers_processes and OWN_NAME.search(address.expression):
        name = plan.field_names.address
        message = said(
            "{name}={expression} is worked out by each process: every one takes its own node for rank 0's",
            name,
            address.expression,
        )
        fix = "export MASTER_ADDR=$(hostname) in front of the command that starts them all"
        yield fail("master_address_is_the_same_everywhere", message, address.where, fix=fix)
        return
    by_slurm = "srun" in plan.wraps and not plan.is_one_step and not plan.is_conditional
    if by_slurm and OWN_NAME.search(address.expression) and plan.launcher.has_agent:
        message = said(
            "{expression} is worked out on each node that srun starts: every one takes itself for rank 0",
            address.expression,
        )
        fix = "export MASTER_ADDR=$(hostname) in front of the command that starts them all"
        yield fail("master_address_is_the_same_everywhere", message, address.where, fix=fix)
        return
    message = said(
        "{expression} is worked out on every node: each takes itself for rank 0. Right only where "
        "one node runs this line",
        address.expression,
    )
    yield warn(
        "master_address_is_the_same_everywhere",
        message,
        address.where,
        fix="The address of rank 0's node, spelled out.",
    )


def _is_a_nodes_own(plan: Plan, address: Unknown) -> bool:
    """Whether each node works out its own name and its own number: the script of one task among several."""
    rank, count = plan.node_rank, plan.nodes
    in_order = isinstance(rank, Unknown) and rank.per_node and IN_THEIR_ORDER.search(rank.expression)
    return bool(in_order) and isinstance(count, Unknown) and OWN_NAME.search(address.expression) is not None


LAST_OF_LIST = re.compile(
    r"(SKYPILOT_NODE_IPS|scontrol show hostnames?)[^|]*\|\s*tail\s+(-n\s*)?-?1\b\s*\)?[\"']?`?\)?\Z"
)
IN_THEIR_ORDER = re.compile(r"\bSLURM_(NODEID|PROCID)\b|\bSKYPILOT_NODE_RANK\b")


def address_is_the_first_nodes(plan: Plan) -> Iterable[Finding]:
    """Slurm and SkyPilot number the nodes in the order of their list: rank 0 is on the first of them."""
    address, rank = plan.master_address, plan.rank if plan.launcher.numbers_processes else plan.node_rank
    if not isinstance(address, Unknown) or not isinstance(rank, Unknown) or value_of(plan.rendezvous) == "c10d":
        return
    if LAST_OF_LIST.search(address.expression) and IN_THEIR_ORDER.search(rank.expression):
        message = said(
            "{expression} is the last node, and rank 0 ({expression2}) is on the first: nobody listens there",
            address.expression,
            rank.expression,
        )
        fix = address.expression.replace("tail", "head")
        yield fail("master_address_leads_to_rank_0", message, address.where, fix=fix)


def rendezvous_id_is_one(plan: Plan) -> Iterable[Finding]:
    """Nodes with different ids never meet."""
    name = plan.rendezvous_id
    is_several = plan.spans_nodes and bool(plan.launcher.field_names.rendezvous_id) and not plan.is_standalone
    if not isinstance(name, Unknown) or not is_several or value_of(plan.rendezvous) == "static":
        return
    fix = "--rdzv_id=$SLURM_JOB_ID" if plan.slurm is not None else "--rdzv_id=job1, the same on every node"
    if name.varies:
        message = said(
            "--rdzv_id {expression} comes out different on every node: the nodes never meet", name.expression
        )
        yield fail("rendezvous_id_is_the_same_everywhere", message, name.where, fix=fix)
    elif "RANDOM" in name.expression and plan.slurm is None and not (plan.is_logged_in and name.where != plan.where):
        message = said(
            "--rdzv_id {expression} holds only because one shell works it out for all nodes; run by hand "
            "on each, they never meet",
            name.expression,
        )
        yield warn("rendezvous_id_is_the_same_everywhere", message, name.where, fix=fix)


PLAN_RULES = (
    address_is_an_address,
    address_comes_from_an_address,
    address_is_one,
    address_is_given,
    address_leads_elsewhere,
    address_is_the_same_everywhere,
    address_is_the_first_nodes,
    rendezvous_id_is_one,
)
GROUP_RULES = (group_leads_elsewhere,)
