"""Do the lists hold exactly the nodes that a job may use, as launchers and schedulers read them?"""

from __future__ import annotations

import json

import msgspec
import pytest

from preflight.judge.ledger.findings import Finding, Verdict
from preflight.reach.hosts import parse_hosts
from preflight.report.document import NodeInfo
from preflight.report.formats.hostlists import (
    bad_hostfile,
    bad_nodes,
    choice_of,
    choice_text,
    chosen_hostfile,
    chosen_nodelist,
    files_of_choice,
    good_hostfile,
    good_nodes,
    nodes_json,
    slurm_exclude,
)
from preflight.report.material import Material

SIX = tuple(f"node{number}" for number in range(1, 7))


def test_the_node_with_the_fault_is_bad_and_those_that_wait_for_it_are_good(planted):
    """Consequences are not held against a node."""
    assert good_nodes(planted) == ("node1", "node2")
    assert bad_nodes(planted) == ("node3",)
    assert json.loads(nodes_json(Material(planted)))["worst"] == {"node1": "pass", "node2": "pass", "node3": "fail"}


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.ERROR])
def test_what_fails_or_was_not_measured_is_bad(make_report, verdict):
    """A warn and a waived fail are not."""
    report = make_report(
        Finding("a.b", verdict, ("node1",), "m"),
        Finding("a.b", Verdict.WARN, ("node2",), "m"),
        Finding("a.c", Verdict.FAIL, ("node3",), "m", waived=True),
    )
    assert bad_nodes(report) == ("node1",)


def test_a_node_that_did_not_answer_is_bad(make_report):
    """Whatever else is said of it."""
    lost = NodeInfo(host="node2", address="node2", reached=False)
    report = make_report(Finding("a.b", Verdict.PASS, ("node1",), "m"))
    report.nodes["node2"] = lost
    assert "node2" in bad_nodes(report)


def test_a_run_cut_short_calls_no_node_good(make_report):
    """An unfinished run attests nobody."""
    report = make_report(Finding("a.b", Verdict.PASS, SIX[:3], "m"), finished=False, verdict=Verdict.ERROR, exit_code=3)
    assert good_nodes(report) == ()


def test_a_pod_is_listed_as_hosts_takes_it(make_report):
    """With its container and the node that it runs on; labels would be asked for anew, and are none."""
    written = {"a": "k8s:train/pod/llama-0-x:trainer@gpu-7", "b": "k8s:train/pod/llama-1", "c": "k8s:train/app=x"}
    nodes = {name: NodeInfo(host=host, address="10.0.0.1", reached=True) for name, host in written.items()}
    report = make_report(Finding("a.b", Verdict.PASS, tuple(nodes), "m"), nodes=nodes)
    lines = good_hostfile(Material(report)).splitlines()[1:]
    assert lines == [written["a"], written["b"], "# not a host name: k8s:train/app=x"]
    assert [host.name for host in parse_hosts(",".join(lines[:2]))] == ["llama-0-x", "llama-1"]


def test_the_exclude_list_folds_as_slurm_writes_it(make_report):
    """One expression after --exclude=, an empty line where nobody is bad; ports are no part of a Slurm name."""
    report = make_report(Finding("a.b", Verdict.FAIL, SIX[1:4], "m"), size=6)
    assert slurm_exclude(Material(report)) == "node[2-4]\n"
    assert slurm_exclude(Material(make_report(Finding("a.b", Verdict.PASS, SIX, "m"), size=6))) == "\n"
    node = NodeInfo(host="x:2222", address="x", reached=True)
    report = make_report(Finding("a.b", Verdict.FAIL, ("x:2222",), "m"), nodes={"x:2222": node})
    assert slurm_exclude(Material(report)) == "x\n"


def test_the_hostfile_can_be_given_to_hosts_again(make_report, tmp_path):
    """User, port and IPv6 addresses come back as they were."""
    hosts = ("u@node1:2222", "node2", "[fe80::1]:22", "fe80::2")
    report = make_report(
        Finding("a.b", Verdict.PASS, hosts, "m"),
        size=1,
        nodes={host: NodeInfo(host=host, address=host, reached=True) for host in hosts},
    )
    path = tmp_path / "nodes-good.txt"
    path.write_text(good_hostfile(Material(report)))
    read = parse_hosts(f"@{path}")
    assert [(host.user, host.address, host.port) for host in read] == [
        ("u", "node1", 2222),
        (None, "node2", None),
        (None, "fe80::1", 22),
        (None, "fe80::2", None),
    ]
    assert [line for line in bad_hostfile(Material(report)).splitlines() if not line.startswith("#")] == []


def test_the_best_nodes_are_chosen_and_the_others_told_why(make_report):
    """A node that warns is taken after those that do not; what all warn of sets none apart; HOSTS order stays."""
    report = make_report(
        Finding("a.b", Verdict.WARN, ("node1",), "slow disk"),
        Finding("a.c", Verdict.FAIL, ("node3",), "mtu: 1400"),
        Finding("a.d", Verdict.ERROR, ("node3",), "blocked by a.c", blocked_by="a.c"),
        Finding("a.b", Verdict.PASS, ("node2", "node3"), "m"),
    )
    one, two, three = (choice_of(report, need) for need in (1, 2, 3))
    assert (one.nodes, two.nodes, three.nodes) == (("node2",), ("node1", "node2"), ("node1", "node2"))
    assert one.left_out == {"node1": "spare, with warnings: a.b", "node3": "fail a.c: mtu: 1400"}
    assert choice_text(report, two) == "2 of 3 nodes chosen: node[1-2]\nleft out  node3: fail a.c: mtu: 1400\n"
    assert chosen_nodelist(report, two) == "node[1-2]\n"
    assert chosen_hostfile(report, one).splitlines()[1:] == ["node2"]


def test_a_whole_choice_is_written_for_launchers_and_for_sbatch_and_too_small_a_one_is_not(make_report):
    """A machine list, which is a hostfile, and what --nodelist takes; a job must not start on fewer by mistake."""
    report = make_report(Finding("a.c", Verdict.FAIL, ("node3",), "mtu: 1400"))
    whole, too_few = (
        files_of_choice(msgspec.structs.replace(report, choice=choice_of(report, need))) for need in (2, 3)
    )
    hostfile, nodelist = whole.values()
    assert (hostfile.splitlines()[1:], nodelist) == (["node1", "node2"], "node[1-2]\n")
    assert (too_few.keys(), set(too_few.values())) == (whole.keys(), {""})
    assert set(files_of_choice(report).values()) == {""}


def test_of_a_run_cut_short_nobody_is_chosen(make_report):
    """What was not measured is no spare."""
    report = make_report(Finding("a.b", Verdict.PASS, SIX[:3], "m"), finished=False, verdict=Verdict.ERROR, exit_code=3)
    assert choice_of(report, 1).nodes == ()
    assert set(choice_of(report, 1).left_out.values()) == {"the run did not measure it to the end"}
