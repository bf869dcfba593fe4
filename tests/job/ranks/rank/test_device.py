"""Which GPU is a rank's, and what is it called?"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from preflight.job.ranks.rank.device import name_of, own_device, own_gpu


@pytest.mark.parametrize(
    ("confined", "local", "seen", "number"),
    [("", 3, 8, 3), ("", 3, 1, 3), ("1", 3, 1, 0), ("1", 1, 2, 1), ("1", 5, 2, 0), ("1", 3, 0, 3)],
    ids=["all are seen", "a GPU too few", "its own", "two of its own", "the third with two", "none is seen"],
)
def test_a_rank_takes_its_own_gpu_where_a_task_sees_no_other(monkeypatch, confined, local, seen, number):
    """Elsewhere a GPU that is not there is asked for, and the rank ends with CUDA's own words."""
    monkeypatch.setenv("LOCAL_RANK", str(local))
    monkeypatch.delenv("PREFLIGHT_OWN_GPUS", raising=False)
    if confined:
        monkeypatch.setenv("PREFLIGHT_OWN_GPUS", confined)
    assert own_gpu(seen) == number
    device = SimpleNamespace(type="cuda")
    assert name_of(device) == (f"cuda:{local}" if confined else str(device))


def test_a_rank_of_gloo_computes_on_the_processor():
    """Also where there are GPUs."""
    assert name_of(own_device("gloo")) == "cpu"
