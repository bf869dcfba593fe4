"""Rows of faults judged over nodes: who is blamed, who is not measured, and when is nothing asked?"""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

from preflight.facts.cluster import Row
from preflight.judge import tables
from preflight.judge.tables import faults
from preflight.judge.tables.faults import Fault
from preflight.said.errors import BlameMany, FactMissing, NotApplicable
from preflight.testing import healthy, roce


def broken(*names):
    """A row that is broken on some nodes."""
    return Fault("x", lambda node: "it is broken" if node.name in names else "", "mend it", "a book")


def missing(kind):
    """A row whose fact the second node lacks."""

    def told(node):
        if node.name == "node2":
            raise FactMissing("x", "no tool", kind)
        return ""

    return Fault("y", told, "", "a book")


def test_equal_words_are_one_blame():
    """Nodes that show the same row in the same words are named together, with the row's own fix."""
    with pytest.raises(BlameMany) as raised:
        faults.judge(roce().cluster, [broken("node2", "node3")], faults.itself)
    (blame,) = raised.value.blames
    assert (blame.message, blame.nodes, blame.fix) == ("it is broken", ("node2", "node3"), "mend it")


def test_things_of_a_node_are_named_by_their_label():
    """Which GPUs, in one breath."""
    row = Fault("x", lambda gpu: "hot" if gpu.index in (1, 4) else "", "cool it", "a book")
    with pytest.raises(BlameMany, match="GPU 1, 4: hot"):
        faults.judge(roce(1).cluster, [row], faults.gpus, noun="GPU")


def test_one_or_two_things_are_named_with_their_boards_where_all_nodes_have_them_there():
    """A label may count what is there; a sentence about most of a node, or about unlike nodes, is clear without."""
    for hot, place in (
        ((1,), "1 (0000:01:00.0)"),
        ((0, 1), "0 (0000:00:00.0), 1 (0000:01:00.0)"),
        (range(3), "0, 1, 2"),
    ):
        row = Fault("x", lambda gpu, hot=hot: "hot" if gpu.index in hot else "", "cool it", "a book")
        (blame,) = faults.blames(roce(2).cluster, [row], faults.gpus, noun="GPU", board=lambda gpu: gpu.board)
        assert str(blame.message) == f"GPU {place}: hot"
    boards = iter(["0000:9d:00.0", "0000:1b:00.0"])
    row = Fault("x", lambda gpu: "hot" if gpu.index == 1 else "", "cool it", "a book")
    (blame,) = faults.blames(roce(2).cluster, [row], faults.gpus, noun="GPU", board=lambda _: next(boards))
    assert (str(blame.message), blame.nodes) == ("GPU 1: hot", ("node1", "node2"))


def test_a_label_stands_alone_where_no_noun_is_given():
    """As the name of a port does, which says what it is."""
    row = Fault("x", lambda thing: "it is broken" if thing else "", "mend it", "a book")
    (blame,) = faults.blames(healthy(2).cluster, [row], lambda _: [("mlx5_0:1", True), ("mlx5_1:1", False)])
    assert str(blame.message) == "mlx5_0:1: it is broken"
    assert blame.nodes == ("node1", "node2")


def test_a_fact_that_could_not_be_had_leaves_the_node_unjudged():
    """A failure is noted for the node, and so is what others of its kind report on other nodes."""
    for kind in ("failed", "absent"):
        cluster = roce().cluster
        faults.judge(cluster, [missing(kind)], faults.itself)
        assert set(cluster.unmeasured) == {"node2"}
    cluster = roce().cluster
    faults.judge(cluster, [missing("absent"), broken()], faults.itself, kind=lambda node: node.name)
    assert cluster.unmeasured == {}


def test_what_one_of_many_nodes_tells_takes_nothing_from_the_others():
    """A driver that says more on one node is no loss of the three others, and what they did not tell is said."""

    def message(node):
        if node.name != "node3":
            raise FactMissing("clocks", "not reported", "absent")
        return ""

    cluster = healthy(4).cluster
    faults.judge(cluster, [Fault("clocks", message, "", "x")], faults.itself)
    assert (cluster.unmeasured, cluster.untold) == ({}, ["clocks (but on node3)"])


def test_a_question_that_does_not_arise_is_not_asked():
    """Of that thing only."""

    def told(node):
        if node.name == "node2":
            raise NotApplicable("not of this kind")
        return ""

    cluster = roce().cluster
    faults.judge(cluster, [Fault("y", told, "", "a book")], faults.itself)
    assert cluster.unmeasured == {}


