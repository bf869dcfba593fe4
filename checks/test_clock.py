"""Do the nodes' clocks agree?"""

import pytest

from preflight.facts.value import Missing
from preflight.said import joined, said
from preflight.said.errors import Blame, BlameMany, BlockedBy, NotApplicable


def test_clocks_agree(cluster, settings):
    """No node's clock is so far from the others' that logins, certificates or rendezvous time-outs break.

    torchrun's rendezvous compares the times that nodes wrote: one that is far ahead declares the others dead.
    Fix: `timedatectl set-ntp true` (or `chronyc makestep`) on the nodes named.
    """
    cluster.needs_peers()
    limit = settings.clock.fail_offset_seconds
    off = cluster.clocks_off(limit_seconds=limit)
    if off:
        message = joined([said("{words} on {name}", words, name) for name, words in off.items()], ", ")
        raise Blame(
            said("clock against the median of all nodes: {message}; wanted within {limit:g} s", message, limit),
            nodes=off,
        )


@pytest.mark.advisory
def test_clocks_are_in_step(cluster, settings):
    """The nodes' clocks agree to a second.

    With a larger offset, lines of different logs cannot be put in order, and files written on one node look newer than
    they are.
    Fix: `timedatectl set-ntp true` on the nodes named; `chronyc tracking` shows the offset.
    """
    cluster.needs_peers()
    limit = settings.clock.max_offset_seconds
    off = cluster.clocks_off(limit_seconds=limit)
    for name in cluster.clocks_off(limit_seconds=settings.clock.fail_offset_seconds):
        cluster.cannot_judge(name, BlockedBy("clock.clocks_agree"))
        off.pop(name, None)
    if off:
        message = joined([said("{words} on {name}", words, name) for name, words in off.items()], ", ")
        raise Blame(
            said("clock against the median of all nodes: {message}; wanted within {limit:g} s", message, limit),
            nodes=off,
        )


@pytest.mark.advisory
def test_no_clock_drifted_during_the_run(ending, settings):
    """No node's clock moved away from the others' while preflight ran.

    A clock that drifts or is set in mid-run lets leases and keep-alives of torchrun run out early.
    Fix: `chronyc tracking` (or `timedatectl timesync-status`) on the nodes named; let only one service set the clock.
    """
    ending.needs_peers()
    limit = settings.clock.max_drift_seconds
    drifted = ending.clocks_drifted(limit_seconds=limit)
    if drifted:
        message = joined([said("{words} on {name}", words, name) for name, words in drifted.items()], ", ")
        raise Blame(
            said(
                "the clock moved against the others during the run: {message}; wanted within {limit:g} s",
                message,
                limit,
            ),
            nodes=drifted,
        )


@pytest.mark.advisory
def test_a_time_service_runs_where_the_peers_have_one(cluster):
    """A node runs chrony, ntpd or another time service, and its clock follows one, where most of its peers do.

    Without one a clock that is right today is minutes off in a month; torchrun's keep-alives then declare the node
    dead.
    Fix: `timedatectl set-ntp true` on the nodes named, or start the service that the others run.
    """
    cluster.needs_peers()
    services = cluster.gather(lambda node: node.machine.time_services)
    # Where /proc hides the processes of others, nobody sees the service that runs.
    seen = {name: found for name, found in services.items() if not isinstance(found, Missing)}
    lacking = [name for name, found in seen.items() if not found]
    followed = {name: cluster[name].machine.clock_is_synchronised for name in services}
    if not any(seen.values()) and True not in followed.values():
        raise NotApplicable("no node is seen to run a time service, and no kernel says that its clock follows one")
    blames = []
    if 0 < len(lacking) <= len(seen) / 2:
        blames.append(Blame("no time service runs, as it does on its peers", nodes=lacking))
    adrift = [name for name, is_followed in followed.items() if is_followed is False]
    if 0 < len(adrift) < list(followed.values()).count(True):
        blames.append(Blame("the kernel says that its clock is not synchronized, as its peers' are", nodes=adrift))
    if blames:
        raise BlameMany(blames)
