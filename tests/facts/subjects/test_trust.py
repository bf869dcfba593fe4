"""Are the logins from node to node read as the node sent them?"""

from __future__ import annotations

import pytest

from preflight.facts.subjects.trust import Login, Trust
from preflight.said.errors import FactMissing
from tests.facts.answers import decoded, wire

WORKED = Login("10.0.0.2", "", 0.4, "/usr/bin/python3")
REFUSED = Login("10.0.0.3", "Permission denied (publickey).", 0.2, "")


def test_a_login_that_worked_and_one_that_did_not_are_told_apart():
    """By the trouble, which is empty where it worked."""
    found = decoded("trust", wire(Trust(logins=(WORKED, REFUSED))))
    assert found.logins == (WORKED, REFUSED)
    assert [login.peer for login in found.logins if login.trouble] == ["10.0.0.3"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("trouble", None), ("trouble", {"missing": "x"}), ("seconds", "0.4"), ("python", 3), ("peer", ["10.0.0.2"])],
)
def test_a_login_of_another_form_is_malformed(field, value):
    """No trouble is the empty text and nothing else."""
    with pytest.raises(FactMissing, match=f"malformed: .*{field}"):
        decoded("trust", {"logins": [wire(WORKED, **{field: value})]})


def test_logins_that_were_not_tried_are_not_logins_that_failed():
    """A node that was not asked sends no subject at all."""
    with pytest.raises(FactMissing, match="logins"):
        decoded("trust", {})
