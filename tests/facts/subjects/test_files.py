"""Are folders, file systems and paths read as the node sent them?"""

from __future__ import annotations

import pytest

from preflight.facts.subjects.files import Files, Mount, Named, Place, Same, Shared
from preflight.facts.value import Missing
from preflight.said.errors import FactMissing
from tests.facts.answers import decoded, wire

PLACE = Place("/root", "home", "", True, 1 << 40, Missing("not counted", "absent"))
SHARED = Shared("/data", "node1", "", 0.5, 800.0, ("preflight-1",))
SAME = Same("/data/set", "sha256:1", 3, 1000, True, ())
FILES = Files(
    places=(PLACE,),
    mounts=(Mount("/data", "nfs4", "server:/x", ""),),
    shared=(SHARED,),
    same=(SAME,),
    named=(Named("/m", "", ("a",)),),
)


def test_what_a_node_found_is_read_place_by_place():
    """A file system that counts no inodes says so in the place of the number."""
    found = decoded("files", wire(FILES))
    assert found == FILES
    assert found.places[0].free_inodes == Missing("not counted", "absent")


def test_what_an_older_node_does_not_send_has_its_meaning():
    """A folder may run programs unless it is mounted noexec; no launch file named a path."""
    place = wire(PLACE)
    del place["may_run"]
    answer = wire(FILES, places=[place])
    del answer["named"]
    found = decoded("files", answer)
    assert found.places[0].may_run
    assert found.named == ()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("places", [wire(PLACE, free_bytes=-1)]),
        ("places", [wire(PLACE, is_writable="yes")]),
        ("places", [wire(PLACE, trouble=None)]),
        ("places", wire(PLACE)),
        ("mounts", [{"path": "/data", "kind": "nfs4", "source": "server:/x"}]),
        ("shared", [wire(SHARED, seconds="0.5")]),
        ("shared", [wire(SHARED, leftovers="preflight-1")]),
        ("same", [wire(SAME, is_whole=1)]),
        ("same", [wire(SAME, digest=7)]),
        ("named", [{"path": "/m", "trouble": "", "pointers": [], "size": 1}]),
    ],
)
def test_an_entry_of_another_form_is_malformed(field, value):
    """Nothing is taken for true, empty or zero."""
    with pytest.raises(FactMissing, match="malformed"):
        decoded("files", wire(FILES, **{field: value}))
