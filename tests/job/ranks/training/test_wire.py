"""Is what a rank puts into the exchange seen, and what is no number noticed?"""

from __future__ import annotations

import pytest
import torch

from preflight.job.ranks.training.model import build_model
from preflight.job.ranks.training.trainee import Trainee


@pytest.mark.parametrize("spoilt", [False, True])
def test_what_goes_into_the_exchange_is_kept_and_looked_at(data, spoilt):
    """Of every parameter; the second step starts from nothing."""
    trainee = Trainee(build_model(data.shape), settings=data.settings, place=data.place)
    factor = float("nan") if spoilt else 1.0
    trainee.model.head[1].weight.register_hook(lambda gradient: gradient * factor)
    trainee.wire.keeps_what_is_sent = True
    step = trainee.timed_step(data.batch(0, 0))
    assert step.finite != spoilt
    assert 0 <= step.communication_seconds <= step.seconds
    assert len(trainee.wire.sent) == len(list(trainee.model.parameters()))
    assert all(isinstance(gradient, torch.Tensor) for gradient in trainee.wire.sent.values())
    assert trainee.wire.read_step() == (0.0, True)
