"""Are limits read as numbers or as unlimited, and is unreadable shared memory not zero?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.subjects.limits import Limits
from preflight.facts.value import Missing
from preflight.said.errors import FactMissing
from tests.facts.answers import decoded, wire

BROKEN = Missing("the tool broke")
LIMITS = Limits(
    memlock_soft_bytes="unlimited",
    memlock_hard_bytes="unlimited",
    nofile_soft=65536,
    nofile_hard=1 << 20,
    nproc_soft=4096,
    shm_total_bytes=64 << 30,
    shm_free_bytes=63 << 30,
    leftovers=(),
)


def test_shared_memory_that_could_not_be_read_is_not_zero():
    """A full /dev/shm and an unreadable one are different."""
    assert LIMITS.free_shared_memory_bytes() == 63 << 30
    with pytest.raises(FactMissing):
        msgspec.structs.replace(LIMITS, shm_free_bytes=BROKEN).free_shared_memory_bytes()


def test_limits_are_read_as_the_node_sent_them():
    """A number, or the word of ulimit."""
    assert decoded("limits", wire(LIMITS)) == LIMITS
    assert decoded("limits", wire(LIMITS, memlock_soft_bytes=0)).memlock_soft_bytes == 0


@pytest.mark.parametrize("limit", ["Unlimited", "-1", -1, 1.5, None, True, {"missing": "denied"}])
def test_a_limit_is_a_count_or_unlimited(limit):
    """Any other word or number is malformed, as a limit of -1 would be the smallest of all."""
    with pytest.raises(FactMissing, match=r"malformed: .*memlock_soft_bytes"):
        decoded("limits", wire(LIMITS, memlock_soft_bytes=limit))
