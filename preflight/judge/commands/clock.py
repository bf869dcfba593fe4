"""Which commands set clocks?"""

from __future__ import annotations

from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.judge.commands.words import as_root


def _synchronised(node: NodeFacts, cluster: Cluster) -> tuple[str, str]:
    """At once, by the service that runs there; chronyd corrects a large offset only when it is told to."""
    del cluster
    if any("chrony" in service for service in node.machine.time_services):
        return as_root(node, "chronyc", "makestep"), ""
    return as_root(node, "timedatectl", "set-ntp", "true"), ""


ROWS = {
    "clock.clocks_agree": _synchronised,
    "clock.clocks_are_in_step": _synchronised,
    "clock.a_time_service_runs_where_the_peers_have_one": _synchronised,
}
