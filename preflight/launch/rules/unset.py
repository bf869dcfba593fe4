"""What becomes of a start that reads a variable which nothing sets?"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from preflight.launch.field import value_of
from preflight.launch.plan import LaunchFiles, Plan, Unset, fail, warn
from preflight.ledger.findings import Finding

STOPS_UNSET = re.compile(r"(?m)^\s*set\s+(-\w*u|-o\s+nounset)|^#!.*\s-\w*u")


RULE = "outside_variables_are_set"
LIKE = 0.9  # of two names from which on one is the other misspelt
DIGIT = re.compile(r"\d")  # node1_ip and node2_ip are two names
SET = re.compile(r"(?m)^\s*(?:export\s+|local\s+|declare\s+(?:-\w+\s+)*)?([A-Za-z_]\w*)=")


def variables_are_set(files: LaunchFiles) -> Iterable[Finding]:
    """A variable that nothing sets is empty: the start then stops, or every node takes itself for rank 0's."""
    for plan in files.plans:
        text = files.texts.get(plan.where.file, "")
        stops = STOPS_UNSET.search(text) is not None
        for unset in plan.unset:
            if unset.holds == "address" and not plan.may_span_nodes:
                continue
            others = [name for name in SET.findall(text) if DIGIT.sub("", name) != DIGIT.sub("", unset.name)]
            near = difflib.get_close_matches(unset.name, others, n=1, cutoff=LIKE)
            if near:
                rule = "master_address_is_given" if unset.holds == "address" else RULE
                empty = ": the address of rank 0 is empty" if unset.holds == "address" else ""
                message = f"${unset.name} is set nowhere in the script, and ${near[0]} is{empty}"
                yield fail(rule, message, unset.where, fix=f"${near[0]}")
                continue
            if plan.is_open:
                continue  # all of it comes from outside, which is said of the whole start
            becomes = "the script stops there: unbound variable" if stops else _consequence(plan, unset)
            message = f"${unset.name} is set nowhere in these files; where nobody exports it on every node, {becomes}"
            fix = f"Set {unset.name} in a line above, or write ${{{unset.name}:?}} there: without it the script stops."
            yield warn(RULE, message, unset.where, fix=fix)


def _consequence(plan: Plan, unset: Unset) -> str:
    if unset.holds == "address":
        is_torch = plan.launcher.rendezvous_gives_ranks and value_of(plan.rendezvous) != "env"
        empty = "torch takes the empty address for localhost" if is_torch else "the address of rank 0 is empty"
        return f"{empty}, and every node waits for itself"
    if unset.holds == "number":
        return f"{plan.launcher.name} gets no number there and stops, or takes its own default on every node"
    return "the program gets an empty word, or takes the next option for it"


FILES_RULES = (variables_are_set,)
