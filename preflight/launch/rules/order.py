"""Are the nodes of a job started side by side, and are several jobs told apart?"""

from __future__ import annotations

import re
from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding, Verdict, Where
from preflight.launch.field import Sourced, firm
from preflight.launch.plan import LaunchFiles, Plan, ScriptFile, fail, numbered, problem
from preflight.launch.rules.groups import apart
from preflight.reach.hosts import parse_hosts
from preflight.said import said
from preflight.said.errors import UsageError

PLAIN_HOSTS = re.compile(r"[A-Za-z0-9][\w.,\[\]-]*")
READS_NOTHING = {"-n", "-f", "-fn", "-nf"}
SAYING = {"echo", "printf", "date", "set"}


def nodes_start_side_by_side(script: ScriptFile) -> Iterable[Finding]:
    """A command that is waited for keeps the next node from being started, for which it waits itself."""
    waiting = [plan for plan in script.plans if not plan.in_background and not plan.is_conditional]
    for plan in waiting:
        if plan.loop and plan.is_logged_in and (plan.has_peers or _several(plan)):
            message = (
                "the loop waits for the first node's command to end, and that waits for the other nodes: no & behind it"
            )
            yield fail("every_node_is_started", message, plan.where, fix="ssh ... & in the loop, and `wait` behind it")
            return
    for plan in script.plans:
        if plan.loop == "while" and "ssh" in plan.wraps and not READS_NOTHING & set(plan.wrapper):
            message = "ssh reads the loop's list of hosts as its own input: the loop ends after the first host"
            yield fail("every_node_is_started", message, plan.where, fix="ssh -n ...")
            return
    for plan in waiting:
        at_once, nodes = _at_once(plan.wrapper), firm(plan.fewest_nodes) or firm(plan.nodes)
        if at_once is not None and nodes is not None and at_once < nodes:
            message = said(
                "xargs starts {at_once} at once, and each waits for the other nodes of {nodes}", at_once, nodes
            )
            yield fail("every_node_is_started", message, plan.where, fix=said("xargs -P {nodes}", nodes))
            return
    yield from _one_after_the_other(waiting)


def _one_after_the_other(waiting: Iterable[Plan]) -> Iterable[Finding]:
    """Nodes of one job, which meet at one address, in lines of a script that waits for each of them."""
    starters = {"srun", "mpirun", "pdsh", "clush", "kubectl"}
    jobs: dict[tuple[object, ...], list[Plan]] = {}
    for plan in waiting:
        is_a_swarms = {"docker", "service"} <= plan.wraps  # that runs it, and nobody waits
        if not plan.wraps & starters and not is_a_swarms:
            jobs.setdefault((firm(plan.master_address), firm(plan.master_port)), []).append(plan)
    for job in map(numbered, jobs.values()):
        if job and not job[0].loop:
            first, second = firm(job[0].node_rank), firm(job[1].node_rank)
            message = said("the script waits here for node {firm}, which waits for node {firm2}", first, second)
            yield fail(
                "every_node_is_started",
                said("{message}: that is started only when this has ended", message),
                job[0].where,
                job[1].where,
                fix="& behind the command, and `wait` at the end",
            )


def _at_once(wrapper: tuple[str, ...]) -> int | None:
    """How many commands of ssh xargs has running at a time; None where it is not xargs, or without a limit."""
    names = [word.rpartition("/")[2] for word in wrapper]
    if "xargs" not in names or "ssh" not in names[names.index("xargs") :] or {"tmux", "screen"} & set(names):
        return None  # a window on the other node is not waited for
    given = wrapper[names.index("xargs") + 1 : names.index("ssh")]
    text = " ".join(given)
    asked = re.search(r"(?:^|\s)(?:-\w*P\s*|--max-procs[= ])(\S+)", text)
    if asked is None:
        return 1
    return int(asked[1]) or None if re.fullmatch(r"[0-9]{1,5}", asked[1]) else None


