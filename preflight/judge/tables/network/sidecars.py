"""Which service mesh takes the connections of a pod, by the ports that its proxy listens on?

Its packet filter sends every new connection there; the proxy is another container of the pod, in the same network.
"""

from __future__ import annotations

from typing import NamedTuple

from preflight.facts.subjects.ports import Ports


class Sidecar(NamedTuple):
    """A proxy beside the program, and what leaves it out of a pod."""

    name: str
    ports: frozenset[int]  # all of them listen
    without: str


SIDECARS = (
    Sidecar("Istio", frozenset({15001, 15006}), 'sidecar.istio.io/inject: "false"'),
    Sidecar("Linkerd", frozenset({4140, 4143}), "linkerd.io/inject: disabled"),
)


def listening(ports: Ports) -> Sidecar | None:
    """The proxy that listens, None where there is none."""
    held = {listener.port for listener in ports.listeners}
    return next((one for one in SIDECARS if one.ports <= held), None)
