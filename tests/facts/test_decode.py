"""Is what a node said believed only as far as it is well-formed?"""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.facts import decode
from preflight.facts.decode import Document
from preflight.facts.subjects import SUBJECTS
from preflight.facts.subjects.clock import Clock
from preflight.facts.value import Missing
from preflight.said.errors import FactMissing, UsageError
from preflight.testing import healthy, roce


def document(**subjects) -> Document:
    """A node that gave these subjects, as they came over the wire."""
    return Document(decode.SCHEMA, "node1", 0, "10.0.0.1", 8, subjects, {})


def said(subject: str, run=None) -> dict:
    """What a healthy node says of a subject."""
    return json.loads(msgspec.json.encode((run or roce()).subjects["node1"][subject]))


def reason(subject: str, facts: object) -> str:
    """Why a subject is missing after decoding, "" when it is not."""
    node = decode.decode(document(**{subject: facts}))
    if subject in node.subjects:
        return ""
    with pytest.raises(FactMissing) as caught:
        node.subject(subject, SUBJECTS[subject])
    assert caught.value.kind == "failed"
    return caught.value.reason


HEALTHY = sorted(roce().subjects["node1"])


@pytest.mark.parametrize("run", [healthy(), roce()])
@pytest.mark.parametrize("subject", HEALTHY)
def test_what_a_healthy_node_says_is_read_as_it_was(subject, run):
    """Every subject survives the way to the wire and back."""
    node = decode.decode(document(**{subject: said(subject, run)}))
    assert node.subjects[subject] == run.subjects["node1"][subject]
    assert (node.name, node.index, node.address, node.slots) == ("node1", 0, "10.0.0.1", 8)


def test_a_subject_that_was_not_given_is_missing():
    """Every question has an answer or a reason."""
    node = decode.decode(document())
    assert set(node.missing) == set(SUBJECTS)
    with pytest.raises(FactMissing, match="network: the node did not answer"):
        _ = node.network


def test_a_reason_that_the_node_gave_is_kept():
    """With its kind: denied is not failed."""
    given = msgspec.structs.replace(document(), missing={"ports": Missing("not root", "denied")})
    with pytest.raises(FactMissing, match="not root") as caught:
        _ = decode.decode(given).ports
    assert caught.value.kind == "denied"


def test_a_subject_nobody_asked_for_is_noted_and_not_used():
    """A newer or hostile node cannot add to what checks see."""
    node = decode.decode(document(shadow={"passwords": []}))
    assert "shadow" not in node.subjects
    assert node.missing["shadow"].missing == "not a subject that was asked for"


CLOCK = {"offset_seconds": 0.5, "uncertainty_seconds": 0.1}


def interface(address, prefix, family):
    """The first interface of a healthy node, with another address."""
    held = {"address": address, "prefix_length": prefix, "family": family}
    return {**said("network")["interfaces"][0], "addresses": [held]}


def route(**changes):
    """The first route of a healthy node, with this in it."""
    return {**said("peers")["routes"][0], **changes}


