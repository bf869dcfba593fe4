"""Does every row say whether its command was tried, and a person who reads it too?"""

from __future__ import annotations

from preflight.judge.commands import ROWS
from preflight.judge.commands.tried import TRIED
from preflight.testing import healthy
from tests.checks.samples import judge, resolves

# What the lab lacks for the others; a row that is of none of these has to be tried.
HARDWARE = ("gpu.", "rdma.", "kernel.", "bench.")
SERVICES = ("clock.", "trust.", "software.")  # a time service, a password to type, an index of packages
FILE_SERVER = "a file server, or a repository of large files"
HARD_LIMIT = "the right to raise a hard limit, which no container has that the lab runs in"
SYSTEMD = "hostnamectl asks systemd"
WITHOUT_A_TRIAL = {
    "files.network_file_systems_answer": FILE_SERVER,
    "files.no_pointer_stands_for_data": FILE_SERVER,
    "files.same_paths_hold_the_same": "rsync",
    "files.shared_paths_are_shared": FILE_SERVER,
    "files.the_checkpoint_folder_is_shared": FILE_SERVER,
    "limits.enough_files_may_be_open": HARD_LIMIT,
    "limits.memlock_is_enough_for_rdma": HARD_LIMIT,
    "limits.nothing_is_left_behind": "what no run holds any more is removed by the next one",
    "limits.processes_may_be_started": HARD_LIMIT,
    "master.port_is_free_on_the_first_node": "it only shows who holds the port",
    "names.hostnames_are_unique": SYSTEMD,
    "names.own_hostname_is_not_localhost": SYSTEMD,
    "names.short_hostnames_are_unique": SYSTEMD,
    "network.training_interface_exists": "a second way in: a host of the lab without its interface is not reached",
}
OTHER_FILTERS = (": iptables", ": ufw", ": firewalld")


def test_a_row_is_tried_or_listed_with_the_reason():
    """A new row needs a trial of its fault, or a place in the list above."""
    untried = {row for row in ROWS if not row.startswith((*HARDWARE, *SERVICES)) and not row.endswith(OTHER_FILTERS)}
    assert untried - TRIED == set(WITHOUT_A_TRIAL)
    assert set(ROWS) >= TRIED


def test_a_finding_says_of_each_command_whether_it_was_tried():
    """By the row that gave it."""
    run = resolves(healthy(), "node1", "node2", "10.0.0.77")
    run = run.broken("node3", "identity", hostname="node1")
    commands = {
        command.row: command.is_tried
        for name in ("names.peers_are_taken_for_themselves", "names.hostnames_are_unique")
        for finding in judge(name, run)
        for command in finding.commands
    }
    assert commands["names.hostnames_are_unique"] is False
    run = resolves(healthy(), "node1", "node2", "10.0.0.77")
    (finding,) = [one for one in judge("names.peers_are_taken_for_themselves", run) if one.commands]
    assert [(command.row, command.is_tried) for command in finding.commands] == [(finding.check, True)]
