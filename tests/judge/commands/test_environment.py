"""Is the line for a variable one for the shell that starts the job, or for the file that sets it?"""

from __future__ import annotations

import subprocess

from preflight.facts.subjects.environment import Variable
from preflight.judge.commands import environment
from preflight.testing import healthy
from tests.checks.samples import judge
from tests.judge.commands.typed import as_root, typed

DEBUG = "environment.nothing_is_left_from_debugging"


def test_the_name_that_was_meant_takes_the_value():
    """And the one that nobody reads goes; both in the job's own shell."""
    run = as_root(healthy()).with_variables("node2", NCCL_IFNAME="eth0 x")
    (finding,) = (one for one in judge("environment.variables_exist", run) if one.commands)
    (command,) = finding.commands
    assert (command.now, command.is_for_job) == ("unset NCCL_IFNAME; export NCCL_SOCKET_IFNAME='eth0 x'", True)


def test_what_a_file_of_the_node_sets_is_taken_out_of_it(tmp_path):
    """By an edit of /etc/nccl.conf there, of that variable only."""
    run = as_root(healthy())
    held = {"CUDA_LAUNCH_BLOCKING": Variable("1", "/etc/nccl.conf")}
    (command,) = typed(run.broken("node2", "environment", variables=held), DEBUG).values()
    file = tmp_path / "nccl.conf"
    file.write_text("NCCL_DEBUG=WARN\n CUDA_LAUNCH_BLOCKING = 1\nCUDA_LAUNCH_BLOCKING_X=1\n")
    subprocess.run(["sh", "-c", command.replace("/etc/nccl.conf", str(file))], check=True)
    assert file.read_text() == "NCCL_DEBUG=WARN\nCUDA_LAUNCH_BLOCKING_X=1\n"
    assert typed(run.with_variables("node2", CUDA_LAUNCH_BLOCKING="1"), DEBUG) == {
        "node2": "unset CUDA_LAUNCH_BLOCKING"
    }


def test_a_variable_gets_the_value_of_the_others():
    """Quoted; where they do without, it goes."""
    run = healthy().with_variables("node1", "node3", NCCL_ALGO="Ring; Tree").with_variables("node2", NCCL_ALGO="Tree")
    assert typed(run, "environment.variables_of_all_ranks_agree") == {"node2": "export NCCL_ALGO='Ring; Tree'"}


def test_several_variables_that_differ_get_a_line_each():
    """Though one message speaks of both."""
    run = healthy().with_variables("node2", NCCL_ALGO="Tree", NCCL_PROTO="Simple")
    found = judge("environment.variables_of_all_ranks_agree", run)
    assert {command.now for one in found for command in one.commands} == {"unset NCCL_ALGO", "unset NCCL_PROTO"}


def test_each_node_gets_its_own_rank():
    """By its place among the hosts."""
    run = healthy().with_variables(NODE_RANK="0")
    found = typed(run, "environment.what_sets_nodes_apart_is_each_nodes_own")
    assert found == {f"node{place + 1}": f"export NODE_RANK={place}" for place in range(3)}


def test_every_peer_by_address_and_name_is_left_to_the_proxy_no_more():
    """What is excepted stays, and those that it lacks are added, without a placeholder, for both spellings."""
    run = as_root(healthy()).with_variables("node2", http_proxy="http://proxy:3128", no_proxy="localhost,10.0.0.1")
    value = "localhost,10.0.0.1,10.0.0.2,node2,10.0.0.3,node3"
    assert typed(run, "environment.proxies_leave_the_peers_out") == {
        "node2": f"export no_proxy={value} NO_PROXY={value}"
    }


def test_a_line_too_long_to_type_is_not_given(monkeypatch):
    """Of thousands of nodes each would have all their names in the report: a network or the end of a name does it."""
    run = as_root(healthy()).with_variables("node2", http_proxy="http://proxy:3128")
    value = "10.0.0.1,node1,10.0.0.2,node2,10.0.0.3,node3"
    monkeypatch.setattr(environment, "LONGEST_VALUE", len(value))
    assert typed(run, "environment.proxies_leave_the_peers_out") == {
        "node2": f"export no_proxy={value} NO_PROXY={value}"
    }
    monkeypatch.setattr(environment, "LONGEST_VALUE", len(value) - 1)
    assert typed(run, "environment.proxies_leave_the_peers_out") == {}
