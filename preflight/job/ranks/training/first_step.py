"""Are every rank's gradient on the first step, and the step itself, what one process computes?"""

from __future__ import annotations

import statistics
from collections import Counter
from typing import TYPE_CHECKING, Any

from preflight.job.ranks.training.fingerprint import PROJECTIONS, distance, fingerprint, whole
from preflight.job.ranks.training.model import loss_of
from preflight.job.ranks.training.place import from_every_rank

if TYPE_CHECKING:
    import torch
    from torch import nn

    from preflight.job.ranks.training.data import Data
    from preflight.job.ranks.training.settings import Settings
    from preflight.job.ranks.training.trainee import Trainee

# How far two computations of one gradient may be apart, relative to it. fp32 rounds at 2^-24 and ends at about 1e-6,
# also between kinds of processors; bf16 rounds at 2^-8, and a batch in other pieces is rounded elsewhere.
AGREEMENT = {"fp32": 1e-3, "bf16": 5e-2}


def check_first_step(trainee: Trainee, copy: nn.Module, *, data: Data) -> dict[str, Any]:
    """How far this rank's gradient is from its peers' for the same samples, and its parameters from one process'.

    The gradient is caught on its way into the first all-reduce, after whatever this site hung on the model, and
    compared with what ranks r-1 and r-2 compute for r's samples on a plain copy of the model. Once gradients are
    summed every rank holds the same, also when one rank spoilt them: equal parameters prove nothing about that.
    """
    import torch

    place, settings, seed = data.place, data.settings, data.settings.seed
    parameters, sent = list(trainee.model.parameters()), trainee.wire.sent

    # Rank r computes for r, r+1 and r+2, so r's own gradient is known to r, r-1 and r-2.
    reach = min(3, place.ranks)
    fingerprints: list[float] = []
    if sent:
        fingerprints += fingerprint([sent[id(parameter)] for parameter in parameters], seed=seed, moved=place.moved)
    for ahead in range(reach):
        tokens = data.batch((place.rank + ahead) % place.ranks, 0)
        fingerprints += fingerprint(gradients_of(copy, tokens, settings.precision), seed=seed, moved=place.moved)
    length = len(parameters) * PROJECTIONS
    if not sent:  # with sharded gradients, what a single rank contributed cannot be seen
        fingerprints = fingerprints[:length] + fingerprints
    everyone = from_every_rank(fingerprints, place=place)

    def computed_by(behind: int) -> list[float]:
        """What the rank that far before this one computed, on its plain copy, for this one's samples."""
        return everyone[(place.rank - behind) % place.ranks][(1 + behind) * length : (2 + behind) * length]

    peers = [computed_by(behind) for behind in range(1, reach)]
    reference, agreed = consensus(computed_by(0), peers, within=AGREEMENT[settings.precision])

    starts = [parameter.detach() for parameter in copy.parameters()]
    moved = fingerprint([whole(now) - start for now, start in zip(parameters, starts)], seed=seed, moved=place.moved)
    if place.ranks <= settings.reference_world:
        together = torch.cat([data.batch(rank, 0) for rank in range(place.ranks)])
        gradients = gradients_of(copy, together, settings.precision)
        place.moved()
        ends = [first_adamw_step(*pair, settings) for pair in zip(starts, gradients)]
        wanted = fingerprint([end - start for end, start in zip(ends, starts)], seed=seed, moved=place.moved)
    else:  # too many samples for one process: the movement that most ranks made, which are equal to the last bit
        moves = Counter(tuple(one) for one in from_every_rank(moved, place=place))
        wanted = list(moves.most_common(1)[0][0])
    return {
        "gradient_error": distance(fingerprints[:length], reference),
        "reference_agreed": agreed,
        # Measured on the step, not on the parameters: they are so much larger that a wrong step would hardly show.
        "parameters_error": distance(moved, wanted),
    }


def gradients_of(model: nn.Module, tokens: torch.Tensor, precision: str) -> list[torch.Tensor]:
    """The gradients of one batch, on a model that no one else holds."""
    import torch

    loss = loss_of(model, tokens, precision)
    return [gradient.detach() for gradient in torch.autograd.grad(loss, list(model.parameters()))]


def first_adamw_step(parameter: torch.Tensor, gradient: torch.Tensor, settings: Settings) -> torch.Tensor:
    """AdamW's first step from its formula, without torch.optim: nothing hung on the optimizer acts here.

    After one step the bias-corrected moments are g and g * g.
    """
    decayed = parameter * (1 - settings.learning_rate * settings.weight_decay)
    return decayed - settings.learning_rate * gradient / (gradient.abs() + settings.epsilon)


def consensus(own: list[float], peers: list[list[float]], *, within: float) -> tuple[list[float], bool]:
    """The gradient of a rank's samples as others computed it, and whether all who computed it agree.

    Peers that agree are believed, whatever the rank itself computes. Where they do not, its own plain copy has the
    casting vote: the computation nearest to all the others, together, is taken.
    """
    everyone = [*peers, own]
    agreed = all(distance(left, right) < within for left in everyone for right in everyone)
    if peers and all(distance(peer, peers[0]) < within for peer in peers):
        return peers[0], agreed
    return min(everyone, key=lambda one: statistics.median(distance(other, one) for other in everyone)), agreed
