"""Are there enough ports for the connections of a job?"""

import pytest

from preflight.judge.tables.network import sidecars
from preflight.said import said
from preflight.said.errors import Blame


@pytest.mark.advisory
def test_ephemeral_ports_are_enough(node, settings):
    """The range of ports that the kernel hands out is wide, and mostly free.

    NCCL and gloo take one of its ports for every listener and every connection: a job of hundreds of ranks ends with
    "Address already in use" or "Cannot assign requested address" at its start.
    Fix: `sysctl -w net.ipv4.ip_local_port_range="32768 60999"` on the nodes named; `ss -tan` lists what uses it.
    """
    low, high = node.network.ephemeral_ports
    reserved = node.network.ports_kept_back()
    width, wanted = high - low + 1 - reserved, settings.network.ephemeral_ports_min
    kept = said(" beside the {reserved} of net.ipv4.ip_local_reserved_ports", reserved) if reserved else ""
    assert width >= wanted, said(
        "the ephemeral range {low}-{high} has {width} ports{kept}; wanted at least {wanted}",
        low,
        high,
        width,
        kept,
        wanted,
    )
    used, share = node.ports.used_ephemeral(), settings.network.ephemeral_used_share
    assert used <= share * width, said(
        "{used} of {width} ephemeral ports are in use; wanted at most {share:.0%}", used, width, share
    )


@pytest.mark.advisory
def test_no_proxy_takes_every_connection(node, cluster):
    """Nothing has put a proxy before the connections of the node, as Istio and Linkerd do with pods.

    It answers in the place of a peer: ranks connect and wait ("failed to recv, got 0 bytes"), NCCL's bytes are taken
    for another protocol, and a pod whose proxy goes on running never completes.
    Fix: put the annotation that the finding names into the pods' template, or use a namespace without injection.
    """
    cluster.needs_peers()
    found = sidecars.listening(node.ports)
    if found is not None:
        words = ", ".join(map(str, sorted(found.ports)))
        message = said(
            "the proxy of {name} takes the connections of this pod (it listens on {ports})", found.name, words
        )
        raise Blame(
            message,
            nodes=[node.name],
            fix=said("put `{annotation}` into the annotations of the pods' template", found.without),
        )
