"""Do the pods of a job find rank 0 by its name?"""

from __future__ import annotations

import re
from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.field import Field, Sourced, Unknown, value_of
from preflight.launch.manifests.group import number
from preflight.launch.plan import Plan, fail, warn
from preflight.launch.text.located import Located
from preflight.said import said


def headless(
    subdomain: Located | None,
    plans: list[Plan],
    documents: list[Located],
    file: str,
    *,
    labels: Located | None,
    owner: Located | None,
    count: Field[int],
    namespace: Located | None,
    pod: Located | None,
) -> list[Finding]:
    """Pods find each other by name only through a headless service that they name; `owner` numbers `count` of them."""
    shared = [one for plan in plans for one in _of_all_pods(plan, subdomain, documents, count)]
    if shared:
        return shared
    addresses = [plan.master_address for plan in plans if isinstance(plan.master_address, Sourced)]
    named = [address for address in addresses if "." in address.value and not re.fullmatch(r"[\d.]+", address.value)]
    if not named:
        return []
    if subdomain is None:
        message = said(
            "MASTER_ADDR {value} is a pod's name, and the pods have no subdomain: it resolves nowhere", named[0].value
        )
        return [
            fail(
                "headless_service_is_there",
                message,
                named[0].where,
                fix=said("subdomain: {split}", named[0].value.split(".")[1]),
            )
        ]
    services = [found for found in documents if (kind := found.get("kind")) and kind.value == "Service"]
    ours = [found for found in services if (name := found.get("metadata", "name")) and name.value == subdomain.value]
    where = Where(file, subdomain.line)
    meant = [
        found
        for found in services
        if (name := found.get("metadata", "name")) and name.value == named[0].value.split(".")[1]
    ]
    found = _is_anothers(named[0], subdomain, plans, where, owner=owner, count=count, is_there=bool(meant))
    if found is not None:
        return [found]
    first, service = named[0].value.split(".")[:2]
    space = next((held for plan in plans if (held := _namespace(plan)) is not None), None)
    if namespace is not None and space is not None and space.value != namespace.text:
        message = said(
            "{value} is a name in the namespace {value2}, and the pods are in {text}",
            named[0].value,
            space.value,
            namespace.text,
        )
        return [fail("headless_service_is_there", message, space.where, fix=f"{first}.{service}")]
    if not ours:
        message = said(
            "no Service {value} in this file: without a headless one the pods find no rank 0", subdomain.value
        )
        fix = said("kind: Service, metadata.name: {value}, spec.clusterIP: None", subdomain.value)
        return [warn("headless_service_is_there", message, where, fix=fix)]
    address = ours[0].get("spec", "clusterIP")
    if address is None or address.value != "None":
        message = said("Service {value} is not headless: the names of single pods do not resolve", subdomain.value)
        return [fail("headless_service_is_there", message, Where(file, ours[0].line), where, fix="clusterIP: None")]
    return [*_selects(ours[0], labels, where, file, owner), *_is_published(ours[0], pod, first, file)]


def _is_anothers(
    address: Sourced[str],
    subdomain: Located,
    plans: list[Plan],
    where: Where,
    *,
    owner: Located | None,
    count: Field[int],
    is_there: bool,
) -> Finding | None:
    """A name under a Service that the pods do not belong to, or of a pod that this controller does not make."""
    first, service = address.value.split(".")[:2]
    own = re.fullmatch(rf"{re.escape(owner.text)}-\d+", first) if owner is not None else None
    if (is_there or own) and service != subdomain.value:
        message = said(
            "{value} is a name of the Service {service}, and the pods belong to {value2}",
            address.value,
            service,
            subdomain.value,
        )
        return fail("headless_service_is_there", message, where, address.where, fix=service)
    numbered = re.fullmatch(r"[a-z][a-z0-9-]*-\d+", first)
    is_whole = count is not None and all(value_of(plan.nodes) == value_of(count) for plan in plans)
    if owner is not None and numbered and not own and service == subdomain.value and is_whole:
        message = said(
            "MASTER_ADDR {value} is not a pod of {text}; the first one is {text}-0", address.value, owner.text
        )
        fix = f"{owner.text}-0.{service}"
        return fail("headless_service_is_there", message, address.where, where, fix=fix)
    return None


