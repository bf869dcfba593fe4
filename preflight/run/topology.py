"""Which racks and switches does the scheduler know that gave us the nodes?"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from preflight.facts.racks import ASKED, Racks, node_of, parse_labels, parse_topology
from preflight.reach.host import Host
from preflight.reach.transport.here import printed
from preflight.said.errors import UsageError

ASK = partial(printed, seconds=10.0)


def asked(hosts: Iterable[Host], ask: Callable[[Sequence[str]], str] = ASK) -> Racks:
    """Node -> its rack, by Slurm or by the labels of Kubernetes' nodes; nothing where nobody knows, or may tell us.

    Racks only fold what is said: a run without them finds the same.
    """
    found = tuple(hosts)
    transports = {host.transport for host in found}
    words = ASKED.get(next(iter(transports)), ()) if len(transports) == 1 else ()
    if not words:
        return {}
    try:
        text = ask(words)
        return parse_labels(text, map(node_of, found)) if transports == {"k8s"} else parse_topology(text)
    except (OSError, ValueError, subprocess.SubprocessError, UsageError):
        return {}
