"""What does a multi-node job definition of AWS Batch ask for?"""

from __future__ import annotations

import re

from preflight.launch.field import Field, Sourced, firm
from preflight.launch.manifests import pods
from preflight.launch.manifests.clouds.task import group_of_nodes
from preflight.launch.manifests.group import Group, number, variable
from preflight.launch.manifests.pods import Answer
from preflight.launch.text.located import Located

OPERATOR = (
    "AWS_BATCH_JOB_NODE_INDEX",
    "AWS_BATCH_JOB_MAIN_NODE_INDEX",
    "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS",
    "AWS_BATCH_JOB_ID",
)
RANGE = re.compile(r"(\d{0,5}):(\d{0,5})")


def is_batch(document: Located) -> bool:
    """Whether a document is such a definition."""
    return document.get("nodeProperties", "nodeRangeProperties") is not None


def batch(document: Located, file: str) -> Answer:
    """The plans of the command of each range of nodes."""
    held = document.mapping()["nodeProperties"]
    whole = number(held.get("numNodes"), file)
    groups = [_group(one, whole, file) for one in held.mapping()["nodeRangeProperties"].each()]
    index = "AWS_BATCH_JOB_NODE_INDEX"
    found, problems = pods.plans(groups, document, file, operator=OPERATOR, index=index, around="batch")
    return found, [*problems, *pods.against_gpus(found, groups)]


def _group(held: Located, whole: Field[int], file: str) -> Group:
    container = held.get("container") or held
    given, asked = container.get("environment"), container.get("resourceRequirements")
    env = [
        variable(name.text, value.text, value.line)
        for entry in (given.each() if given is not None else ())
        if (name := entry.get("name")) is not None and (value := entry.get("value")) is not None
    ]
    if isinstance(whole, Sourced):
        env.append(variable("AWS_BATCH_JOB_NUM_NODES", str(whole.value), whole.line))
    gpus = next(
        (
            one.get("value")
            for one in (asked.each() if asked is not None else ())
            if (kind := one.get("type")) is not None and kind.text == "GPU"
        ),
        None,
    )
    words = container.get("command") or Located([], held.line)
    return group_of_nodes(words, env, gpus, _count(held.get("targetNodes"), whole, file), held.line)


def _count(targets: Located | None, whole: Field[int], file: str) -> Field[int]:
    """The nodes of a range, which has its end or that of the job: ``0:``, ``1:3``, ``0``."""
    found = RANGE.fullmatch(targets.text) if targets is not None else None
    if targets is None or found is None or firm(whole) is None:
        return Sourced(1, file, targets.line, "tool") if targets is not None and targets.text.isdigit() else whole
    first, last = int(found[1] or 0), int(found[2]) if found[2] else (firm(whole) or 1) - 1
    return whole if first == 0 and last == (firm(whole) or 1) - 1 else Sourced(last - first + 1, file, targets.line)
