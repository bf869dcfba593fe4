"""What do pods that stand by themselves ask for?"""

from __future__ import annotations

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Sourced
from preflight.launch.manifests import pods
from preflight.launch.manifests.group import group_of
from preflight.launch.manifests.pods import Answer
from preflight.launch.plan import fail
from preflight.launch.text.located import Located
from preflight.said import joined, said


def pod(document: Located, documents: list[Located], file: str) -> Answer:
    """A pod by itself: one node of a job, whose other pods stand in documents of their own."""
    one = Sourced(1, file, document.line, "tool")
    groups = group_of(document, one, "pod")
    found, problems = pods.plans(groups, document, file, are_nodes=False)
    problems.extend(pods.against_gpus([plan for plan in found if plan.spans_nodes], groups))
    others = [held for held in documents if (kind := held.get("kind")) is not None and kind.value == "Pod"]
    if found and len(others) > 1 and document is others[-1]:
        problems.extend(_ranks_of_pods(others, file))
    return found, problems


def _ranks_of_pods(documents: list[Located], file: str) -> list[Finding]:
    ranks: dict[int, list[Where]] = {}
    meeting: dict[tuple[str, int], Where] = {}
    one = Sourced(1, file, 1, "tool")
    for document in documents:
        found, _ = pods.plans(group_of(document, one, "pod"), document, file, are_nodes=False)
        for plan in found:
            rank = plan.node_rank
            if plan.spans_nodes and isinstance(rank, Sourced) and rank.origin == "written":
                ranks.setdefault(rank.value, []).append(rank.where)
                address, port = plan.master_address, plan.master_port
                if isinstance(address, Sourced) and isinstance(port, Sourced):
                    meeting.setdefault((address.value, port.value), plan.where)
    differing: list[Finding] = []
    if len(meeting) > 1 and len(ranks) > 1:
        listed = joined(
            [
                said("{address}:{port} in {file}:{line}", address, port, place.file, place.line)
                for (address, port), place in meeting.items()
            ]
        )
        message = said("the address of rank 0 differs: {listed}", listed)
        differing.append(fail("fields_agree", message, *meeting.values(), fix="One address and port in every pod."))
    return differing + [
        fail("ranks_are_distinct", said("node rank {rank} is given to {places} pods", rank, len(places)), *places)
        for rank, places in ranks.items()
        if len(places) > 1
    ]
