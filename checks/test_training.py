"""Does a real DistributedDataParallel job learn, and learn the same on every rank?"""

import pytest

from preflight.said import said
from preflight.said.errors import Blame, BlameMany


def test_every_rank_joined_where_planned(training):
    """Every rank of the reference training joined, once, on the node and device it was meant for, and stayed.

    A launch that gives a rank twice, or on another node, trains on part of the data or waits forever.
    Fix: give every node its own node rank, and the same number of nodes and ranks (`preflight run --dry-run`).
    """
    misplaced = training.misplaced()
    if misplaced:
        raise BlameMany(misplaced)


def test_data_shards_are_disjoint_and_complete(training):
    """Every sample is used by exactly one rank, the one that DistributedSampler should deal it to.

    Ranks that see the same samples train on less data than they seem to; nothing else looks wrong.
    Fix: give DistributedSampler the same seed everywhere, and this rank and world size; look for a patched torch.
    """
    wrong = training.wrong_samples()
    if wrong:
        shared = sum(rank.samples_shared for rank in wrong)
        message = said(
            "{ranks_text}: samples that are not theirs; {shared} are used by another rank too",
            training.ranks_text(wrong),
            shared,
        )
        missing = training.result.samples_missing
        raise training.blame(wrong, said("{message}, {missing} by none; wanted each by one", message, missing))
    missing = training.result.samples_missing
    assert missing == 0, said("{missing} samples were used by no rank; wanted each by one", missing)


def test_gradients_are_finite(training):
    """Every gradient and every loss is a finite number, at every step and on every rank.

    One NaN goes into the sum, and after one step every rank has nothing else.
    Fix: leave the nodes named out; test their GPUs (`dcgmi diag -r 3`) and memory, compare their software.
    """
    first = training.infinite()
    if first:
        raise training.blame(
            first,
            said(
                "{ranks_text}: NaN or infinite values, first seen there; wanted finite numbers",
                training.ranks_text(first),
            ),
        )


def test_first_step_gradients_are_right(training, settings):
    """On the first step, the gradient that each rank computed is the one its peers compute for the same data.

    A rank with a wrong gradient spoils the sum on every rank: no comparison after the all-reduce can name it.
    Fix: leave the nodes named out; test their GPUs (`dcgmi diag -r 3`) and memory, compare their software.
    """
    training.needs_whole_gradients()
    training.needs_sound_data()
    tolerance = training.limits(settings.training).gradient_tolerance
    wrong = training.wrong_gradients(tolerance=tolerance)
    if wrong:
        worst = max(rank.gradient_error for rank in wrong)
        message = said(
            "the gradient of {ranks_text} before the all-reduce is off by {worst:.3g} (relative)",
            training.ranks_text(wrong),
            worst,
        )
        raise training.blame(wrong, said("{message}; wanted at most {tolerance:g}", message, tolerance))


def test_parameters_are_the_same_on_every_rank(training, settings):
    """After the last step every rank holds bit-identical parameters.

    Ranks that drift apart train different models: the loss looks right on rank 0, the checkpoint is worthless.
    Fix: leave the nodes named out; test their memory and network (`ethtool -S <interface>`), compare their software.
    """
    odd = training.odd_parameters(tolerance=training.limits(settings.training).parameters_tolerance)
    if odd:
        message = said("the parameters of {ranks_text} differ from those of the other ranks", training.ranks_text(odd))
        raise training.blame(
            odd, said("{message}; wanted bit-identical parameters on {ranks} ranks", message, len(training.ranks()))
        )


def test_optimizer_state_is_the_same_on_every_rank(training, settings):
    """After the last step the optimizer of every rank holds bit-identical moments.

    Moments that drift apart do not show in the parameters at once, and make a checkpoint worthless later.
    Fix: leave the nodes named out; test their memory (`edac-util -v`), compare their software.
    """
    odd = training.odd_optimizers()
    training.needs_same_parameters(tolerance=training.limits(settings.training).parameters_tolerance)
    if odd:
        message = said(
            "the optimizer state of {ranks_text} differs from that of the other ranks", training.ranks_text(odd)
        )
        raise training.blame(
            odd, said("{message}; wanted bit-identical moments on {ranks} ranks", message, len(training.ranks()))
        )


