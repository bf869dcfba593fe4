"""Can what is trained be learnt, and is it the same with activations computed again?"""

from __future__ import annotations

import math

import pytest
import torch

from preflight.job.ranks.training.model import SHAPES, build_model, loss_of


def test_an_untrained_model_knows_nothing():
    """Its loss is about the logarithm of the vocabulary."""
    torch.manual_seed(1)
    shape = SHAPES["tiny"]
    tokens = torch.randint(shape.vocabulary, (2, shape.length + 1))
    for precision in ("fp32", "bf16"):
        assert loss_of(build_model(shape), tokens, precision).item() == pytest.approx(math.log(128), abs=0.5)


def test_activations_computed_again_give_the_same_gradients():
    """To the bit."""
    torch.manual_seed(1)
    shape = SHAPES["tiny"]
    model, tokens = build_model(shape), torch.randint(shape.vocabulary, (2, shape.length + 1))
    found = []
    for keeps in (True, False):
        model.keeps_activations = keeps
        found.append(torch.autograd.grad(loss_of(model, tokens, "fp32"), list(model.parameters())))
    assert all(torch.equal(kept, again) for kept, again in zip(*found, strict=True))
