"""Is a raw source that is gone, empty, cut short or closed ever taken for well?"""

import re

import pytest

from tests.twins import sources
from tests.twins.platforms import BY_NAME

# A sample of what stops a job; `python -m tests.bench.sources` takes every source of a platform.
SAMPLE = re.compile(r"sys/class/infiniband/.*/(state|rate|link_layer)$|proc/meminfo|opt/twin/outputs/nvidia-smi -q")


@pytest.mark.parametrize("user_id", [None, sources.OTHER_USER], ids=["root", "user"])
def test_what_is_lost_is_never_a_pass(user_id, tmp_path, lab_is_possible):
    """On one node and on all: a verdict changes wherever the facts do."""
    found = list(sources.try_all(BY_NAME["gb200-nvl72"], tmp_path, only=SAMPLE.match, user_id=user_id))
    assert [lost for lost in found if lost.is_silent] == []
    assert len(found) >= 8


def test_what_no_node_has_is_said_where_the_rest_passes(tmp_path, lab_is_possible):
    """A machine without cpufreq or a sysctl keeps its pass for the other facts, in words that leave these out."""
    kinds = re.compile(r"proc/sys/net/core/rmem_max|.*/no_turbo|dev/kmsg")
    found = list(sources.try_all(BY_NAME["gb200-nvl72"], tmp_path, only=kinds.match))
    said = {(lost.kind.rpartition("/")[2], lost.change, lost.where): lost.said for lost in found}
    assert [lost for lost in found if not lost.said] == []
    assert said["rmem_max", "removed", "all"] == said["no_turbo", "removed", "all"] == "untold"
    assert said["rmem_max", "truncated", "all"] == said["kmsg", "truncated", "node2"] == "error"
