"""Whose gradient is wrong? Peers that agree are believed."""

from __future__ import annotations

import pytest
from hypothesis import given

from preflight.job.ranks.training.fingerprint import distance
from preflight.job.ranks.training.first_step import AGREEMENT, check_first_step, consensus
from preflight.job.ranks.training.model import build_model
from preflight.job.ranks.training.trainee import Trainee
from tests.job.ranks.training.test_fingerprint import fingerprints

WITHIN = AGREEMENT["fp32"]


@given(fingerprints, fingerprints)
def test_peers_that_agree_are_believed(right, wrong):
    """Two peers that agree are the reference, whatever the rank itself says."""
    found, agreed = consensus(wrong, [right, right], within=WITHIN)
    assert found == right
    assert agreed == (distance(wrong, right) < WITHIN and distance(right, wrong) < WITHIN)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_peers_that_disagree_the_one_is_believed_that_the_rank_confirms(order):
    """One peer that computes wrongly does not accuse a healthy rank."""
    right, wrong = [1.0, 2.0, 3.0, 4.0], [1.5, 2.5, 2.0, 4.0]
    peers = [(right, wrong)[which] for which in order]
    assert consensus(right, peers, within=WITHIN) == (right, False)


def test_a_rank_alone_is_its_own_reference():
    """Without peers there is nothing to disagree with."""
    assert consensus([1.0] * 4, [], within=WITHIN) == ([1.0] * 4, True)


@pytest.mark.parametrize(("factor", "is_right"), [(1.0, True), (1.5, False)])
def test_a_gradient_that_is_scaled_before_the_exchange_shows(data, factor, is_right):
    """Of one rank alone too, against its own plain copy."""
    start = build_model(data.shape)
    trainee = Trainee(start, settings=data.settings, place=data.place)
    trainee.model.position.weight.register_hook(lambda gradient: gradient * factor)
    trainee.wire.keeps_what_is_sent = True
    trainee.step(data.batch(0, 0))
    found = check_first_step(trainee, start, data=data)
    assert (found["gradient_error"] < WITHIN) == is_right
    assert (found["parameters_error"] < WITHIN) == is_right