def _namespace(plan: Plan) -> Sourced[str] | None:
    """The namespace in the name of a pod: POD.SERVICE.NAMESPACE, with .svc and more behind it."""
    address = plan.master_address
    found = OF_A_POD.fullmatch(address.value) if isinstance(address, Sourced) else None
    if found is None or not isinstance(address, Sourced):
        return None
    return Sourced(found[1], address.file, address.line)


OF_A_POD = re.compile(r"[a-z0-9-]+\.[a-z0-9-]+\.([a-z0-9-]+)(?:\.svc(?:\.[a-z0-9.-]+)?)?")


def _of_all_pods(
    plan: Plan, subdomain: Located | None, documents: list[Located], count: Field[int]
) -> Iterable[Finding]:
    """The name of the headless Service itself leads to each of its pods in turn."""
    address = plan.master_address
    if not isinstance(address, Sourced) or subdomain is None or (value_of(count) or 1) < 2:
        return
    name, _, rest = address.value.partition(".")
    own = next(
        (
            held
            for held in documents
            if (kind := held.get("kind")) is not None
            and kind.value == "Service"
            and (called := held.get("metadata", "name")) is not None
            and called.value == name == subdomain.value
        ),
        None,
    )
    cluster = own.get("spec", "clusterIP") if own is not None else None
    if cluster is not None and cluster.value == "None" and (not rest or ".svc" in f".{rest}"):
        message = said(
            "{value} is the headless Service of all {value_of} pods: it leads to any of them",
            address.value,
            value_of(count),
        )
        yield warn("headless_service_is_there", message, address.where, fix=said("<name of pod 0>.{name}", name))


def _is_published(service: Located, pod: Located | None, name: str, file: str) -> list[Finding]:
    """A pod that is not ready has a name only where its Service publishes it."""
    published = service.get("spec", "publishNotReadyAddresses")
    if pod is None or (published is not None and published.value is True):
        return []
    fix = "publishNotReadyAddresses: true"
    called = str(held.value) if (held := service.get("metadata", "name")) is not None else ""
    inits, held = pod.get("initContainers"), pod.get("containers")
    for container in inits.each() if inits is not None else ():
        words = [word for part in ("command", "args") if (given := container.get(part)) for word in given.each()]
        waits = next((word for word in words if f"{name}.{called}" in word.text), None)
        if waits is not None:
            message = said(
                "an init container asks for {name}.{called}, and no pod has a name before it is ready", name, called
            )
            return [fail("headless_service_is_there", message, Where(file, waits.line), fix=fix)]
    for container in held.each() if held is not None else ():
        probe = container.get("readinessProbe")
        if probe is not None:
            message = said(
                "a readiness probe, and {called} publishes only ready pods: rank 0 has no name until it passes", called
            )
            return [warn("headless_service_is_there", message, Where(file, probe.line), fix=fix)]
    return []


# Kubernetes gives them to every pod of a Job.
OF_A_JOB = ("job-name", "controller-uid", "batch.kubernetes.io/")


def _selects(service: Located, labels: Located | None, where: Where, file: str, owner: Located | None) -> list[Finding]:
    """A Service without pods has no names either."""
    wanted = service.get("spec", "selector")
    given = {name: held.text for name, held in labels.items()} if labels is not None else {}
    for name, held in wanted.items() if wanted is not None else ():
        is_right = owner is None or held.text == owner.text or not name.endswith("job-name")
        if (name.startswith(OF_A_JOB) and is_right) or given.get(name) == held.text:
            continue
        if name.startswith(OF_A_JOB) and owner is not None:
            given = {**given, name: owner.text}
        has = f"{name}: {given[name]}" if name in given else said("no {name}", name)
        message = said(
            "the Service selects pods with {name}: {text}, and those of this job have {has}: no name resolves",
            name,
            held.text,
            has,
        )
        return [
            fail(
                "headless_service_is_there",
                message,
                Where(file, held.line),
                where,
                fix=said("{name}: {text}", name, held.text),
            )
        ]
    return []


