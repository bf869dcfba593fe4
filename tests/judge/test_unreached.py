"""Is what many nodes have in common said once, with their rack where it is one?"""

from __future__ import annotations

import dataclasses

import pytest

from preflight.judge.unreached import Loss, losses, way_back
from preflight.reach.transport.ssh import Ssh
from preflight.run.suite.judge import REACH_CHECK
from preflight.said import knowing, said
from preflight.said.errors import BadReply, Busy
from preflight.testing import healthy
from tests.judge.samples import ALL, check, findings, raising, told
from tests.wording import WORDINGS, reworded

RACKS = {**dict.fromkeys(("n1", "n2", "n3"), "switch s1"), **dict.fromkeys(("n4", "n5", "n10"), "switch s2")}


def silent(name):
    """What ssh says of a node without power."""
    return f"no answer on the ssh port (ssh: Connection timed out); check that {name} is up"


def test_reasons_that_differ_in_the_nodes_own_name_are_one():
    """A single node keeps its name; n1 is no part of n10."""
    found = losses({name: silent(name) for name in ("n1", "n10")}, {})
    assert [(loss.nodes, loss.message) for loss in found] == [(("n1", "n10"), f"not reached: {silent('<node>')}")]
    (one,) = losses({"n1": silent("n1")}, RACKS)
    assert one.message == f"not reached: {silent('n1')}"


def test_a_dead_switch_is_one_thing_and_the_other_nodes_are_another():
    """Most of a rack is its switch or its power; one node of another rack is its own."""
    lost = {name: silent(name) for name in ("n1", "n2", "n3", "n4")} | {"n5": "login refused"}
    found = losses(lost, RACKS)
    assert [loss.nodes for loss in found] == [("n1", "n2", "n3"), ("n4",), ("n5",)]
    assert found[0].message.startswith("switch s1: 3 of 3 nodes not reached: no answer")
    assert [loss.message for loss in found[1:]] == [f"not reached: {silent('n4')}", "not reached: login refused"]


def test_what_cost_most_racks_is_said_once():
    """A dead switch above them is one thing, and not one for each rack; two of many racks are each their own.

    Where nobody answers at all, it may be the machine that asks.
    """
    racks = {f"n{number}": f"rack {number % 40}" for number in range(160)}
    (found,) = losses({name: silent(name) for name in racks}, racks)
    assert (len(found.nodes), found.rack) == (160, "")
    (alone,) = losses({name: silent(name) for name in ("n1", "n2")}, {"n1": "rack 1", "n2": "rack 1"})
    assert (alone.nodes, alone.rack) == (("n1", "n2"), "")
    two = {name: silent(name) for name, rack in racks.items() if rack in ("rack 3", "rack 4")}
    assert {loss.rack for loss in losses(two, racks)} == {"rack 3", "rack 4"}


def test_nodes_that_were_not_reached_are_errors_of_every_check():
    """Once with the reason, elsewhere as blocked by that; the others are judged."""
    run = healthy()
    run = run.unreached("node2", "login refused")
    reach = findings(check(raising(ValueError(), on=()), name=REACH_CHECK), run)
    assert told(reach)[0] == ("error", ("node2",), "not reached: login refused")
    assert reach[0].fix
    other = findings(check(raising(ValueError(), on=())), run)
    assert told(other) == [
        ("error", ("node2",), f"blocked by {REACH_CHECK}"),
        ("pass", ("node1", "node3"), "It holds."),
    ]


def none(last_words):
    """A login that ended without a Python, with the last words of the node."""
    return knowing(said("no Python answered: {last_words}", last_words), loss="no python")


