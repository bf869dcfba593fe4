"""Does a check pass only where it has measured something?"""

from __future__ import annotations

import types
import typing
from typing import Any

import msgspec
import pytest

from preflight.facts.decode import SUBJECTS
from preflight.facts.value import Missing, Value
from preflight.judge.ledger.findings import Verdict
from preflight.judge.ledger.gates import OPEN
from preflight.testing import FakeRun, healthy
from preflight.testing.hardware import ABSENT
from tests.checks.samples import judge_all

# What a node has that has nothing: a kernel, its limits, a loopback and an Ethernet interface, ways to its peers.
KEPT = ("identity", "limits", "network", "peers", "ports", "vendor")
# And what is known of it although there is none: no program lists a GPU, no file is named, no clock is off.
KNOWN: dict[str, dict[str, Any]] = {
    "gpu": {"devices": (), "on_bus": ()},
    "environment": {"unread_files": ()},
    "rdma": {"without_driver": ()},
    "clock": {"offset_seconds": 0.0, "uncertainty_seconds": 0.001},
}
# Every check that may pass there, with what it has measured.
ALONE = {
    **dict.fromkeys(
        (
            "rehearse.all_ranks_meet_and_train",
            "rehearse.every_rank_comes_once",
            "rehearse.every_rank_is_given_the_same",
            "rehearse.every_script_comes_to_its_ranks",
            "rehearse.limits_hold_inside_the_job",
            "rehearse.no_node_keeps_the_others_waiting",
        ),
        "the rehearsal that the stand-in hands over",
    ),
    "environment.nothing_is_left_from_debugging": "the environment was read, and no such variable is in it",
    "kernel.node_is_at_its_best": "the CPUs that the job may use",
    "limits.devices_of_every_program_are_there": "the device files",
    "limits.enough_files_may_be_open": "the limit of open files",
    "limits.nothing_else_is_limited": "the other limits",
    "limits.nothing_is_left_behind": "what lies in /dev/shm",
    "limits.processes_may_be_started": "the limit of processes",
    "limits.shared_memory_is_enough": "the size of /dev/shm",
    "names.localhost_is_the_node_itself": "what localhost resolves to",
    "names.every_node_reaches_itself": "connections to its own addresses",
    "names.own_hostname_is_an_address_of_the_node": "what its own name resolves to",
    "ports.ephemeral_ports_are_enough": "the range of ports, and how many are in use",
    "reach.every_node_answers": "it has answered",
}
WITH_A_PEER = {
    "clock.clocks_agree": "both clocks",
    "clock.clocks_are_in_step": "both clocks",
    "kernel.memory_is_the_same_on_every_node": "the memory of both",
    "kernel.settings_are_the_same_on_every_node": "the CPUs that the job may use on both",
    "mesh.every_node_reaches_every_other_on_random_ports": "connections were made",
    "mesh.every_node_reaches_the_port_of_rank_0": "connections were made",
    "names.every_node_speaks_one_address_family": "the addresses of both",
    "names.full_names_of_peers_lead_to_them": "what both resolve",
    "names.hostnames_are_unique": "both names",
    "names.look_ups_are_answered": "what both resolve",
    "names.look_ups_are_fast": "what both resolve",
    "names.own_hostname_is_no_link_local_address": "what both resolve",
    "names.own_hostname_is_not_localhost": "both names",
    "names.own_hostname_is_not_loopback": "what both resolve",
    "names.peers_are_taken_for_themselves": "what both resolve",
    "names.peers_can_be_resolved": "what both resolve",
    "names.reverse_names_lead_back": "what both resolve",
    "names.short_hostnames_are_unique": "both names",
    "ports.no_proxy_takes_every_connection": "the listening ports of both",
    "network.default_routes_are_alike": "the routes of both: neither has one",
    "network.hardware_addresses_are_unique": "both addresses",
    "network.interfaces_of_nccl_have_subnets_of_their_own": "the interfaces of each",
    "network.mtu_is_the_same_on_every_node": "both MTUs",
    "network.nccl_starts_on_an_interface_of_the_peers": "the interfaces of each",
    "network.routes_to_peers_leave_by_the_training_interface": "the routes of both",
    "network.training_addresses_are_unique": "both addresses",
    "network.training_addresses_share_a_subnet": "both addresses",
    "network.training_interface_exists": "the interfaces of each",
    "network.training_interface_is_a_real_one": "the interfaces of each",
    "network.training_interfaces_have_the_same_rate": "both rates",
    "reach.no_machine_is_named_twice": "who both say they are",
    "software.companions_are_the_same_on_every_node": "Python and the kernel of both",
}


def empty(kind: type[Value]) -> Value:
    """A subject of which every fact is absent, and every list has nothing in it."""
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        is_union = typing.get_origin(field.type) in (types.UnionType, typing.Union)
        types_of = typing.get_args(field.type) if is_union else (field.type,)
        first = typing.get_origin(types_of[0]) or types_of[0]
        made = typing.get_args(types_of[0])[0] if first is typing.Annotated else first
        found[field.name] = ABSENT if Missing in types_of else made()
    return kind(**found)


def bare(count: int) -> FakeRun:
    """Nodes without GPU, RDMA, packages, variables, mounts, and any fact that a kernel may not report."""
    run = healthy(count)
    for subject in SUBJECTS.keys() - set(KEPT):
        run = run.with_subject(run.names, subject, empty(SUBJECTS[subject])).broken(
            run.names, subject, **KNOWN.get(subject, {})
        )
    return run


@pytest.mark.parametrize(("count", "measured"), [(1, ALONE), (2, {**ALONE, **WITH_A_PEER})], ids=["alone", "two"])
def test_what_was_not_measured_does_not_pass(count, measured):
    """On nodes that have nothing only those checks pass that looked at something all the same; the rest say why not."""
    findings = judge_all(bare(count))
    passed = {finding.check for finding in findings if finding.verdict is Verdict.PASS}
    assert passed == set(measured)
    assert all(finding.message for finding in findings if finding.verdict is Verdict.SKIP)


def test_a_node_without_gpu_and_variables_still_starts_the_jobs():
    """What is skipped gates nothing: with torch on them such nodes are benchmarked and trained on."""
    run = bare(2).with_subject(("node1", "node2"), "software", healthy(1).subjects["node1"]["software"])
    findings = judge_all(run)
    assert {finding.verdict for finding in findings} <= OPEN
    kinds = ("bench.", "training.")
    assert {finding.check for finding in findings if finding.check.startswith(kinds)} == {
        finding.check for finding in findings if finding.check.startswith(kinds) and not finding.blocked_by
    }
    ran = {finding.check for finding in findings if finding.verdict is Verdict.PASS}
    assert {"bench.all_reduce_is_correct", "training.the_loss_falls"} <= ran
