"""Is a pod that an earlier run found on another node told before anything is laid to that node?"""

from __future__ import annotations

import pytest

from preflight.reach.host import Host
from preflight.reach.hosts import parse_hosts
from preflight.run.moved import confirmed

REMEMBERED = parse_hosts("k8s:train/pod/llama-0:trainer@m1,k8s:train/pod/llama-1:trainer@m2")


def test_a_pod_on_another_node_is_not_reached_and_the_others_are():
    """Its own words; nothing else of a host changes."""
    told = {REMEMBERED[1].address: "the pod was made anew and runs on m9"}
    stays, moved = confirmed(REMEMBERED, lambda addresses: {each: told[each] for each in addresses if each in told})
    assert stays == REMEMBERED[0]
    assert (moved.name, moved.address, moved.trouble) == ("llama-1", REMEMBERED[1].address, told[moved.address])


@pytest.mark.parametrize(
    "hosts",
    [
        parse_hosts("node[1-3]"),
        parse_hosts("k8s:train/pod/llama-0"),
        (Host("p", "k8s:train/pod/p:c@m1", transport="k8s"),),  # as a selector lists it
    ],
)
def test_nobody_is_asked_about_hosts_that_no_earlier_run_wrote_down(hosts):
    """A machine without kubectl runs over ssh."""

    def unasked(_addresses):
        raise AssertionError("kubectl was asked")

    assert confirmed(hosts, unasked) == hosts


def test_what_nobody_could_confirm_is_not_reached():
    """A verdict would name a node that it may not be of; hosts that nobody wrote down are reached."""

    def refused(_addresses):
        raise ConnectionError("this user may not read the pods; give it the Role")

    plain = parse_hosts("node7")
    *unconfirmed, node7 = confirmed([*REMEMBERED, *plain], refused)
    said = "could not be asked: this user may not read the pods; give it the Role"
    assert all(host.trouble.endswith(said) for host in unconfirmed)
    assert (node7,) == plain
