"""Is a rank that keeps the others waiting named in time, and one that is merely slow left alone?"""

from __future__ import annotations

import pytest

from preflight.job.start.patience import AGENT_SECONDS, RESERVE_SECONDS, SECONDS, WAIT_SECONDS, Patience
from preflight.judge.settings import Settings


@pytest.mark.parametrize("stage", ["start", "import"])
def test_a_rank_that_stays_behind_is_late_after_its_stages_time(stage):
    """Counted from when another rank got further: until then it held up nobody."""
    patience = Patience()
    assert patience.late({0: stage, 1: stage}, 0.0) == ()
    assert patience.late({0: "rendezvous", 1: stage}, 100.0) == ()
    assert patience.late({0: "rendezvous", 1: stage}, 100.0 + SECONDS[stage]) == ()
    assert patience.late({0: "rendezvous", 1: stage}, 101.0 + SECONDS[stage]) == (1,)


def test_a_rank_that_went_on_begins_anew():
    """Each stage has its own time."""
    patience = Patience()
    patience.late({0: "rendezvous", 1: "start"}, 0.0)
    patience.late({0: "rendezvous", 1: "import"}, 29.0)
    assert patience.late({0: "rendezvous", 1: "import"}, 29.0 + SECONDS["import"]) == ()


def test_a_rank_behind_an_agent_may_start_late():
    """accelerate and torchrun import torch before they start a rank."""
    patience = Patience(has_agents=True)
    patience.late({0: "import", 1: "start"}, 0.0)
    assert patience.late({0: "import", 1: "start"}, AGENT_SECONDS) == ()
    assert patience.late({0: "import", 1: "start"}, AGENT_SECONDS + 1) == (1,)


def test_ranks_that_run_watch_each_other():
    """From the rendezvous on the ranks have time-outs of their own."""
    patience = Patience()
    for stage in ("rendezvous", "communicator", "running"):
        patience.late({0: "done", 1: stage}, 0.0)
        assert patience.late({0: "done", 1: stage}, 1000.0) == ()


def test_the_times_fit_each_other():
    """Longer than the slowest import that is allowed, than InfiniBand's own retries, and all within a job's reserve."""
    infiniband = 4.096e-6 * 2**20 * 7
    assert SECONDS["import"] > Settings().start.import_max_seconds
    assert infiniband + 10 < WAIT_SECONDS
    assert max(SECONDS["start"], AGENT_SECONDS) <= SECONDS["import"]
    assert SECONDS["import"] + WAIT_SECONDS < RESERVE_SECONDS
