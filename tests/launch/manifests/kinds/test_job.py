"""Indexed Job."""

from __future__ import annotations

import pytest

from tests.launch.samples import INDEXED, failed, rules


def test_a_right_one_is_silent():
    """Pods that know their index, behind a headless service."""
    assert rules({"job.yaml": INDEXED}) == []


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("parallelism: 2", "parallelism: 1", "gang_is_the_whole_job"),
        ("  completionMode: Indexed\n", "", "pods_know_their_rank"),
        ("      subdomain: train\n", "", "headless_service_is_there"),
        ("clusterIP: None", "type: ClusterIP", "headless_service_is_there"),
        ("value: train-0.train", "value: localhost", "master_address_leads_to_rank_0"),
        ("--nnodes=2 ", "", "nodes_are_counted_right"),
    ],
)
def test_one_thing_broken_fails(old, new, rule):
    """Each with its rule."""
    assert old in INDEXED
    assert rule in failed({"job.yaml": INDEXED.replace(old, new, 1)})


def test_an_indexed_job_has_completions():
    """As many pods run at once as it has completions."""
    none = INDEXED.replace("  completions: 2\n", "")
    assert rules({"job.yaml": none}) == ["manifest_is_accepted"]
    fewer = INDEXED.replace("completions: 2", "completions: 1")
    assert "nodes_are_counted_right" in rules({"job.yaml": fewer})


def test_an_interface_that_the_command_exports_is_the_pods():
    """As one in `env` is."""
    exported = INDEXED.replace("torchrun", "export NCCL_SOCKET_IFNAME=bond0; torchrun")
    assert "bond0" in exported
    assert rules({"job.yaml": exported}) == ["interfaces_are_the_pods"]
    assert rules({"job.yaml": exported.replace("bond0", "eth0")}) == []
