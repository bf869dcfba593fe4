"""Are the facts of this machine real, and is the second round asked what the first one told?"""

from __future__ import annotations

import socket
import time

import pytest

from preflight.facts import decode, view
from preflight.facts.decode import Document
from preflight.facts.documents import Documents
from preflight.facts.node import NodeFacts
from preflight.facts.value import Missing
from preflight.job.collect.subjects import _about_peers, _port_to_bind, _take, collect, with_answers
from preflight.node.calls.collect import COLLECTORS
from preflight.reach.hosts import parse_hosts
from preflight.reach.session.fleet import Fleet
from preflight.reach.transport import Reach
from preflight.said.errors import BadReply
from preflight.testing import healthy
from tests.run.test_stored import written


def collected(*layer: tuple[str, dict[str, str]]) -> NodeFacts:
    """The facts of this machine, asked for real."""
    end = time.monotonic() + 60
    while True:
        fleet = Fleet(parse_hosts("local"), Reach(), run_id="facts", deadline=time.monotonic() + 60)
        try:
            _, cluster = fleet.run(collect(fleet, list(layer), "auto"), seconds=60)
        finally:
            fleet.close()
        if cluster.nodes or time.monotonic() > end:
            assert fleet.failures == {}
            return cluster["local"]
        time.sleep(0.5)


def test_every_subject_of_this_machine_comes():
    """Asked over a real session; what is not here has a reason of its own, not a malformed answer."""
    node = collected(("--env", {"NCCL_DEBUG": "INFO"}))
    assert node.identity.hostname == socket.gethostname()
    assert abs(node.clock.offset_seconds) < 1
    assert node.variable("NCCL_DEBUG") == "INFO"
    assert set(COLLECTORS) <= set(node.subjects)
    assert node.kernel.settings["vm.swappiness"].isdecimal()
    assert node.missing["peers"] == Missing("one node, and no MASTER_ADDR: there was nothing to ask", "absent")
    assert not any("malformed" in missing.missing for missing in node.missing.values())


def test_the_jobs_port_is_bound_where_the_job_would_bind_it():
    """A port that another program holds is told with its holder; a free one has no trouble."""
    with socket.socket() as holder:
        holder.bind(("", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        layer = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        assert collected(("--env", layer)).peers.master_port_error
    assert collected(("--env", layer)).peers.master_port_error == ""


def documents(run, folder) -> dict[str, Document]:
    return {path.stem: decode.read(path) for path in sorted((written(run, folder) / "facts").iterdir())}


@pytest.mark.parametrize(
    ("text", "bind"),
    [
        ("29500", {"address": "", "port": 29500}),
        ("0", None),
        ("65536", None),
        ("auto", None),
        ("\u0662\u0669", {"address": "", "port": 29}),
        ("", None),
    ],
)
def test_only_the_first_node_binds_the_port_and_only_a_port(text, bind):
    """What is no port is another check's business."""
    run = healthy().with_variables(MASTER_PORT=text)
    assert _port_to_bind(run.cluster["node1"]) == bind
    assert _port_to_bind(run.cluster["node2"]) is None


def test_peers_are_told_by_their_training_address():
    """And only those that were asked for, by their own names."""
    cluster = healthy().cluster
    about = _about_peers(cluster["node1"], cluster, ["node2"])
    assert about["peers"] == [{"name": "node2", "address": "10.0.0.2", "hostname": "node2", "fqdn": "node2"}]


def test_a_node_whose_environment_cannot_be_read_is_asked_about_its_peers_all_the_same():
    """Which port rank 0 binds is then not known; that is one node's loss, and no end of the run."""
    cluster = healthy(2).without("node1", "environment", "the answer is malformed").cluster
    assert _port_to_bind(cluster["node1"]) is None
    assert _about_peers(cluster["node1"], cluster, ["node2"])["master_address"] == ""


@pytest.mark.parametrize(
    ("event", "missing"),
    [
        ({"subject": "gpu", "missing": "no", "kind": "absent"}, Missing("no", "absent")),
        ({"subject": "gpu", "missing": "no"}, Missing("no", "failed")),
        ({"subject": "gpu", "missing": "x" * 9000}, Missing("x" * 4000, "failed")),
    ],
)
def test_an_answer_without_facts_is_missing_with_what_was_said(event, missing):
    """However much that is."""
    subjects: dict = {}
    reasons: dict = {}
    _take("node1", event, subjects, reasons)
    assert (subjects, reasons) == ({}, {"gpu": missing})


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"subject": "gpu", "missing": "no", "kind": "stolen"}, "Invalid enum value 'stolen'"),
        ({"subject": "gpu", "missing": ["x"]}, "got `array`"),
        ({"subject": "gpu", "facts": "none"}, "got `str`"),
        ({"subject": "gpu", "facts": {}, "missing": "no"}, "wanted either facts or why"),
        ({"subject": "gpu"}, "wanted either facts or why"),
        ({"subject": "clock", "facts": {}}, "was not asked about"),
        ({"subject": "kernel", "facts": {}}, "kernel twice"),
        ({"subject": ["gpu"], "facts": {}}, "got `array`"),
        ({"other": 1}, "unknown field"),
    ],
)
def test_an_answer_of_another_shape_is_a_bad_reply_of_that_node(event, words):
    """Nothing of it is kept."""
    subjects: dict = {"kernel": {}}
    with pytest.raises(BadReply, match=words) as refused:
        _take("node3", event, subjects, {})
    assert refused.value.host == "node3"
    assert subjects == {"kernel": {}}


def test_a_further_round_adds_its_subjects_and_decodes_nothing_else(tmp_path):
    """The facts of before are the same objects; what came late replaces why it was missing, in both forms."""
    run = healthy(2).without("node1", "trust", "not asked yet")
    before = Documents.of(documents(run, tmp_path).values())
    cluster = view.view(before.values(), "auto")
    trust = {"logins": []}
    answers = {"node1": ({"trust": trust, "odd": {}}, {"files": Missing("went away")})}

    after, later = with_answers(before, cluster, answers)

    assert after["node1"].subjects["trust"] == trust
    assert after["node2"] == before["node2"]
    assert later["node2"] is cluster["node2"]
    assert later["node1"].network is cluster["node1"].network
    assert later["node1"].trust.logins == ()
    assert "trust" not in later["node1"].missing
    assert later["node1"].missing["odd"].missing == "not a subject that was asked for"
    assert later["node1"].missing["files"] == Missing("went away")
