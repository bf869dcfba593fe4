"""Which commands set clocks?"""

from __future__ import annotations

from preflight.facts.value import present
from preflight.judge.commands.words import Case, Remedy, Row, as_root


def _synchronised(case: Case) -> Remedy:
    """Set the clock at once, by the service that runs there; chronyd corrects a large offset only on demand."""
    services = present(case.node.machine.time_services, "time services")
    if any("chrony" in service for service in services):
        return Remedy(as_root(case.node, "chronyc", "makestep"), as_root(case.node, "systemctl", "enable", "chronyd"))
    return Remedy(as_root(case.node, "timedatectl", "set-ntp", "true"))


ROWS: dict[str, Row] = {
    "clock.clocks_agree": _synchronised,
    "clock.clocks_are_in_step": _synchronised,
    "clock.no_clock_drifted_during_the_run": _synchronised,
    "clock.a_time_service_runs_where_the_peers_have_one": _synchronised,
}
