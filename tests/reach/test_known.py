"""Is the host named that was meant by one that does not resolve, and none where nobody could tell?"""

import pytest

from preflight.reach.known import explained, names
from preflight.reach.transport.ssh import Ssh
from preflight.said import values_in

KNOWN = ("node1", "node2", "node3", "login")


def unresolved(host):
    return Ssh().explain(host, 255, f"ssh: Could not resolve hostname {host}: Name or service not known\n")


def meant(host, *others, known=KNOWN):
    reason = explained({host: unresolved(host)}, [host, *others], known)[host]
    return next(values_in(reason, "meant_host"), "")


def test_a_slip_of_the_pen_is_told_with_the_host_that_is_left():
    """node1 and node2 are in the run already, so that nod3 is node3."""
    assert meant("nod3", "node1", "node2") == "node3"
    reason = explained({"nod3": unresolved("nod3")}, ["nod3", "node1", "node2"], KNOWN)["nod3"]
    assert reason.endswith("did you mean node3?")


@pytest.mark.parametrize(
    ("host", "others", "known"),
    [
        ("node4", (), KNOWN),  # as near to each of three
        ("gpu7", (), KNOWN),
        ("nod3", ("node1", "node2", "node3"), KNOWN),
        ("nod3", (), ()),
    ],
)
def test_nothing_is_guessed_where_several_or_none_are_near(host, others, known):
    """The reason stays as ssh gave it."""
    assert meant(host, *others, known=known) == ""


def test_another_failure_and_a_lost_jump_host_are_left_alone():
    """Only the node's own name is corrected."""
    refused = Ssh().explain("nod3", 255, "ssh: connect to host nod3 port 22: Connection refused\n")
    jump = "ssh: Could not resolve hostname gat: Name or service not known\nkex_exchange_identification: closed\n"
    failures = {"nod3": refused, "nod4": Ssh().explain("nod4", 255, jump)}
    assert explained(failures, [*failures, "node1", "node2"], KNOWN) == failures


def test_names_come_from_the_hosts_file_and_from_the_configurations_of_ssh(tmp_path):
    """Comments, patterns and files that are not there give none."""
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n10.0.0.1 node1 node1.rack # node9\n")
    (tmp_path / "a.conf").write_text("Host gpu1 gpu2 !gpu3\n  HostName 10.0.0.9\nHost *.rack\nhost=login\n")
    found = names(str(tmp_path / "hosts"), [str(tmp_path / "*.conf"), str(tmp_path / "none")])
    assert found == ("localhost", "node1", "node1.rack", "gpu1", "gpu2", "login")
    assert names(str(tmp_path / "none"), []) == ()
