"""Are ranks named so that a few are all shown, and many counted?"""

from __future__ import annotations

import pytest

from preflight.diagnose.derived.wording import made, ranks_text


@pytest.mark.parametrize(
    ("ranks", "words"),
    [((), "ranks"), ((3,), "rank 3"), ((0, 1), "ranks 0, 1"), (tuple(range(18)), "ranks 0, 1, 2, 3, 4, 5, 6, 7,")],
)
def test_ranks_are_named(ranks, words):
    """One, several, and more than a line holds."""
    assert ranks_text(ranks).startswith(words)
    assert ranks_text(ranks).endswith("and 2 more") == (len(ranks) > 16)


def test_a_finding_without_a_line_is_of_all_files():
    """Its words are its evidence."""
    finding = made("not-all-joined", "2 of 4 ranks began to join")
    assert (finding.evidence[0].line, finding.evidence[0].text) == (0, finding.detail)