def test_a_row_that_is_advisory_warns():
    """In a check that fails for other rows."""
    row = Fault("x", lambda node: "it wears" if node.name == "node2" else "", "look", "a book", is_advisory=True)
    with pytest.raises(BlameMany) as raised:
        faults.judge(roce().cluster, [row], faults.itself)
    assert [blame.is_advisory for blame in raised.value.blames] == [True]


def test_rows_that_nobody_tells_are_not_applicable():
    """A check that asked nothing is not green."""

    def told(_node):
        raise FactMissing("x", "no tool", "absent")

    with pytest.raises(NotApplicable, match="not reported by any node: x"):
        faults.judge(roce().cluster, [Fault("x", told, "", "a book")], faults.itself)


def test_clusters_without_the_hardware_have_one_reason():
    """All GPU checks are skipped in the same words, so that a screen folds them."""
    with pytest.raises(NotApplicable, match=r"^no GPU on any node$"):
        faults.needs_gpus(healthy().cluster)
    with pytest.raises(NotApplicable, match=r"^no RDMA device on any node$"):
        faults.needs_rdma(healthy().cluster)
    faults.needs_gpus(roce().cluster)
    faults.needs_rdma(roce().cluster)


def test_a_job_that_uses_no_rdma_leaves_adapters_out_however_few_nodes_have_them():
    """It has one reason for all nodes, and none of them lacks what the others have."""
    rdma = roce(3).subjects["node2"]["rdma"]
    with pytest.raises(NotApplicable, match=r"^the job's backend is gloo, which uses no RDMA$"):
        faults.needs_rdma(healthy(3).with_subject("node2", "rdma", rdma).cluster)
    some = roce(3).with_variables("node2", NCCL_IB_DISABLE="1")
    faults.needs_rdma(some.cluster)
    with pytest.raises(NotApplicable, match=r"^NCCL_NET=Socket; NCCL_IB_DISABLE=1$"):
        faults.needs_rdma(some.with_variables("node1", "node3", NCCL_NET="Socket").cluster)


def test_what_has_one_name_is_compared_by_it():
    """A name of one node alone is not compared; a node without the thing is another check's matter."""
    cluster = roce().broken("node4", "rdma", devices=()).cluster
    faults.same_by_name(cluster, lambda node: {hca.name: hca.port.rate_text() for hca in node.active_hcas()}, "rate")
    assert cluster.unmeasured == {}
    slow = roce().broken_rdma_port("node2", rate_gbps=100.0).cluster
    with pytest.raises(BlameMany, match="rate of mlx5_0:1: 400"):
        faults.same_by_name(slow, lambda node: {hca.name: hca.port.rate_text() for hca in node.active_hcas()}, "rate")


def test_the_name_of_a_row_is_that_of_a_fact():
    """Said to be told by no node, a sentence such as "its memory cannot be repaired" would read as a finding."""
    modules = [
        importlib.import_module(it.name) for it in pkgutil.walk_packages(tables.__path__, "preflight.judge.tables.")
    ]
    held = [value for module in modules for value in vars(module).values() if isinstance(value, tuple)]
    names = {row.name for rows in held for row in rows if isinstance(row, Fault)}
    assert len(names) > 80
    verbs = r"\b(is|are|was|were|has|cannot|could|can|asks?|needs?|wants?|lost|too|than|without)\b"
    assert [name for name in sorted(names) if re.search(verbs, name)] == []


def test_nodes_of_own_names_share_none_with_another():
    """One that has no ports has no names; one alone has nobody to compare with."""
    assert faults.of_own_names({"a": ["mlx5_10", "mlx5_11"], "b": ["mlx5_20"], "c": []}) == ("a", "b")
    assert faults.of_own_names({"a": ["mlx5_0"], "b": ["mlx5_0"], "c": ["mlx5_9"]}) == ()
    assert faults.of_own_names({"a": ["mlx5_0"], "b": ["mlx5_0"], "c": ["mlx5_9"], "d": ["mlx5_8"]}) == ("c", "d")


def rows_of_tables():
    """Every row of a table below judge/tables, with the name of its module."""
    for module in pkgutil.walk_packages(tables.__path__, "preflight.judge.tables."):
        for value in vars(importlib.import_module(module.name)).values():
            for row in value if isinstance(value, tuple) else ():
                if isinstance(row, faults.Fault | Row):
                    yield module.name, row


def test_every_row_says_what_it_is_about_and_how_it_is_put_right():
    """In words; an empty fix is the check's own, and a fault names the source that says so."""
    found = list(rows_of_tables())
    assert len(found) > 100
    for module, row in found:
        name, wanted = (row.name, row.source) if isinstance(row, faults.Fault) else (row.what, row.what)
        assert isinstance(name, str), module
        assert isinstance(row.fix, str), (module, name)
        assert isinstance(wanted, str), (module, name)
        assert name, module
        assert wanted, (module, name)
