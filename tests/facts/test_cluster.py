"""Who differs from the rest, who cannot be judged, and who stands for rank 0?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from preflight.facts.cluster import Cluster
from preflight.said.errors import Blame, BlameMany, BlockedBy, FactMissing, NotApplicable
from preflight.testing import healthy


def _python(node):
    return node.software.python


def test_the_minority_is_blamed():
    """Two against one: the one."""
    cluster = healthy().broken("node2", "software", python="3.9.1").cluster
    with pytest.raises(Blame, match=r"Python: 3.11.2 on node\[1,3\], 3.9.1 on node2") as blame:
        cluster.same(_python, "Python")
    assert blame.value.nodes == ("node2",)


def test_all_are_blamed_on_a_tie():
    """One against one: nobody can say who is right."""
    cluster = healthy(2).broken("node2", "software", python="3.9.1").cluster
    with pytest.raises(Blame) as blame:
        cluster.same(_python, "Python")
    assert blame.value.nodes == ("node1", "node2")


def test_a_row_is_not_judged_while_the_one_it_follows_differs():
    """What comes with another thing differs because of it."""
    run = healthy().broken("node2", "software", python="3.9.1", libc="musl")
    rows = [("Python", _python, "x", ""), ("libc", lambda node: node.software.libc, "y", "Python")]
    with pytest.raises(BlameMany) as many:
        run.cluster.same_rows(rows)
    assert [blame.fix for blame in many.value.blames] == ["x"]
    with pytest.raises(BlameMany, match="libc"):
        run.broken("node2", "software", python="3.11.2").cluster.same_rows(rows)


@pytest.mark.parametrize(
    ("holders", "blamed", "unmeasured"),
    [
        (("node1",), ("node1",), []),
        (("node1", "node2", "node3"), (), ["node4"]),
        (("node1", "node2"), (), ["node3", "node4"]),
    ],
)
def test_a_row_that_few_nodes_have_is_what_differs(holders, blamed, unmeasured):
    """Cpufreq on one of four is that node's oddity; where half or more have it, those without it were not measured."""

    def governor(node):
        if node.name not in holders:
            raise FactMissing("governor", "no such file", "absent")
        return "performance"

    cluster = healthy(4).cluster
    table = [("CPU governors", governor, "x", ""), ("host name", lambda _node: "one", "x", "")]
    try:
        cluster.same_rows(table)
        found = ()
    except BlameMany as many:
        (blame,) = many.blames
        assert blame.message == "CPU governors: performance on node1, not reported on node[2-4]"
        found = blame.nodes
    assert (found, list(cluster.unmeasured)) == (blamed, unmeasured)


def test_a_node_without_the_fact_is_noted_and_the_others_are_compared():
    """One missing fact does not keep the rest from being judged."""
    cluster = healthy().cluster
    cluster.same(lambda node: node.software.version("torch" if node.name != "node2" else "nothing"), "torch")
    assert list(cluster.unmeasured) == ["node2"]


def test_a_node_without_the_fact_keeps_no_frame_alive():
    """Of thousands of nodes each would hold what the check that asked had made until then, and garbage it remained."""
    cluster = healthy(3).cluster

    def of_the_second(node):
        if node.index != 1:
            raise FactMissing("gpu", "no driver")
        return 1

    assert cluster.gather(of_the_second) == {"node2": 1}
    assert [reason.__traceback__ for reason in cluster.unmeasured.values()] == [None, None]


def test_what_no_node_has_does_not_apply():
    """Absent everywhere is no fault of anybody."""
    with pytest.raises(NotApplicable, match="on no node: nothing: not installed"):
        healthy().cluster.gather(lambda node: node.software.version("nothing"))


def test_one_answer_of_several_is_no_cluster_of_one():
    """A node whose peers did not answer has peers all the same."""
    alone = Cluster(healthy(1).cluster.nodes, asked=2)
    assert alone.has_peers
    with pytest.raises(BlockedBy, match=r"reach\.every_node_answers"):
        alone.needs_peers()
    with pytest.raises(NotApplicable, match="one node"):
        healthy(1).cluster.needs_peers()


def test_rank_0_is_the_first_hosts():
    """Where the first host did not answer, no other node takes its place."""
    run = healthy()
    assert run.cluster.first.name == "node1"
    run = run.unreached("node1")
    with pytest.raises(FactMissing, match="the first host"):
        _ = run.cluster.first


def test_a_host_has_its_place_whoever_answered():
    """The place is that of HOSTS: nobody moves up to that of a host which did not answer."""
    first, second, third = healthy(3).cluster.nodes
    whole, partly = Cluster((first, second, third), asked=3), Cluster((second, third), asked=3)
    assert [whole.at(place) for place in range(4)] == [first, second, third, None]
    assert [partly.at(place) for place in range(4)] == [None, second, third, None]
    assert (whole.hosts, partly.hosts) == (3, 3)


def test_what_one_node_works_out_of_all_is_there_for_the_others_but_not_for_other_nodes():
    """A copy with fewer nodes has to look for itself."""
    cluster = healthy(3).cluster
    found = [cluster.once("how many", lambda: len(cluster)), cluster.once("how many", lambda: 0)]
    fewer = replace(cluster, nodes=cluster.nodes[:2])
    assert (*found, fewer.once("how many", lambda: len(fewer))) == (3, 3, 2)
    assert [node.name for node in fewer.among(("node2", "node3", "node1"))] == ["node2", "node1"]