def every_node_is_logged_in_to(script: ScriptFile) -> Iterable[Finding]:
    """A loop over hosts that begins with rank 0 starts as many nodes as the job has."""
    plans = [plan for plan in script.plans if plan.is_logged_in and plan.loop and not plan.is_conditional]
    sizes = {firm(plan.fewest_nodes) or firm(plan.nodes) for plan in plans}
    ranks = {firm(plan.node_rank) for plan in plans}
    if len(plans) < max(2, len(script.plans)) or len(sizes) != 1 or 0 not in ranks or len(ranks) != len(plans):
        return
    size, nodes = sizes.pop(), plans[0].nodes
    if size is not None and nodes is not None and size > len(plans):
        message = said(
            "{nodes} {size}, and the loop starts {plans}: they wait for the others forever",
            plans[0].launcher.field_names.nodes,
            size,
            len(plans),
        )
        yield fail(
            "every_node_is_started",
            message,
            nodes.where,
            plans[0].where,
            fix=said("{plans}, or the hosts that are missing", len(plans)),
        )


def every_named_host_is_a_node(script: ScriptFile) -> Iterable[Finding]:
    """pdsh starts one command on each of its hosts: as many as the job has nodes."""
    if len(script.plans) != 1:
        return
    (plan,) = script.plans
    hosts = _listed(plan.wrapper) if plan.wraps & {"pdsh", "clush"} and not plan.loop else 0
    nodes, fewest = plan.nodes, firm(plan.fewest_nodes) or firm(plan.nodes)
    if not hosts or not isinstance(nodes, Sourced) or nodes.origin != "written" or plan.is_conditional:
        return
    if plan.spans_nodes and fewest is not None and not fewest <= hosts <= nodes.value:
        by = next(name for name in ("pdsh", "clush") if name in plan.wraps)
        message = said(
            "{nodes} {value}, and {by} starts {hosts}", plan.launcher.field_names.nodes, nodes.value, by, hosts
        )
        fix = said("{nodes} {hosts}, or -w with {value} hosts", plan.launcher.field_names.nodes, hosts, nodes.value)
        yield fail("every_node_is_started", message, nodes.where, plan.where, fix=fix)


def _listed(wrapper: tuple[str, ...]) -> int:
    """How many hosts `-w` names; 0 where it names groups or files, leaves hosts out, or is not known."""
    given = [wrapper[place + 1] for place, word in enumerate(wrapper[:-1]) if word == "-w"]
    if len(given) != 1 or not PLAIN_HOSTS.fullmatch(given[0]) or {"-x", "-g", "-a"} & set(wrapper):
        return 0
    try:
        return len({host.address for host in parse_hosts(given[0])})
    except UsageError:
        return 0


def steps_are_waited_for(files: LaunchFiles) -> Iterable[Finding]:
    """A batch script that ends while its steps run in the background takes them along: Slurm ends the job.

    A script that it starts in the background may well end so: what counts is how the batch script itself goes on.
    """
    for script in files.scripts:
        last = [command for command in script.commands if command.words[0].plain not in SAYING][-1:]
        if script.is_started or not last or not last[0].in_background or last[0].is_conditional:
            continue
        words = {word.plain.rpartition("/")[2] for word in last[0].words}
        inner = [plan for other in files.scripts if other.is_started for plan in other.plans]
        inner = [plan for plan in inner if plan.where.file.rpartition("/")[2] in words]
        started = [plan for plan in script.plans if plan.where.line == last[0].line] or inner
        started = [plan for plan in started if plan.in_background and not plan.is_conditional and plan.where.file]
        held = next((plan.granted for plan in started if plan.granted is not None), None)
        is_of_slurm = script.slurm is not None and script.slurm.options
        system = "Slurm" if is_of_slurm else held.system if held is not None else ""
        if system and started:
            message = said(
                "the batch script ends here without `wait`: {system} ends the job with all that runs in the background",
                system,
            )
            yield fail("every_node_is_started", message, Where(script.marks.file, last[0].line), fix="wait")


def _several(plan: Plan) -> bool:
    """Whether a loop numbers its nodes: it starts more than one, though how many is not known."""
    rank = plan.node_rank if not plan.is_by_hand else plan.rank
    return rank is not None and not (isinstance(rank, Sourced) and rank.origin == "tool") and firm(plan.nodes) != 1


def jobs_are_told_apart(files: LaunchFiles) -> Iterable[Finding]:
    """Files that look like those of one job, and differ in more than one thing, are judged each by itself."""
    for one, other, differences in apart(files):
        message = said(
            "{file}: taken for another job than {file2}: they differ in {differences}",
            other.where.file,
            one.where.file,
            differences,
        )
        yield problem(Verdict.SKIP, "jobs_are_told_apart", message, other.where, one.where)


FILES_RULES = (jobs_are_told_apart, steps_are_waited_for)
