"""Which nodes are asked for the vendors' tests, and when is none?"""

from __future__ import annotations

import asyncio

import pytest

from preflight.job.collect import vendor
from preflight.job.options.options import Options
from preflight.testing import roce
from preflight.testing.hardware import gpus
from tests.job.collect.test_trust import Answering


class Asked(Answering):
    """A session whose node has run its tests."""

    result = {"dcgmi": [["Memory", "0", "pass", ""]]}  # noqa: RUF012 - nobody changes it

    async def start(self, name, arguments, *, seconds):
        """Take the question."""
        assert arguments["scratch"] is True  # what a test writes goes with the run
        self.asked.append((name, arguments["tests"], seconds))
        return self


def collect(run, **options):
    sessions = {name: Asked() for name in run.names}
    return asyncio.run(vendor.collect(sessions, run.cluster, Options(**options))), sessions


def test_nobody_is_asked_unless_somebody_wants_it():
    """The tests take minutes, and all of the GPUs."""
    assert collect(roce())[0] == {}


def test_every_node_gets_the_tests_and_their_time():
    """All of them one after the other."""
    told, sessions = collect(roce(), vendor_tests="dcgmi:1,nvbandwidth")
    assert told["node2"] == ({"vendor": Asked.result}, {})
    wanted = [["dcgmi", "1", 90.0], ["nvbandwidth", "", 240.0]]
    assert sessions["node2"].asked == [("vendor", wanted, 340.0)]


def test_a_node_whose_gpus_nobody_could_read_is_asked():
    """It is not known to be in use; its own tests say what is there."""
    told, sessions = collect(roce().without("node2", "gpu"), vendor_tests="dcgmi")
    assert sessions["node2"].asked
    assert told["node2"] == ({"vendor": Asked.result}, {})


@pytest.mark.parametrize("force", [False, True])
def test_a_node_in_use_is_left_alone(force):
    """Unless it is forced; and it is not said to be well."""
    run = roce().broken("node2", "gpu", devices=gpus(8, processes=1))
    told, sessions = collect(run, vendor_tests="dcgmi", force=force)
    assert bool(sessions["node2"].asked) is force
    assert ("vendor" in told["node2"][1]) is not force
