"""Which network plug-in of NCCL was asked for, and is not the one that the job runs with?"""

from __future__ import annotations

from preflight.diagnose.derived.wording import made
from preflight.diagnose.facts import Facts
from preflight.diagnose.found import Finding
from preflight.said import said

LOST = "nccl-plugin-lost"  # no single line tells of it
OWN = frozenset(("ib", "socket"))  # what NCCL has built in


def lost_plugins(facts: Facts) -> list[Finding]:
    """The plug-in that a variable names where NCCL did not find it, whatever NCCL tried afterwards."""
    asked = [name for name in facts.plugins.get("plugin_asked", ()) if name not in OWN]
    lost = facts.plugins.get("plugin_lost", {})
    if not asked or not lost or any(_is_in(name, network) for name in asked for network in facts.networks):
        return []
    name = next((name for name in asked if any(_is_in(name, text) for text in lost)), asked[0])
    used = ", ".join(facts.networks)
    words = said("{name} was asked for and was not found", name)
    return [made(LOST, said("{words}; NCCL uses {networks}", words, used) if used else words)]


def _is_in(name: str, text: str) -> bool:
    return name.rsplit(maxsplit=1)[-1] in text
