"""Are documents that were packed what they were?"""

from __future__ import annotations

from preflight.facts.decode import decode, encode
from preflight.facts.documents import Documents, packed
from preflight.facts.value import Missing
from tests.facts.test_decode import document


def test_packed_documents_are_what_they_were():
    """What came later replaces why it was missing, and a lone surrogate is no reason to lose a node."""
    before = document(identity={"hostname": "\ud800"}, limits={"a": [1, 2.5, None, True]})
    later = ({"peers": {"routes": []}}, {"trust": Missing("no", "denied")})
    held = Documents.of([before]).merged({before.node: [packed(later)]})
    after = held[before.node]
    assert list(held) == [before.node]
    assert after.subjects["limits"] == before.subjects["limits"]
    assert after.subjects["peers"] == {"routes": []}
    assert after.missing["trust"] == Missing("no", "denied")
    assert decode(after).name == before.node


def test_the_stored_file_of_a_packed_document_is_that_of_the_document():
    """Escapes, letters beyond ASCII and what came later are in it as if everything had been decoded."""
    before = document(identity={"hostname": "näme \x7f", "fqdn": "\ud800"}, limits={"a": [1, 2.5, 1e300, None, True]})
    later = ({"limits": {"a": {"b": 2**60}}, "peers": {"routes": []}}, {"trust": Missing("no", "denied")})
    held = Documents.of([before]).merged({before.node: [packed(later)]})
    assert held.as_stored(before.node) == encode(held[before.node])
    assert held.as_stored(before.node).isascii()