@pytest.mark.parametrize(
    ("subject", "change"),
    [
        ("identity", {"cpu_count": "64"}),
        ("identity", {"cpu_count": 64.0}),
        ("identity", {"cpu_count": True}),
        ("identity", {"cpu_count": -1}),
        ("identity", {"memory_bytes": 2**63}),
        ("identity", {"memory_bytes": 10**400}),
        ("identity", {"hostname": 7}),
        ("identity", {"hostname": None}),
        ("identity", {"hostname": b"bytes"}),
        ("identity", {"hostname": "x" * 5000}),
        ("identity", {"hostname": ["node1"]}),
        ("identity", {"hostname_addresses": "10.0.0.1"}),
        ("identity", {"hostname_addresses": [7]}),
        ("identity", {"hostname_address": {"missing": "x", "kind": "stolen"}}),
        ("identity", {"hostname_address": {"missing": "x", "kind": "failed", "more": 1}}),
        ("identity", {"hostname_address": {"kind": "failed"}}),
        ("identity", {"hostname_addresses": ["10.0.0.1", "10.0.0.1; reboot"]}),
        ("identity", {"hostname_address": "node1"}),
        ("identity", {"hostname_address": "fe80::1%$(reboot)"}),
        ("identity", {"surprise": 1}),
        ("network", {"gateways": [{"interface": "eth0", "address": "-e", "family": "inet"}]}),
        ("network", {"interfaces": [interface("10.0.0.1\n10.0.0.2 node2", 24, "inet")]}),
        ("network", {"interfaces": [interface("999.0.0.1", 24, "inet")]}),
        ("network", {"interfaces": [interface("10.0.0.1", 33, "inet")]}),
        ("network", {"interfaces": [interface("10.0.0.1", 24, "inet6")]}),
        ("peers", {"routes": [route(resolved=["nobody"])]}),
        ("peers", {"routes": [route(resolved_fqdn=["300.1.1.1"])]}),
        ("peers", {"routes": [route(reverse_addresses=[""])]}),
        ("peers", {"master_addresses": ["10.0.0.1", "`reboot`"]}),
        ("network", {"ephemeral_ports": [32768]}),
        ("network", {"ephemeral_ports": [32768, 65536]}),
        ("network", {"ephemeral_ports": [1, 2, 3]}),
        ("network", {"interfaces": {"eth0": {}}}),
        ("network", {"interfaces": [{"name": "eth0"}]}),
        ("software", {"packages": {"torch": 2}}),
        ("software", {"packages": [["torch", "2"]]}),
        ("limits", {"nofile_soft": "infinite"}),
        ("limits", {"nofile_soft": -1}),
        ("clock", {"offset_seconds": "0.5"}),
        ("clock", {"offset_seconds": None}),
    ],
)
def test_a_value_of_another_kind_is_the_whole_subject_missing(subject, change):
    """Nothing is converted, guessed or left out; the reason says where it is wrong."""
    told = reason(subject, {**said(subject), **change})
    assert told.startswith("the node's answer is malformed: ")


@pytest.mark.parametrize("subject", HEALTHY)
def test_a_key_too_many_or_too_few_is_the_whole_subject_missing(subject):
    """A misspelt key must not read as a default."""
    healthy = said(subject)
    assert "unknown" in reason(subject, {**healthy, "mtu_of_eth9": 1})
    for field in msgspec.structs.fields(SUBJECTS[subject]):
        key, told = field.encode_name, "missing required field"
        if not field.required:
            continue
        assert told in reason(subject, {k: v for k, v in healthy.items() if k != key})


@pytest.mark.parametrize("facts", [{}, {"missing": "x"}, {"devices": None}])
def test_an_answer_that_is_none_is_missing(facts):
    """An empty object is no subject."""
    assert reason("gpu", facts)


def test_other_subjects_of_the_node_stay_good():
    """One malformed answer costs its own subject and nothing else."""
    node = decode.decode(document(identity={"hostname": 1}, clock=CLOCK))
    assert node.clock == Clock(offset_seconds=0.5, uncertainty_seconds=0.1)
    with pytest.raises(FactMissing):
        _ = node.identity


def test_a_missing_fact_inside_a_subject_is_told_from_its_value():
    """By its shape on the wire: a reason in the place of the value."""
    facts = {**said("identity"), "hostname_address": {"missing": "no such name", "kind": "absent"}}
    node = decode.decode(document(identity=facts))
    assert node.identity.hostname_address == Missing("no such name", "absent")


def test_control_characters_are_data():
    """They are kept as the node said them: outputs escape them, comparisons see them."""
    node = decode.decode(document(identity={**said("identity"), "hostname": "a\x1b[31m\x00b"}))
    assert node.identity.hostname == "a\x1b[31m\x00b"


def test_a_stored_document_is_ascii_without_control_characters(tmp_path):
    """facts/<node>.json can be shown on any terminal, and reads back as it was."""
    kept = document(identity={**said("identity"), "hostname": "a\x1b[31m\x00b\u202e\x7f"}, clock=CLOCK)
    data = decode.encode(kept)
    assert all(byte == 10 or 32 <= byte < 127 for byte in data)
    path = tmp_path / "node1.json"
    path.write_bytes(data)
    assert decode.read(path) == kept


