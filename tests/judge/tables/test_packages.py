"""Tests of preflight.judge.tables.packages."""

from __future__ import annotations

from preflight.facts.value import Missing
from preflight.judge.tables import packages
from preflight.testing import healthy

HELD = {"torch": "2.13.0", "a": "1", "b": "1"}


def environments(*held, torches=()):
    run = healthy(len(held))
    for name, other in zip(run.names, held, strict=True):
        run = run.broken(name, "software", packages={**HELD, **other})
    for name, torch in zip(run.names, torches, strict=False):
        run = run.broken(name, "software", torch=torch)
    return run.cluster


def test_each_group_of_odd_nodes_is_told_what_differs_from_the_most():
    """Two odd nodes with different packages are two findings; tools that install packages do not count."""
    cluster = environments({}, {}, {"a": "2"}, {"c": "1", "pip": "9"}, {"pip": "8"})
    told = {blame.nodes: blame.message for blame in packages.differing(cluster, ("torch",))}
    assert told == {
        ("node3",): "1 packages on node3 differ from node[1-2,5]: a 2 (there 1)",
        ("node4",): "1 packages on node4 differ from node[1-2,5]: c 1 (there none)",
    }


def test_long_lists_are_cut():
    """The first eight names, and how many more."""
    (blame,) = packages.differing(environments({}, {}, {f"p{i}": "1" for i in range(20)}), ())
    assert blame.message.endswith("p14 1 (there none), p15 1 (there none) and 12 more")


def test_libraries_that_another_torch_brings_are_told_with_torch():
    """They are its consequence; with one torch they are judged."""
    other = {"nvidia-cublas-cu12": "12"}
    assert packages.differing(environments({}, {}, other, torches=("2.13.0", "2.13.0", "2.6.0")), ()) == []
    assert len(packages.differing(environments({}, {}, other), ())) == 1


def test_torch_counts_as_it_is_and_not_as_it_was_packaged():
    """Builds from source and mounted files have no true metadata; a missing NCCL is none."""
    node = healthy(1).broken("node1", "software", torch="2.2.0", nccl=Missing("none", "absent")).cluster.nodes[0]
    held = packages.installed(node.software)
    assert (held["torch"], "nccl" in held) == ("2.2.0", False)
