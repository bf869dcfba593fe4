"""Do the network policies beside a job let its pods talk to each other, on every port?"""

from __future__ import annotations

from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.plan import fail
from preflight.launch.text.located import Located
from preflight.said import said

SIDES = (("Ingress", "ingress", "from"), ("Egress", "egress", "to"))


def between_pods(documents: Iterable[Located], own: Located, file: str) -> list[Finding]:
    """What the policies that select a job's pods forbid: policies add up, so one that allows it is enough."""
    policies = [held for held in documents if (kind := held.get("kind")) is not None and kind.value == "NetworkPolicy"]
    policies = [held for held in policies if _space(held) in ("", _space(own)) or not _space(own)]
    found: dict[str, Finding] = {}
    for template in _templates(own) if policies else ():
        host = template.get("spec", "hostNetwork")
        labels = template.get("metadata", "labels")
        given = {name: held.text for name, held in labels.items()} if labels is not None else {}
        for side, rules, peers in SIDES if host is None or host.value is not True else ():
            chosen = [held for held in policies if _takes(held, given) and _is_of(held, side)]
            allowed = [one for held in chosen for one in _rules(held, rules) if _reaches(one.get(peers), given)]
            if chosen and not any(_is_of_all_ports(one) for one in allowed):
                found.setdefault(side, _forbidden(chosen[0], side, file, is_some=bool(allowed)))
    return list(found.values())


def _forbidden(policy: Located, side: str, file: str, *, is_some: bool) -> Finding:
    name = str(called.value) if (called := policy.get("metadata", "name")) is not None else "?"
    if is_some:
        message = said("the NetworkPolicy {name} opens single ports, and NCCL and Gloo choose theirs at random", name)
    elif side == "Ingress":
        message = said("the NetworkPolicy {name} selects the pods and lets them receive nothing from each other", name)
    else:
        message = said("the NetworkPolicy {name} selects the pods and lets them send nothing to each other", name)
    fix = "add a rule that names the job's own pods, and no ports"
    return fail("policies_let_pods_talk", message, Where(file, policy.line), fix=fix)


def _templates(held: Located) -> Iterable[Located]:
    """The pods, and templates of pods, in a document."""
    if held.get("spec", "containers") is not None:
        yield held
        return
    for inner in (*held.each(), *(inner for _, inner in held.items())):
        yield from _templates(inner)


def _space(document: Located) -> str:
    held = document.get("metadata", "namespace")
    return str(held.value) if held is not None else ""


def _takes(policy: Located, labels: dict[str, str]) -> bool:
    """Whether a policy surely selects pods with these labels; of expressions nothing is said."""
    selector = policy.get("spec", "podSelector")
    if selector is None or selector.get("matchExpressions") is not None:
        return False
    wanted = selector.get("matchLabels")
    return all(labels.get(name) == held.text for name, held in (wanted.items() if wanted is not None else ()))


def _is_of(policy: Located, side: str) -> bool:
    """Whether a policy forbids on this side what it does not allow."""
    types = policy.get("spec", "policyTypes")
    if types is not None:
        return side in {str(held.value) for held in types.each()}
    return side == "Ingress" or policy.get("spec", "egress") is not None


def _rules(policy: Located, key: str) -> list[Located]:
    held = policy.get("spec", key)
    return held.each() if held is not None else []


def _reaches(peers: Located | None, labels: dict[str, str]) -> bool:
    """Whether the other pods of the job may be among the peers of a rule: controllers add labels of their own."""
    if peers is None or not peers.each():
        return True
    for peer in peers.each():
        selector = peer.get("podSelector")
        wanted = selector.get("matchLabels") if selector is not None else None
        is_open = selector is None or selector.get("matchExpressions") is not None
        others = [
            name
            for name, held in (wanted.items() if wanted is not None else ())
            if labels.get(name, held.text if "/" in name or name == "job-name" else "") != held.text
        ]
        if is_open or peer.get("namespaceSelector") is not None or not others:
            return True
    return False


def _is_of_all_ports(rule: Located) -> bool:
    """Whether a rule opens every port, or a long range of them."""
    held = rule.get("ports")
    for port in held.each() if held is not None else ():
        first, last = port.get("port"), port.get("endPort")
        if first is None or (last is not None and isinstance(last.value, int) and last.value > 60_000):
            return True
    return held is None or not held.each()
