"""Which nodes may a job use, and which must it leave out, in the words of launchers and schedulers?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from preflight.judge.ledger.choice import BAD, Choice, best_nodes
from preflight.judge.ledger.findings import Verdict
from preflight.reach.hosts import NAME, USER, fold
from preflight.reach.transport.kubernetes import WRITTEN
from preflight.report.causes import worst_of_nodes
from preflight.report.columns import counted
from preflight.report.document import RunReport, racks
from preflight.report.language import ENGLISH, Language
from preflight.report.material import Material
from preflight.report.printable import printable

HOSTFILE = "nodes-chosen.txt"
NODELIST = "nodelist.txt"
ADDRESS = re.compile(
    rf"(?:{USER.pattern}@)?(?:{NAME.pattern}|\[?[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9_.-]+)?\]?)(?::[0-9]{{1,5}})?"
)


def good_nodes(report: RunReport) -> tuple[str, ...]:
    """The nodes on which nothing fails or stayed unmeasured by their own doing, in HOSTS order.

    A node is not bad because a job did not start for another node's sake; a run cut short calls no node good.
    """
    worst = worst_of_nodes(report)
    return tuple(node for node, info in report.nodes.items() if info.reached and worst[node] not in BAD)


def bad_nodes(report: RunReport) -> tuple[str, ...]:
    """All the others, in HOSTS order."""
    good = set(good_nodes(report))
    return tuple(node for node in report.nodes if node not in good)


def choice_of(report: RunReport, need: int) -> Choice:
    """The `need` best nodes of a finished run, or fewer where fewer are good.

    Those that the run itself chose, and trained on, come before its spares.
    """
    chosen = report.choice.nodes if report.choice is not None else ()
    return best_nodes(
        report.findings, tuple(report.nodes), need, good=good_nodes(report), first=chosen, groups=racks(report)
    )


def choice_text(report: RunReport, choice: Choice, language: Language = ENGLISH) -> str:
    """Who is chosen, and why each other node is not, a line for each reason."""
    nodes = printable(fold(choice.nodes)) or language.say("none")
    how_many = language.say(f"{len(choice.nodes)} of {counted(len(report.nodes), 'node')} chosen")
    lines = [f"{how_many}: {nodes}"]
    lines += [language.say(f"left out  {printable(fold(nodes))}: {printable(why)}") for nodes, why in reasons(choice)]
    return "\n".join(lines) + "\n"


def reasons(choice: Choice) -> tuple[tuple[tuple[str, ...], str], ...]:
    """Each reason with the nodes that are left out for it."""
    found: dict[str, tuple[str, ...]] = {}
    for node, reason in choice.left_out.items():
        found[reason] = (*found.get(reason, ()), node)
    return tuple((nodes, reason) for reason, nodes in found.items())


def chosen_hostfile(report: RunReport, choice: Choice) -> str:
    """The nodes chosen, one a line, as ``--hosts=@FILE`` and mpirun read them."""
    return _hostfile(report, choice.nodes, "chosen")


def chosen_nodelist(_report: RunReport, choice: Choice) -> str:
    """What follows ``sbatch --nodelist=``, folded."""
    return nodelist(choice.nodes) + "\n"


def nodelist(nodes: Iterable[str]) -> str:
    """Nodes folded as Slurm writes them; what no node of Slurm can be called is left out."""
    return fold(filter(None, map(_slurm_name, nodes)))


def files_of_choice(report: RunReport) -> dict[str, str]:
    """The files of the nodes that a run chose, each with its text; "" where it chose none, or too few."""
    choice = report.choice if report.choice is not None and report.choice.is_complete else None
    return {
        HOSTFILE: chosen_hostfile(report, choice) if choice is not None else "",
        NODELIST: chosen_nodelist(report, choice) if choice is not None else "",
    }


CHOICES = {"text": choice_text, "good": chosen_hostfile, "nodelist": chosen_nodelist}


def good_hostfile(material: Material) -> str:
    """The good nodes, one a line, as ``--hosts=@FILE`` and mpirun read them."""
    return _hostfile(material.report, good_nodes(material.report), "good")


def bad_hostfile(material: Material) -> str:
    """The bad nodes, one a line."""
    return _hostfile(material.report, bad_nodes(material.report), "bad")


def slurm_exclude(material: Material) -> str:
    """What follows ``sbatch --exclude=``: the bad nodes folded; an empty line when there is none."""
    return fold(_slurm_name(node) for node in bad_nodes(material.report) if _slurm_name(node)) + "\n"


def nodes_json(material: Material) -> str:
    """Good and bad nodes, with the worst verdict of each, as JSON in ASCII."""
    report = material.report
    worst = worst_of_nodes(report)
    document = {
        "run": printable(report.run.id),
        "good": [printable(node) for node in good_nodes(report)],
        "bad": [printable(node) for node in bad_nodes(report)],
        "worst": {printable(node): str(verdict) for node, verdict in worst.items()},
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _hostfile(report: RunReport, nodes: tuple[str, ...], which: str) -> str:
    lines = [f"# {which} nodes of run {printable(report.run.id)}: {len(nodes)} of {len(report.nodes)}"]
    if report.verdict is Verdict.ERROR and which == "good" and not nodes:
        lines.append("# no node was measured to the end")
    for node in nodes:
        host = report.nodes[node].host
        # A name that is none would be read as an option or a command by the program that takes the list.
        is_host = ADDRESS.fullmatch(host) or WRITTEN.fullmatch(host)
        lines.append(host if is_host else f"# not a host name: {printable(host)}")
    return "\n".join(lines) + "\n"


def _slurm_name(node: str) -> str:
    name = re.sub(r":[0-9]{1,5}\Z", "", node)
    return name if NAME.fullmatch(name) else ""
