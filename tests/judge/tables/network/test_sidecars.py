"""Is a service mesh known by all the ports of its proxy?"""

from __future__ import annotations

import pytest

from preflight.facts.subjects.ports import Listener, Ports
from preflight.judge.tables.network import sidecars


@pytest.mark.parametrize("sidecar", sidecars.SIDECARS, ids=lambda one: one.name)
def test_all_ports_of_a_proxy_listen(sidecar):
    """One of them alone may be another program's."""
    held = tuple(Listener("127.0.0.1", port, "proxy", 1) for port in sorted(sidecar.ports))
    assert sidecars.listening(Ports(listeners=held)) is sidecar
    assert sidecars.listening(Ports(listeners=held[1:])) is None