OF_A_NAME = re.compile(r"HOSTNAME|hostname|POD|ORDINAL|INDEX", re.IGNORECASE)


def ordinals(plan: Plan, document: Located, count: Field[int]) -> list[Finding]:
    """Pods that take their ranks from their names are 0 to replicas - 1, and rank 0 is the one that ends in -0."""
    own, address, nodes = document.get("metadata", "name"), plan.master_address, plan.nodes
    by_name = isinstance(plan.node_rank, Unknown) and OF_A_NAME.search(plan.node_rank.expression)
    at = (
        re.fullmatch(rf"{re.escape(str(own.value))}-(\d+)\..*", address.value)
        if own and isinstance(address, Sourced)
        else None
    )
    if not by_name or at is None or not isinstance(address, Sourced):
        return []
    if at[1] != "0" and value_of(plan.rendezvous) == "static":
        first = f"{own.value if own else ''}-0{address.value[at.end(1) :]}"
        message = said("{value} as the address of rank 0, which is the pod that ends in -0", address.value)
        return [fail("master_address_is_rank_0s", message, address.where, fix=first)]
    if (
        isinstance(nodes, Sourced)
        and isinstance(count, Sourced)
        and nodes.origin == "written"
        and nodes.value != count.value
    ):
        message = said(
            "{nodes} {value}, and the manifest starts {value2} pods",
            plan.launcher.field_names.nodes,
            nodes.value,
            count.value,
        )
        fix = f"{plan.launcher.field_names.nodes}={count.value}"
        return [fail("nodes_are_counted_right", message, nodes.where, count.where, fix=fix)]
    return []


def leaders_name(plan: Plan, document: Located) -> Iterable[Finding]:
    """The address of a group's leader that somebody wrote by hand: NAME-GROUP.NAME, another one in each group."""
    address, own = plan.master_address, document.get("metadata", "name")
    if not isinstance(address, Sourced) or address.origin != "written" or own is None:
        return
    found = re.fullmatch(r"([a-z][a-z0-9-]*?)-(\d+)(-\d+)?\.([a-z0-9-]+)(\..*)?", address.value)
    groups = number(document.get("spec", "replicas"), address.file, 1)
    if found is None or not isinstance(groups, Sourced):
        return
    name, group, worker, service, _ = found.groups()
    unique = document.get("spec", "networkConfig", "subdomainPolicy")
    wanted = own.text if unique is None or unique.value != "UniquePerReplica" else f"{own.text}-{group}"
    fix = "$(LWS_LEADER_ADDRESS)"
    if name != own.text and name == service:
        message = said(
            "{value} is the leader of a LeaderWorkerSet {name}, and this one is {text}", address.value, name, own.text
        )
    elif name != own.text:
        return
    elif worker is not None:
        message = said(
            "{value} is a worker: the leader of its group is {name}-{group}.{wanted}",
            address.value,
            name,
            group,
            wanted,
        )
    elif service != wanted:
        message = said("{value} does not resolve: the names of the pods end in .{wanted}", address.value, wanted)
    elif groups.value > 1:
        message = said(
            "{value} is the leader of group {group}, and {value2} groups would all meet there",
            address.value,
            group,
            groups.value,
        )
    elif group != "0":
        message = said("{value} is the leader of group {group}, and there is only group 0", address.value, group)
    else:
        return
    yield fail("headless_service_is_there", message, address.where, fix=fix)
