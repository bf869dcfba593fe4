"""Is a raw source that is gone, empty, cut short or closed ever taken for well?"""

import re

import pytest

from tests.twins import sources
from tests.twins.platforms import BY_NAME

# A sample of what stops a job; `python -m tests.bench.sources` takes every source of a platform.
SAMPLE = re.compile(r"sys/class/infiniband/.*/(state|rate|link_layer)$|proc/meminfo|opt/twin/outputs/nvidia-smi -q")
# Cut at the end of a line, a file that says nowhere how long it is looks whole.
OPEN_ENDED = ("proc/meminfo", "proc/cmdline", "proc/cpuinfo", "proc/modules")


@pytest.mark.parametrize("user_id", [None, sources.OTHER_USER], ids=["root", "user"])
def test_what_is_lost_is_never_a_pass(user_id, tmp_path, lab_is_possible):
    """On one node and on all: a verdict changes wherever the facts do."""
    found = list(sources.try_all(BY_NAME["gb200-nvl72"], tmp_path, only=SAMPLE.match, user_id=user_id))
    silent = [lost for lost in found if lost.is_silent]
    assert [lost for lost in silent if not (lost.change == "truncated" and lost.kind in OPEN_ENDED)] == []
    assert len(found) >= 8