@pytest.mark.parametrize("is_reworded", [False, True], ids=WORDINGS)
@pytest.mark.parametrize(
    ("reason", "fix"),
    [
        (Busy("node2", "2030").reason, "wait for the run named to end"),
        (knowing("no Python could be started", loss="no such python"), "`--python PATH` with"),
        (
            knowing("no Python could be started", loss="no such python", python="/e/bin/python3"),
            "`--python=/e/bin/python3`, which has torch there, then run again",
        ),
        (
            Ssh().explain("me@node2:2222", 255, "me@node2: Permission denied (publickey)."),
            "`ssh-copy-id -p 2222 me@node2`, then run again; where the key is there already, sshd's log",
        ),
        (
            knowing("no Python", loss="no such python", python="/e/bin/python3", python_of="hostfile"),
            "`python=/e/bin/python3`, which has torch there, on their lines of the hostfile",
        ),
        (
            knowing("the host key changed", format="log in once by hand: ssh -p 2222 me@node2"),
            "`ssh -p 2222 me@node2`, then run again",
        ),
        (none("no output"), "`ssh node2 echo here` must print `here`"),
        (
            knowing(said("{file} there starts {program}", "/root/.bashrc", "zsh"), loss="no python"),
            "install that program there, or let the startup file start it only at a terminal",
        ),
        (knowing("it reads what is for Python", loss="input taken"), "let ~/.bashrc start it only at a terminal"),
        (
            knowing("no Python answered on it within the time of the stage", loss="no python"),
            "`ssh node2 echo here` must print `here` at once",
        ),
        (
            none("rbash: restricted: cannot specify `/'"),
            "the account's shell there is a restricted one",
        ),
        (
            none("This account is currently not available."),
            "the account has no login shell there (nologin)",
        ),
        (
            none("This service allows sftp connections only."),
            "sshd there starts a command of its own",
        ),
        (none("SyntaxError: invalid syntax"), "give `--python PATH` with"),
        (
            BadReply("node2", "FrameError: a frame's checksum does not match").reason,
            "look at what else writes to the output of our command there",
        ),
        ("the connection went silent", "log in by hand the same way (`ssh node2 true`)"),
    ],
)
def test_what_to_do_fits_the_reason(reason, fix, is_reworded):
    """A node that is busy, or has no such Python, is logged in to well enough; in whatever words that is said."""
    run = healthy().unreached("node2", reworded(reason) if is_reworded else reason)
    assert findings(check(raising(ValueError(), on=()), name=REACH_CHECK), run)[0].fix.startswith(fix)


def test_the_way_in_by_hand_is_that_of_hosts():
    """With the user and the port that were given."""
    run = healthy().unreached("node2", "the connection went silent")
    run = dataclasses.replace(run, logins={"node2": "me@node2:2222"})
    (found,) = (one for one in findings(check(raising(ValueError(), on=()), name=REACH_CHECK), run) if one.fix)
    assert "`ssh -p 2222 me@node2 true`" in found.fix


def test_a_run_that_reached_nobody_is_all_errors():
    """No body is evaluated, and no cell is left out."""
    run = healthy()
    run = dataclasses.replace(run, failures=dict.fromkeys(run.names, "no route"))

    def body(cluster):
        """T."""
        raise RuntimeError("evaluated")

    for kind in ("cluster", "mesh", "bench", "training"):
        assert told(findings(check(body, kind=kind), run)) == [("error", ALL, f"blocked by {REACH_CHECK}")]


@pytest.mark.parametrize(
    ("transport", "reason", "fix"),
    [
        ("k8s", "the pod is gone (not found; start the pod)", "start the pod, then run again"),
        ("k8s", knowing("the pod is gone", format="start it"), "start it, then run again"),
        (
            "slurm",
            knowing("it takes no step", format="wait for the allocation"),
            "wait for the allocation, then run again",
        ),
        ("ssh", knowing("it takes no login", format="wait for it"), "log in by hand the same way (`ssh node2 true`)"),
    ],
)
def test_what_a_transport_says_to_do_is_said(transport, reason, fix):
    """Of kubectl behind a semicolon too; by ssh a person tries by hand what went wrong."""
    loss = Loss(("node2",), reason)
    assert way_back(loss, {"node2": transport}, {}).startswith(fix)
