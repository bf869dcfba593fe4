"""Does the mesh connect every pair on random ports, and go on without a node that is lost?"""

from __future__ import annotations

import pytest

from preflight.job.measure import mesh
from preflight.said.errors import HostError
from tests.job.measure.local import opened


class Lost:
    """A session to a node that has gone away."""

    async def start(self, *_words, **_options):
        """Nothing can be started any more."""
        raise HostError("c", "went away")


@pytest.fixture(scope="module")
def run():
    """Names and addresses -> the mesh over them; a node without an address is lost."""
    with opened() as (fleet, session):

        def run_mesh(addresses: dict[str, str], *lost: str):
            sessions = {name: Lost() if name in lost else session for name in addresses}
            work = mesh.run(sessions, addresses, full=False, seconds=15.0)
            return fleet.run(work, seconds=30)

        yield run_mesh


def test_every_ordered_pair_is_connected(run):
    """Both ends hold the nonce of every connection."""
    result = run({"a": "127.0.0.1", "b": "127.0.0.2", "c": "127.0.0.3"})
    assert (result.edges, result.ok, result.failed, result.unmeasured) == (6, 6, (), {})
    assert result.seconds > 0


def test_a_node_that_is_lost_is_not_measured_and_the_others_are(run):
    """Its edges are not counted as failed: nobody knows."""
    result = run({"a": "127.0.0.1", "b": "127.0.0.2", "c": "127.0.0.3"}, "c")
    assert result.unmeasured == {"c": "went away"}
    assert (result.edges, result.ok, result.failed) == (2, 2, ())


def test_an_address_that_the_node_does_not_have_is_not_measured(run):
    """It cannot listen there; the reason is told."""
    result = run({"a": "127.0.0.1", "b": "192.0.2.1"})
    assert "b" in result.unmeasured
    assert result.edges == 0
