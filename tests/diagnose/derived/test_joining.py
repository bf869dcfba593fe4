"""Is it told which ranks did not join, or counted another number of ranks?"""

from __future__ import annotations

import pytest

from preflight.diagnose import diagnose

SIZES = tuple(f"[rank{rank}]: world_size={8 if rank == 2 else 4} rank={rank}" for rank in range(4))
NOT_JOINED = (
    "[rank0]: torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 clients joined."
)


@pytest.mark.parametrize(
    ("ranks", "cause"),
    [((0, 1, 2, 3, 4, 5, 6, 7), ""), ((0, 1, 2, 3), "not-all-joined"), ((0, 0, 1, 1, 2, 2, 3, 3), "same-rank-twice")],
)
def test_ranks_that_began_to_join_tell_who_did_not(ranks, cause):
    """Lightning prints a line for each: half of them, or half of them twice, and nothing more is a hang."""
    diagnosis = diagnose([f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/8" for rank in ranks])
    assert [finding.cause.name for finding in diagnosis.causes] == [cause] * bool(cause)


def test_a_rank_that_counts_other_ranks_than_most_is_named():
    """Where the ranks did not find each other; else a group of another size may be meant."""
    first = diagnose([*SIZES, NOT_JOINED]).causes[0]
    assert (first.cause.name, first.ranks) == ("world-size-mismatch", (2,))
    assert "rank 2: 8; ranks 0, 1, 3: 4" in first.detail
    assert diagnose(SIZES).causes == ()
    later = diagnose([*SIZES, "step 1 loss 2", NOT_JOINED])
    assert "world-size-mismatch" not in [one.cause.name for one in later.causes]


def test_a_rank_that_waits_for_the_address_of_one_that_is_not_there_is_told_so():
    """As where it alone has a larger world size, and nobody prints it."""
    others = [f"[rank{rank}]: [c10d] The hostname of the client socket cannot be retrieved. err=-3" for rank in (0, 2)]
    waited = "[rank1]: torch.distributed.DistStoreError: wait timeout after 8000ms, keys: /default_pg/0//cpu//0/3"
    first = diagnose([*others, waited]).causes[0]
    assert first.cause.name == "store-wait-timeout"
    assert first.detail.startswith("rank 1 waited for the address of rank 3, whose log is not here")
    assert diagnose([waited]).causes[0].detail == "rank 1 waited for the address of rank 3"