def test_ddp_equals_one_process(training, settings):
    """One step over all ranks gives the parameters that one process gets from the whole batch.

    Ranks that agree with each other may still all be wrong: a gradient averaged twice, data that some ranks share.
    Fix: `preflight train` with fewer nodes; compare torch and NCCL versions with those that work.
    """
    tolerance = training.limits(settings.training).parameters_tolerance
    training.needs_sound_training(settings.training)
    off = [rank for rank in training.ranks() if not rank.parameters_error <= tolerance]
    if off:
        worst = max(rank.parameters_error for rank in off)
        ranks = training.ranks_text(off)
        message = said(
            "the parameters of {ranks} differ by {worst:.3g} (relative) from those of one process on the whole batch",
            ranks,
            worst,
        )
        raise training.blame(off, said("{message}; wanted at most {tolerance:g}", message, tolerance))


def test_the_loss_falls(training, settings):
    """The loss of the reference training falls.

    The smallest job that learns nothing here says that a large one will not learn either.
    Fix: read the earlier findings of this run first; then `preflight train` on one node at a time.
    """
    training.needs_sound_training(settings.training)
    losses, share = training.losses(), settings.training.loss_drop_fraction
    wanted = losses[0] * (1.0 - share)
    if not losses[-1] <= wanted or not all(rank.finite for rank in training.ranks()):
        message = said(
            "loss: {losses:.4g} at the first step, {losses2:.4g} at step {losses3}", losses[0], losses[-1], len(losses)
        )
        raise training.blame(training.ranks(), said("{message}; wanted at most {wanted:.4g}", message, wanted))


def test_the_same_seed_gives_the_same_losses_again(training, settings):
    """The first steps, trained once more from the same start, give the same losses on every rank.

    A run that cannot be repeated cannot be debugged; numbers that change by themselves come from broken memory.
    Fix: test memory and GPU of the nodes named; `CUBLAS_WORKSPACE_CONFIG=:4096:8` where kernels add in any order.
    """
    training.needs_sound_training(settings.training)
    tolerance = training.limits(settings.training).replay_tolerance
    off, worst = training.beyond(lambda rank: rank.replay_error, tolerance=tolerance)
    if off:
        message = said(
            "trained again, the losses of {ranks_text} differ by {worst:.3g} (relative)",
            training.ranks_text(off),
            worst,
        )
        raise training.blame(off, said("{message}; wanted at most {tolerance:g}", message, tolerance))


def test_accumulation_equals_the_large_batch(training, settings):
    """Gradients of a batch given in two halves (no_sync, then the exchange) are those of the whole batch.

    Who trains with gradient accumulation relies on this; a wrong sum looks like a bad learning rate.
    Fix: compare the torch versions with a node that works; look for what patches DistributedDataParallel.
    """
    if training.result.strategy == "zero2":
        pytest.skip("strategy zero2: DeepSpeed accumulates by itself")
    training.needs_sound_training(settings.training)
    tolerance = training.limits(settings.training).gradient_tolerance
    off, worst = training.beyond(lambda rank: rank.accumulation_error, tolerance=tolerance)
    if off:
        ranks = training.ranks_text(off)
        message = said(
            "the accumulated gradient of {ranks} differs by {worst:.3g} (relative) from that of the large batch",
            ranks,
            worst,
        )
        raise training.blame(off, said("{message}; wanted at most {tolerance:g}", message, tolerance))


def test_checkpoint_is_read_by_every_rank(training):
    """The checkpoint that rank 0 writes to --checkpoint-dir is read, as written, by every rank.

    With a folder that is not shared, a job restarts after its first failure and finds nothing.
    Fix: mount the same file system at the same path on the nodes named (`findmnt -T <folder>`).
    """
    training.needs_checkpoint()
    blind = training.blind()
    if blind:
        raise training.blame(
            blind,
            said(
                "{ranks_text}: checkpoint not read: {checkpoint_error}",
                training.ranks_text(blind),
                blind[0].checkpoint_error,
            ),
        )


