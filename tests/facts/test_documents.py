"""Are documents that were packed what they were?"""

from __future__ import annotations

from preflight.facts.decode import decode
from preflight.facts.documents import Documents
from preflight.facts.value import Missing
from tests.facts.test_decode import document


def test_packed_documents_are_what_they_were():
    """What came later replaces why it was missing, and a lone surrogate is no reason to lose a node."""
    before = document(identity={"hostname": "\ud800"}, limits={"a": [1, 2.5, None, True]})
    held = Documents.of([before]).merged({before.node: ({"peers": {"routes": []}}, {"trust": Missing("no", "denied")})})
    after = held[before.node]
    assert list(held) == [before.node]
    assert after.subjects["limits"] == before.subjects["limits"]
    assert after.subjects["peers"] == {"routes": []}
    assert after.missing["trust"] == Missing("no", "denied")
    assert decode(after).name == before.node