def test_text_that_no_file_can_hold_is_stored_as_its_escape(tmp_path):
    """A lone surrogate in a node's answer must not make the whole run unreadable."""
    path = tmp_path / "node1.json"
    path.write_bytes(decode.encode(document(identity={"\ud800": ["x\udfff"]})))
    assert decode.read(path).subjects == {"identity": {"\\ud800": ["x\\udfff"]}}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b'{"schema": 1}',
        b"\xff\xfe",
        b'{"schema": NaN}',
        b"[" * 200_000,
        b'{"schema": 1, "node": "a", "index": 0, "address": "", "slots": 0, "subjects": [], "missing": {}}',
        b'{"schema": 1, "node": "a", "index": 0, "address": "", "slots": 0, "subjects": {}}',
        b'{"schema": 1, "node": 5, "index": 0, "address": "", "slots": 0, "subjects": {}, "missing": {}}',
        b'{"schema": 2, "node": "a", "index": 0, "address": "", "slots": 0, "subjects": {}, "missing": {}}',
    ],
)
def test_a_file_that_is_no_facts_file_is_a_usage_error(tmp_path, data):
    """One line that names it."""
    path = tmp_path / "node1.json"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=r"node1\.json") as caught:
        decode.read(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_a_usage_error(tmp_path):
    """So is a folder."""
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(UsageError):
            decode.read(path)


def test_a_further_round_adds_to_the_first():
    """A subject or a reason that came later is there, in the document as in the facts; a malformed one is missing."""
    first = document(clock=CLOCK)
    answer = ({"peers": said("peers"), "trust": {"logins": 1}}, {"ports": Missing("late")})
    merged = decode.decode(decode.merge(first, answer))
    for node in (merged, decode.with_answer(decode.decode(first), answer)):
        assert node.clock
        assert node.peers.routes
        assert node.missing["ports"] == Missing("late")
        assert "malformed" in node.missing["trust"].missing
        assert node == merged
    assert "peers" not in first.subjects


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(HEALTHY), st.dictionaries(st.text(max_size=12), JSON, max_size=4), st.data())
def test_whatever_a_node_says_gives_facts_or_a_reason(subject, more, data):
    """No answer ends in an exception: not one with another key, nor one with another value for a known key."""
    facts = said(subject)
    key = data.draw(st.sampled_from(sorted(facts)))
    for answer in (more, {**facts, **more}, {**facts, key: data.draw(JSON)}):
        node = decode.decode(document(**{subject: answer}))
        assert (subject in node.subjects) != (subject in node.missing)
        assert msgspec.json.decode(decode.encode(document(**{subject: answer})), type=Document)


def test_a_live_node_stays_strict_where_a_stored_one_may_be_another_versions():
    """The node runs the code it was sent: a key that is too much is a bug or a lie."""
    newer = {**said("kernel"), "of_a_later_version": True}
    assert "unknown field" in reason("kernel", newer)
    assert decode.decode_stored(document(kernel=newer)).kernel.cpus_allowed == 64


def test_subjects_that_are_not_stored_or_not_known_are_told_by_version():
    """A run of before a subject existed, and one of a version that has more of them."""
    node = decode.decode_stored(document(kernel=said("kernel"), quantum={"qubits": 5}))
    assert "quantum" not in node.missing
    assert node.missing["gpu"] == Missing("not collected by the version that stored it")


def test_what_is_stored_by_this_version_is_read_as_a_live_answer():
    """Nothing is added, nothing is left out; what is malformed stays so."""
    whole = document(**{name: said(name) for name in HEALTHY})
    assert decode.decode_stored(whole) == decode.decode(whole)
    wrong = document(**{**whole.subjects, "kernel": {**said("kernel"), "cpus_allowed": "many"}})
    assert decode.decode_stored(wrong).missing["kernel"].missing.startswith("the node's answer is malformed")