def test_training_resumes_to_the_same_losses(training, settings):
    """From the checkpoint every rank trains on to the losses it had without the interruption.

    A checkpoint that lacks optimizer state, or is read wrongly, costs days before anyone notices.
    Fix: compare the torch versions (`preflight facts`); test the file system for silent corruption.
    """
    training.needs_checkpoint()
    training.needs_sound_training(settings.training)
    training.needs_readable_checkpoint()
    tolerance = training.limits(settings.training).replay_tolerance
    off, worst = training.beyond(lambda rank: rank.resume_error, tolerance=tolerance)
    if off:
        message = said(
            "resumed from the checkpoint, the losses of {ranks_text} differ by {worst:.3g} (relative)",
            training.ranks_text(off),
            worst,
        )
        raise training.blame(off, said("{message}; wanted at most {tolerance:g}", message, tolerance))


def test_a_killed_rank_is_noticed_and_named(training):
    """With --drill: when a rank is killed, all others end within the time limit, and its node is named.

    A job that hangs after one rank's death holds all its GPUs until someone looks.
    Fix: set TORCH_NCCL_ASYNC_ERROR_HANDLING=1 and a timeout for init_process_group; read logs/.
    """
    drill = training.drill()
    message = said("rank {rank} on {node} was killed", drill.rank, drill.node)
    if drill.named != (drill.node,):
        raise Blame(
            said("{message}; blamed: {named}", message, ", ".join(drill.named) or "no node"), nodes=[drill.node]
        )
    ended, limit = drill.seconds_to_end, drill.limit_seconds
    assert ended <= limit, said(
        "{message}; the others ended after {ended:.3g} s; wanted at most {limit:g} s", message, ended, limit
    )


def test_torchrun_restarts_from_the_checkpoint(training, settings):
    """With --drill: torchrun starts a killed job again, and it goes on from its checkpoint to the same losses.

    Long jobs depend on this: a node fails every few days, and nobody is there at night.
    Fix: `torchrun --max-restarts=1` by hand with the same program; read logs/ for what the second start said.
    """
    drill = training.drill()
    assert not drill.not_restarted, said("not restarted:  {not_restarted}", drill.not_restarted)
    losses, wanted = drill.restarted_losses, drill.wanted_losses
    tolerance = training.limits(settings.training).replay_tolerance
    same = len(losses) == len(wanted) and all(
        abs(a - b) <= tolerance * abs(b) for a, b in zip(losses, wanted, strict=True)
    )
    assert same, said("losses after the restart: {losses}; wanted {wanted}", losses, wanted)


@pytest.mark.advisory
def test_no_rank_straggles(training, settings):
    """No rank needs much longer for its own part of a step than the others do, and no quota of CPU stops it.

    All ranks wait for the slowest one at every step: a throttled GPU, a busy core or a quota slows the whole job.
    Fix: `nvidia-smi -q -d PERFORMANCE,CLOCK` or `top` on the nodes named; look for throttling and other programs; for
    a quota `cat /sys/fs/cgroup/cpu.max`, `resources.limits.cpu` of the pod, `--cpus` of the container.
    """
    limits, ratio = settings.training, settings.training.straggler_ratio
    stopped = training.stopped_by_quota(share=limits.stopped_share)
    if stopped:
        message = said(
            "{quota_text}, wanted fewer than {stopped_share:.0%} of them",
            training.quota_text(stopped),
            limits.stopped_share,
        )
        raise training.blame(stopped, message)
    slow = training.stragglers(above=ratio, up_to=limits.straggler_fail_ratio, min_seconds=limits.straggler_min_seconds)
    if slow:
        raise training.blame(
            slow, said("{stragglers_text}, wanted at most {ratio:g} x that", training.stragglers_text(slow), ratio)
        )


def test_no_rank_halves_the_speed(training, settings):
    """No rank needs twice as long for its own part of a step as the others do.

    All ranks wait for the slowest one at every step: the whole job would run at half of its speed, or less.
    Fix: `nvidia-smi -q -d PERFORMANCE,CLOCK` or `top`, and the CPU quota (`cat /sys/fs/cgroup/cpu.max`) on the nodes.
    """
    ratio = settings.training.straggler_fail_ratio
    slow = training.stragglers(above=ratio, min_seconds=settings.training.straggler_min_seconds)
    if slow:
        raise training.blame(
            slow, said("{stragglers_text}, wanted at most {ratio:g} x that", training.stragglers_text(slow), ratio)
        )
