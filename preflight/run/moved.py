"""Are the nodes that HOSTS remembers from an earlier run still the same machines?

A pod of a StatefulSet that ended is made anew under its old name, perhaps elsewhere: what was found good is another
machine then, and what is found now would be laid to the old one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from preflight.reach.host import Host
from preflight.reach.transport.kubernetes import Kubernetes

UNCONFIRMED = "whether the pod still runs where --hosts says could not be asked: {error}"


def moved_pods(addresses: Sequence[str]) -> Mapping[str, str]:
    """What the API server says of them. Raises OSError where it cannot be asked."""
    return Kubernetes().moved(addresses)


def confirmed(
    hosts: Sequence[Host], moved: Callable[[Sequence[str]], Mapping[str, str]] = moved_pods
) -> tuple[Host, ...]:
    """The hosts; one that is another machine now, or may be, has the trouble to say so, and is not reached."""
    remembered = [host.address for host in hosts if host.is_remembered]
    if not remembered:
        return tuple(hosts)
    try:
        found = moved(remembered)
    except OSError as error:  # a verdict would name a machine that it may not be of
        found = dict.fromkeys(remembered, UNCONFIRMED.format(error=error))
    return tuple(dataclasses.replace(host, trouble=found.get(host.address, host.trouble)) for host in hosts)
