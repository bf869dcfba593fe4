"""Are ranks and nodes of a finding told in a line that stays short?"""

from __future__ import annotations

from preflight.diagnose.causes import CAUSES
from preflight.diagnose.found import Finding


def test_where_names_ranks_and_nodes():
    """The first of them, and how many more."""
    cause = CAUSES[0]
    assert Finding(cause, (), 1).where == ""
    assert Finding(cause, (), 1, (3,), ("n1",)).where == "rank 3 on n1"
    assert Finding(cause, (), 1, tuple(range(10))).where == "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more"
    assert Finding(cause, (), 1, tuple(range(9))).where == "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 1 more"
    assert Finding(cause, (), 1, tuple(range(8))).where == "ranks 0, 1, 2, 3, 4, 5, 6, 7"
    assert Finding(cause, (), 1, (), ("a", "b")).where == "a, b"
    assert Finding(cause, (), 1, (), tuple("abcd")).where == "a, b, c, d"
    assert Finding(cause, (), 1, (), tuple("abcde")).where == "a, b, c, d and 1 more"
    assert Finding(cause, (), 1, (), tuple("abcdefg")).where == "a, b, c, d and 3 more"
