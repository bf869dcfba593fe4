"""Which pairs are tried, and what do the words of the two ends make together?"""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from preflight.facts.neighbours import pairs
from preflight.job.measure import mesh
from preflight.judge.blame import blame
from preflight.reach.session.replies import read
from preflight.said.errors import BadReply


def test_orders_name_peers_with_ports_and_those_to_expect():
    """What a node is told fits what its peers are told; who does not listen is left out."""
    listening = {"a": ("10.0.0.1", 5001), "b": ("10.0.0.2", 5002)}
    told = mesh.orders(pairs(("a", "b", "c")), listening)
    assert told == {
        "a": {"peers": [{"name": "b", "address": "10.0.0.2", "port": 5002}], "expect": ["b"]},
        "b": {"peers": [{"name": "a", "address": "10.0.0.1", "port": 5001}], "expect": ["a"]},
    }


def result(edges, heard):
    """What a node reports: {to: outcome} and the names it heard."""
    rows = [{"to": to, "port": 5000, "outcome": o, "detail": "d", "source_address": ""} for to, o in edges.items()]
    return {"edges": rows, "heard": list(heard), "strangers": 0}


def test_an_edge_is_ok_only_if_both_ends_say_so():
    """A connector's word alone is `not_attested`; a failed one keeps its reason, port and detail."""
    tried = (("a", "b"), ("b", "a"), ("a", "c"))
    results = {"a": result({"b": "ok", "c": "filtered"}, ["b"]), "b": result({"a": "ok"}, []), "c": result({}, [])}
    found = mesh.combine(tried, results, seconds=1.5)
    assert (found.edges, found.ok, found.seconds) == (3, 1, 1.5)
    assert [(e.source, e.target, e.port, e.reason) for e in found.failed] == [
        ("a", "b", 5000, "not_attested"),
        ("a", "c", 5000, "filtered"),
    ]


ORDER = {"peers": [{"name": "b", "address": "10.0.0.2", "port": 5000}], "expect": ["b", "c"]}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (result({"b": "fine"}, []), "Invalid enum value 'fine'"),
        (result({"c": "ok"}, []), "not asked to try"),
        ({**result({"b": "ok"}, []), "edges": result({"b": "ok"}, [])["edges"] * 2}, "not asked to try"),
        ({**result({}, []), "edges": [{**result({"b": "ok"}, [])["edges"][0], "port": 5001}]}, "not asked to try"),
        (result({"b": "ok"}, ["d"]), "not to connect to it"),
        (result({"b": ["ok"]}, []), "got `array`"),
        ({"edges": None, "heard": [], "strangers": 0}, "got `null`"),
    ],
)
def test_a_report_of_something_that_was_not_ordered_is_a_bad_reply(said, words):
    """Of other nodes, of other ports, twice, or in other words."""
    with pytest.raises(BadReply, match=words):
        mesh.checked("a", read("a", mesh.MeshReply, {"strangers": 0, **said}, "result"), ORDER)


def test_a_report_of_what_was_ordered_counts_even_if_it_is_not_of_all():
    """A connection that is not told of is judged where both ends are laid side by side."""
    told = {"strangers": 2, **result({}, ["c"])}
    assert mesh.checked("a", read("a", mesh.MeshReply, told, "result"), ORDER)["heard"] == ("c",)


def test_a_node_without_a_result_is_blamed_alone():
    """Its own edges are `local`, and edges to it are not attested."""
    tried = pairs(("a", "b", "c"))
    results = {"a": result({"b": "ok", "c": "ok"}, ["b"]), "b": result({"a": "ok", "c": "ok"}, ["a"])}
    found = mesh.combine(tried, results, seconds=0.0)
    assert found.ok == 2
    assert Counter(edge.reason for edge in found.failed) == {"local": 2, "not_attested": 2}
    assert found.blamed == (("c",),)


def test_what_all_pairs_take_grows_with_their_number():
    """A second for few, half a minute for a thousand nodes."""
    few, many = mesh.full_seconds(8), mesh.full_seconds(1000)
    assert few < 1.1
    assert 20 < many < 40


def test_the_meshes_of_several_groups_are_one():
    """What was tried and took is added up, a node of several is named once, and blame is of all that failed."""
    tried = (("a", "b"), ("b", "a"))
    whole = mesh.combine(tried, {"a": result({"b": "ok"}, ["b"]), "b": result({"a": "ok"}, ["a"])}, seconds=1.5)
    broken = mesh.combine((("a", "c"),), {"a": result({"c": "filtered"}, [])}, seconds=2.0)
    whole = msgspec.structs.replace(whole, node_names=("a", "b"), unmeasured={"b": "late"})
    broken = msgspec.structs.replace(broken, node_names=("a", "c"), unmeasured={"c": "did not answer"})
    found = mesh.joined([whole, broken])
    assert (found.edges, found.ok, found.seconds, found.node_names) == (3, 2, 3.5, ("a", "b", "c"))
    assert found.failed == broken.failed != ()
    assert found.blamed == blame(broken.failed, ("a", "b", "c"))
    assert found.unmeasured == {"b": "late", "c": "did not answer"}
