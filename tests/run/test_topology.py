"""Is the scheduler that gave the nodes asked for their racks, and does a run go on where it tells none?"""

from __future__ import annotations

import subprocess

import pytest

from preflight.reach.host import Host
from preflight.reach.hosts import parse_hosts
from preflight.run.topology import asked

POD = (Host("a", "k8s:train/pod/a:c@n1", transport="k8s"),)
NODE = (Host("tux0", "tux0", transport="slurm"),)


def test_slurm_and_kubernetes_are_asked_and_nobody_for_plain_hosts():
    """Each in its own words, once for all nodes."""
    asked_for = []

    def ask(words):
        asked_for.append(words[:3])
        return "SwitchName=s0 Level=0 Nodes=tux[0-1]\n" if words[0] == "scontrol" else 'n1\t{"rack":"r7"}\n'

    assert asked(NODE, ask)["tux1"] == "switch s0"
    assert asked(POD, ask) == {"n1": "rack r7"}
    assert asked(parse_hosts("node[1-2]"), ask) == {}
    assert asked_for == [("scontrol", "show", "topology"), ("kubectl", "get", "nodes")]


@pytest.mark.parametrize(
    "error",
    [FileNotFoundError("scontrol"), subprocess.TimeoutExpired("scontrol", 10), subprocess.CalledProcessError(1, "x")],
)
def test_who_does_not_tell_keeps_no_run_from_starting(error):
    """Without a program, with one that hangs, or where this user may not list nodes."""

    def ask(_words):
        raise error

    assert asked(NODE, ask) == asked(POD, ask) == {}
    assert asked(NODE, lambda _: "No topology information available\n") == {}
