"""Does a real DistributedDataParallel job learn, and learn the same on every rank?"""

import pytest

from preflight.errors import BlameMany


def test_every_rank_joined_where_planned(training):
    """Every rank of the reference training joined, once, on the node it was meant for.

    A launch that gives a rank twice, or on another node, trains on part of the data or waits for ever.
    Fix: give every node its own node rank, and the same number of nodes and ranks (`preflight run --dry-run`).
    """
    misplaced = training.misplaced()
    if misplaced:
        raise BlameMany(misplaced)


def test_first_step_gradients_are_right(training, settings):
    """On the first step, the gradient that each rank computed is the one its peers compute for the same data.

    A rank with a wrong gradient spoils the sum on every rank alike: no comparison after the all-reduce can name it.
    Fix: leave the nodes named out; test their GPUs (`dcgmi diag -r 3`) and memory, compare their software.
    """
    tolerance = settings.training.gradient_tolerance
    wrong = training.wrong_gradients(tolerance=tolerance)
    if wrong:
        worst = max(rank.gradient_error for rank in wrong)
        told = f"the gradient of {training.told(wrong)} before the all-reduce is off by {worst:.3g} (relative)"
        raise training.blame(wrong, f"{told}; wanted at most {tolerance:g}")


def test_parameters_are_the_same_on_every_rank(training, settings):
    """After the last step every rank holds bit-identical parameters.

    Ranks that drift apart train different models: the loss looks right on rank 0, the checkpoint is worthless.
    Fix: leave the nodes named out; test their memory and network (`ethtool -S <interface>`), compare their software.
    """
    odd = training.odd_parameters(tolerance=settings.training.parameters_tolerance)
    if odd:
        told = f"the parameters of {training.told(odd)} differ from those of the other ranks"
        raise training.blame(odd, f"{told}; wanted bit-identical parameters on {len(training.ranks())} ranks")


def test_ddp_equals_one_process(training, settings):
    """One step over all ranks gives the parameters that one process gets from the whole batch.

    Ranks that agree with each other may still all be wrong: a gradient averaged twice, data that some ranks share.
    Fix: `preflight train` with fewer nodes; compare torch and NCCL versions with those that work.
    """
    tolerance = settings.training.parameters_tolerance
    training.needs_right_gradients(tolerance=settings.training.gradient_tolerance)
    training.needs_same_parameters(tolerance=tolerance)
    off = [rank for rank in training.ranks() if not rank.parameters_error <= tolerance]
    if off:
        worst = max(rank.parameters_error for rank in off)
        told = f"the parameters of {training.told(off)} are {worst:.3g} (relative) from one process on the whole batch"
        raise training.blame(off, f"{told}; wanted at most {tolerance:g}")


def test_the_loss_falls(training, settings):
    """The loss of the reference training falls.

    The smallest job that learns nothing here says that a large one will not learn either.
    Fix: read the earlier findings of this run first; then `preflight train` on one node at a time.
    """
    training.needs_right_gradients(tolerance=settings.training.gradient_tolerance)
    training.needs_same_parameters(tolerance=settings.training.parameters_tolerance)
    losses, share = training.losses(), settings.training.loss_drop_fraction
    wanted = losses[0] * (1.0 - share)
    if not losses[-1] <= wanted or not all(rank.finite for rank in training.ranks()):
        told = f"loss: {losses[0]:.4g} at the first step, {losses[-1]:.4g} at step {len(losses)}"
        raise training.blame(training.ranks(), f"{told}; wanted at most {wanted:.4g}")


@pytest.mark.advisory
def test_no_rank_straggles(training, settings):
    """No rank needs much longer for its own part of a step than the others do.

    All ranks wait for the slowest one at every step: a throttled GPU or a busy core slows the whole job.
    Fix: `nvidia-smi -q -d PERFORMANCE,CLOCK` or `top` on the nodes named; look for throttling and other programs.
    """
    ratio = settings.training.straggler_ratio
    slow, middle = training.stragglers(factor=ratio)
    if slow:
        seconds = training.compute_seconds()
        times = ", ".join(f"{seconds[rank.rank]:.4g} s" for rank in slow)
        told = f"{training.told(slow)}: {times} for a step without communication; the median is {middle:.4g} s"
        raise training.blame(slow, f"{told}, wanted at most {ratio:g} x that")
