"""Does each fault give one cause, and nothing a pass that was not measured?"""

from __future__ import annotations

from preflight.facts.results.rehearsal import ABOUT
from preflight.job.measure.rehearsal.judged import judged, not_run
from tests.job.measure.rehearsal.stories import LIMITS, cast, node, rank, story, torchrun

SESSIONS = {"node1": LIMITS, "node2": LIMITS}


def of(*nodes):
    """The section of the report."""
    return judged(story(*nodes), cast(), SESSIONS, backend="gloo")


def test_a_whole_rehearsal_has_no_cause_and_all_is_judged():
    """Scripts and ranks are in the report."""
    found = of()
    assert (found.causes, found.unjudged) == ((), {})
    assert [(each.rank, each.node, each.stage) for each in found.ranks] == [(0, "node1", "done"), (1, "node2", "done")]
    assert [(each.node, each.line, each.code) for each in found.scripts] == [("node1", 4, 0), ("node2", 4, 0)]


def test_the_report_keeps_what_a_rank_takes_of_its_network_and_leaves_the_rest():
    """NCCL's, Gloo's and UCX's own variables, not everything that somebody exported."""
    given = {"GLOO_SOCKET_IFNAME": "eth0", "UCX_TLS": "tcp", "API_TOKEN": "secret"}
    ranks = [rank(number, f"node{number + 1}", variables=given) for number in range(2)]
    found = of(*(node(one.node, one, words=torchrun(one.rank)) for one in ranks))
    assert "secret" not in str(found)
    kept = found.ranks[0].variables
    assert {name: kept[name] for name in given if name in kept} == {"GLOO_SOCKET_IFNAME": "eth0", "UCX_TLS": "tcp"}


def test_what_follows_from_a_script_that_stopped_is_no_cause_of_its_own():
    """The other rank waits, and that is not judged."""
    waits = node("node1", rank(0, "node1", stage="rendezvous"), code=None, words=torchrun(0))
    found = of(waits, node("node2", code=127, lines=((2, 0),)))
    assert [cause.about for cause in found.causes] == ["scripts"]
    assert set(found.unjudged) == {"ranks", "alike", "limits", "training", "pace"}
    assert found.unjudged["training"] == {"node1": "scripts", "node2": "scripts"}
    assert found.unjudged["alike"] == {"node2": "scripts"}


def test_no_rank_at_all_is_never_good():
    """Though no script failed."""
    found = of(node("node1"), node("node2"))
    assert all(cause.is_unmeasured for cause in found.causes)
    assert found.causes


def test_a_script_that_was_not_run_is_judged_in_nothing():
    """Every cell of it is open."""
    found = not_run(cast("docker run image torchrun --nnodes=2 train.py\n"))
    assert found is not None
    assert set(found.unjudged) == set(ABOUT)
    assert not_run(cast()) is None
