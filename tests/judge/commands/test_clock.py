"""Is a clock set by the service that the node runs?"""

from __future__ import annotations

import pytest

from preflight.testing import healthy
from tests.judge.commands.typed import as_root, typed


@pytest.mark.parametrize(
    ("services", "command"), [(("chronyd",), "chronyc makestep"), ((), "timedatectl set-ntp true")]
)
def test_the_service_of_the_node_sets_its_clock(services, command):
    """chronyd corrects a large offset only when it is told to."""
    run = (
        as_root(healthy())
        .broken("node3", "clock", offset_seconds=90.0)
        .broken("node3", "machine", time_services=services)
    )
    assert typed(run, "clock.clocks_agree") == {"node3": command}
