"""Which findings keep a job from starting, and on which nodes?"""

from __future__ import annotations

import dataclasses

import pytest

from preflight.judge.ledger.findings import Finding, Verdict
from preflight.judge.ledger.gates import (
    BENCH_GATES,
    GATES,
    MESH_GATES,
    OPEN_GATE,
    RULES,
    Gatekeeper,
    is_gate,
    is_pruned,
)
from preflight.run.suite.existing import checks_folder, existing

NODES = ("node1", "node2", "node3")


def found(check: str, *nodes: str, verdict: Verdict = Verdict.FAIL) -> Finding:
    """A finding of that check on these nodes."""
    return Finding(check, verdict, nodes, "does not hold")


def gate(kind: str, *findings: Finding, reached=NODES, is_pruning: bool = False):
    """The gate before a job of that kind: its words and the nodes that it names."""
    keeper = Gatekeeper(NODES, frozenset(reached), is_pruning=is_pruning)
    held = keeper.gate(kind, findings)
    return held.words, set(held.nodes)


OPEN = ("", set())
NAMES, INTERFACE = "names.own_hostname_is_an_address_of_the_node", "network.training_interface_exists"


def test_nothing_found_keeps_no_job_from_starting():
    """Nor does anything keep checks from being judged that start no job."""
    assert gate("bench") == gate("training") == gate("mesh") == OPEN
    assert gate("cluster", found(NAMES, *NODES)) == OPEN
    assert Gatekeeper(NODES, frozenset(NODES)).gate("bench", ()).words == OPEN_GATE.check == ""


@pytest.mark.parametrize(
    ("check", "kinds"),
    [
        ("launch.ranks_are_distinct", {"training"}),
        ("files.the_checkpoint_folder_is_shared", {"training"}),
        (NAMES, {"bench", "training"}),
        ("mesh.every_pair_connects", {"bench", "training"}),
        ("software.torch_is_installed", {"bench", "training"}),
        (INTERFACE, {"bench", "training"}),
        ("reach.no_machine_is_named_twice", {"mesh", "bench", "training"}),
        ("reach.every_node_answers", {"bench", "training"}),
        *(
            (check, {"bench", "training"})
            for check in (
                "gpu.devices_are_readable",
                "network.interface_variables_match_an_interface",
                "network.training_interface_is_a_real_one",
                "network.training_interface_is_fast_enough_for_gpus",
                "network.training_interfaces_have_the_same_rate",
                "network.training_addresses_are_unique",
                "network.training_addresses_share_a_subnet",
                "network.nccl_starts_on_an_interface_of_the_peers",
                "network.nccl_takes_no_more_interfaces_than_meant",
            )
        ),
        ("network.mtu_is_the_same", set()),
        ("limits.nofile", set()),
        ("clock.clocks_are_in_step", set()),
    ],
)
def test_a_check_keeps_those_jobs_from_starting_that_could_not_run(check, kinds):
    """What only makes a job slower, or breaks it later, is a finding of its own."""
    assert {kind for kind in ("mesh", "bench", "training") if gate(kind, found(check, "node2")) != OPEN} == kinds


def test_the_words_name_every_check_with_its_nodes_folded():
    """In the order of the checks, the nodes in that of HOSTS."""
    words, nodes = gate("bench", found(NAMES, "node3"), found(NAMES, "node1"), found(INTERFACE, "node2"))
    assert words == f"{NAMES} on node[1,3]; {INTERFACE} on node2"
    assert nodes == set(NODES)


@pytest.mark.parametrize(
    ("verdict", "is_open"),
    [(Verdict.FAIL, False), (Verdict.ERROR, False), (Verdict.WARN, True), (Verdict.PASS, True), (Verdict.SKIP, True)],
)
def test_a_gate_is_closed_by_what_does_not_hold_or_is_not_known(verdict, is_open):
    """A waived fail counts as a warning."""
    finding = found(NAMES, "node2", verdict=verdict)
    assert (gate("bench", finding) == OPEN) is is_open
    assert (gate("bench", dataclasses.replace(finding, waived=True)) == OPEN) is (is_open or verdict is Verdict.FAIL)


