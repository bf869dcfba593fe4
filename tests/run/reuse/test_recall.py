"""Does a run find what an earlier one left, and say why where it does not?"""

import pytest

from preflight.run.reuse.certificates import Asked, Certificate
from preflight.run.reuse.recall import keep, recalled
from preflight.testing import healthy
from tests.run.reuse.samples import CHECKS, PATHS, SIX_HOURS, documents, options


@pytest.fixture
def state(tmp_path, monkeypatch):
    """The folder where programs of this user keep their state."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_the_next_run_takes_over_what_this_one_measured(state, tmp_path):
    """Its proof names the run and the jobs; a changed node, and no run before, are reasons to measure again."""
    asked, run = Asked(options(tmp_path), CHECKS), healthy(2)
    assert (
        recalled(asked, documents(), reuse=SIX_HOURS)
        == "no --reuse run of these hosts with these options is certified yet"
    )
    assert keep(asked, documents(), bench=run.measured_bench, training=None, paths=PATHS) == ""
    found = recalled(asked, documents(), reuse=SIX_HOURS)
    assert isinstance(found, Certificate)
    assert (found.proof().run, found.proof().jobs) == (asked.options.run_id, ("bench",))
    assert recalled(asked, documents(mtu=1500), reuse=SIX_HOURS) == "node2: network.interfaces has changed"


def test_a_folder_that_others_can_write_is_said(state, tmp_path):
    """Nothing is taken from it and nothing put there."""
    (state / "preflight").mkdir(parents=True)
    (state / "preflight").chmod(0o777)
    asked = Asked(options(tmp_path), CHECKS)
    assert "can be written by others" in recalled(asked, documents(), reuse=SIX_HOURS)
    assert "can be written by others" in keep(asked, documents(), bench=None, training=None, paths=PATHS)
