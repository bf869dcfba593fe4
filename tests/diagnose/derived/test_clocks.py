"""Are logs of nodes put in order whose clocks differ?"""

from __future__ import annotations

import pytest

from preflight.diagnose import diagnose_texts
from preflight.diagnose.derived.clocks import offsets


def log(ahead, failure, second, count=20):
    """A log that tells of a step every two seconds, and then of a failure, by a clock that is ahead."""

    def at(seconds):
        total = 10 * 3600 + seconds + ahead
        return f"2030-01-02 {total // 3600:02}:{total // 60 % 60:02}:{total % 60:02},000"

    return "\n".join([*(f"{at(2 * n)} INFO step {n} loss 2.3" for n in range(count)), f"{at(second)} ERROR {failure}"])


@pytest.mark.parametrize("ahead", [0, 7, -7, 3600, 8 * 3600])
def test_the_failure_that_came_first_is_told_whatever_the_clocks_say(ahead):
    """Steps that all ranks make together show by how much they differ; time zones are such a difference too."""
    first = log(ahead, "OSError: [Errno 28] No space left on device", 41)
    later = log(0, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", 45)
    for names in (("a.log", "b.log"), ("b.log", "a.log")):
        texts = dict(sorted({names[0]: first, names[1]: later}.items()))
        assert diagnose_texts(texts).causes[0].cause.name == "disk-full"


def test_the_difference_is_measured():
    """Of the first log; one that shares no steps with it has none."""
    marks = {
        name: [(n, line.encode()) for n, line in enumerate(log(ahead, "x", 41).splitlines()[:-1])]
        for name, ahead in (("a", 0), ("b", 12))
    }
    alone = [(1, b"2030-01-02 10:00:00,000 INFO step 900 loss 2.3")]
    assert offsets({**marks, "c": alone}) == {"a": 0.0, "b": 12.0}
