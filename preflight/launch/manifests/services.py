"""Do the pods of a job find rank 0 by its name?"""

from __future__ import annotations

import re

from preflight.launch.field import Field, Sourced, value_of
from preflight.launch.plan import Plan, fail, warn
from preflight.launch.text.located import Located
from preflight.ledger.findings import Finding, Where


def headless(
    subdomain: Located | None,
    plans: list[Plan],
    documents: list[Located],
    file: str,
    *,
    labels: Located | None = None,
    owner: Located | None = None,
    count: Field[int] = None,
) -> list[Finding]:
    """Pods find each other by name only through a headless service that they name; `owner` numbers `count` of them."""
    addresses = [plan.master_address for plan in plans if isinstance(plan.master_address, Sourced)]
    named = [address for address in addresses if "." in address.value and not re.fullmatch(r"[\d.]+", address.value)]
    if not named:
        return []
    if subdomain is None:
        message = f"MASTER_ADDR {named[0].value} is a pod's name, and the pods have no subdomain: it resolves nowhere"
        return [
            fail("headless_service_is_there", message, named[0].where, fix=f"subdomain: {named[0].value.split('.')[1]}")
        ]
    services = [found for found in documents if (kind := found.get("kind")) and kind.value == "Service"]
    ours = [found for found in services if (name := found.get("metadata", "name")) and name.value == subdomain.value]
    where = Where(file, subdomain.line)
    meant = [
        found
        for found in services
        if (name := found.get("metadata", "name")) and name.value == named[0].value.split(".")[1]
    ]
    first, service = named[0].value.split(".")[:2]
    own = re.fullmatch(rf"{re.escape(owner.text)}-\d+", first) if owner is not None else None
    if (meant or own) and service != subdomain.value:
        message = f"{named[0].value} is a name of the Service {service}, and the pods stand under {subdomain.value}"
        return [fail("headless_service_is_there", message, where, named[0].where, fix=service)]
    numbered = re.fullmatch(r"[a-z][a-z0-9-]*-\d+", first)
    is_whole = count is not None and all(value_of(plan.nodes) == value_of(count) for plan in plans)
    if owner is not None and numbered and not own and service == subdomain.value and is_whole:
        message = f"MASTER_ADDR {named[0].value} is not a pod of {owner.text}; the first one is {owner.text}-0"
        fix = f"{owner.text}-0.{service}"
        return [fail("headless_service_is_there", message, named[0].where, where, fix=fix)]
    if not ours:
        message = f"no Service {subdomain.value} in this file: without a headless one the pods find no rank 0"
        fix = f"kind: Service, metadata.name: {subdomain.value}, spec.clusterIP: None"
        return [warn("headless_service_is_there", message, where, fix=fix)]
    address = ours[0].get("spec", "clusterIP")
    if address is None or address.value != "None":
        message = f"Service {subdomain.value} is not headless: the names of single pods do not resolve"
        return [fail("headless_service_is_there", message, Where(file, ours[0].line), where, fix="clusterIP: None")]
    return _selects(ours[0], labels, where, file)


# Kubernetes gives them to every pod of a Job.
OF_A_JOB = ("job-name", "controller-uid", "batch.kubernetes.io/")


def _selects(service: Located, labels: Located | None, where: Where, file: str) -> list[Finding]:
    """A Service without pods has no names either."""
    wanted = service.get("spec", "selector")
    given = {name: held.text for name, held in labels.items()} if labels is not None else {}
    for name, held in wanted.items() if wanted is not None else ():
        if name.startswith(OF_A_JOB) or given.get(name) == held.text:
            continue
        has = f"{name}: {given[name]}" if name in given else f"no {name}"
        message = (
            f"the Service selects pods with {name}: {held.text}, and those of this job have {has}: no name resolves"
        )
        return [fail("headless_service_is_there", message, Where(file, held.line), where, fix=f"{name}: {held.text}")]
    return []