def test_a_node_that_did_not_answer_keeps_the_others_from_no_mesh():
    """What is wrong with it alone says nothing of their connections; one of both does."""
    twice = "reach.no_machine_is_named_twice"
    assert gate("mesh", found(twice, "node3"), reached=NODES[:2]) == OPEN
    assert gate("mesh", found(twice, "node2", "node3"), reached=NODES[:2])[1] == {"node2", "node3"}
    assert gate("bench", found(twice, "node3"), reached=NODES[:2])[1] == {"node3"}


def test_a_node_that_did_not_tell_who_it_is_keeps_the_others_from_no_mesh():
    """It may be one of them; nodes that are one machine connect to it, and nothing hangs. No job is started so."""
    unknown = found("reach.no_machine_is_named_twice", "node3", verdict=Verdict.ERROR)
    assert gate("mesh", unknown) == OPEN
    assert gate("bench", unknown)[1] == {"node3"}
    assert gate("mesh", dataclasses.replace(unknown, nodes=tuple(NODES)))[1] == set(NODES)


def test_an_error_that_another_check_caused_is_no_second_reason():
    """Its cause is named; where every reason is such an error, all of them are."""
    caused = dataclasses.replace(found(INTERFACE, "node3", verdict=Verdict.ERROR), blocked_by=NAMES)
    assert gate("bench", caused, found(NAMES, "node2")) == (f"{NAMES} on node2", {"node2"})
    assert gate("bench", caused) == (f"{INTERFACE} on node3", {"node3"})
    own = found(INTERFACE, "node1")
    assert gate("bench", caused, own)[1] == {"node1", "node3"}


def test_what_an_absent_node_is_blamed_for_hides_nothing_after_it():
    """The findings that follow are looked at."""
    twice = "reach.no_machine_is_named_twice"
    assert gate("mesh", found(twice, "node3"), found(twice, "node2"), reached=NODES[:2])[1] == {"node2"}


def test_pruning_is_asked_for_and_leaves_out_what_only_another_check_caused():
    """Of the two jobs that can do with fewer nodes; a warning and a consequence leave no node out."""
    slow = found("network.mtu_is_the_same", "node2")
    assert not is_pruned("bench", is_pruning=False)
    for kind in ("bench", "training"):
        assert gate(kind, slow, is_pruning=True)[1] == {"node2"}
        assert gate(kind, dataclasses.replace(slow, verdict=Verdict.WARN), is_pruning=True) == OPEN
        assert gate(kind, dataclasses.replace(slow, blocked_by=NAMES), is_pruning=True) == OPEN


def test_pruning_names_every_bad_node_but_never_all():
    """A node with a fail that closes no gate is left out too; what all nodes share tells none apart."""
    slow, shared = found("network.mtu_is_the_same", "node2"), found("limits.nofile", *NODES)
    assert gate("bench", found(NAMES, "node3"), slow, shared)[1] == {"node3"}
    assert gate("bench", found(NAMES, "node3"), slow, shared, is_pruning=True)[1] == {"node2", "node3"}
    assert gate("mesh", slow, is_pruning=True) == OPEN


def test_where_hardly_a_node_is_good_the_gate_alone_decides():
    """The job would have started without --prune: it must not be pruned to nothing."""
    slow = [found("network.mtu_is_the_same", "node1"), found("limits.nofile", "node2")]
    assert gate("bench", found(NAMES, "node3"), *slow, is_pruning=True)[1] == {"node3"}
    assert gate("bench", *slow, found("files.room", "node3"), is_pruning=True) == OPEN


CHECKS = existing([str(checks_folder())], checks_folder())


@pytest.mark.parametrize("word", sorted({*MESH_GATES, *BENCH_GATES}))
def test_every_gate_is_a_check_or_the_subject_of_some(word):
    """A check that was renamed would open its gate without a word."""
    assert CHECKS
    found = [check for check in CHECKS if (check.startswith(word) if word.endswith(".") else check == word)]
    assert found, f"no check is called {word}"


def test_a_gate_is_a_whole_id_or_a_whole_subject():
    """Nothing gates by the beginning of its name, and no check has the subject of the rules on launch files."""
    assert is_gate("bench", "network.training_interface_exists")
    assert not is_gate("bench", "network.training_interface_exists_no_more")
    assert is_gate("bench", "names.anything")
    assert not is_gate("bench", "names_of_ours.anything")
    assert {kind for kind in GATES if is_gate(kind, "launch.any_rule")} == {"training"}
    assert not [check for check in CHECKS if check.startswith(RULES)]
