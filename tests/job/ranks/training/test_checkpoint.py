"""Does a checkpoint take the training on from where it was, and leave nothing?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from preflight.job.ranks.rank.records import Records
from preflight.job.ranks.training.checkpoint import Checkpoint, Synced, check_resuming
from preflight.job.ranks.training.model import build_model
from preflight.job.ranks.training.trainee import Trainee


@pytest.mark.parametrize("folder", ["", "nowhere"])
def test_training_goes_on_from_a_checkpoint_to_the_same_losses(data, tmp_path, folder):
    """A folder that cannot be written is told, and nothing is resumed; nothing is left in one that can."""
    settings = replace(data.settings, steps=4, checkpoint_dir=str(tmp_path / folder))
    data.settings = settings
    start, batches = build_model(data.shape), data.load()[0]
    trainee = Trainee(start, settings=settings, place=data.place)
    checkpoint = Checkpoint(settings=settings, place=data.place, records=Records(rank=0))
    steps = []
    for number, batch in enumerate(batches, start=1):
        steps.append(trainee.timed_step(batch))
        if number == checkpoint.step:
            checkpoint.write(trainee)
    found = check_resuming(start, checkpoint, batches, steps, data=data)
    if folder:
        assert "nowhere" in found["checkpoint_error"]
        assert "resume_error" not in found
    else:
        assert found == {"checkpoint_error": "", "resume_error": 0.0}
    assert list(tmp_path.iterdir()) == []


def test_what_is_synced_is_in_the_file_for_others_to_read(tmp_path):
    """What the program itself still holds back is no part of a checkpoint."""
    moved = []
    with open(tmp_path / "kept", "wb", buffering=1 << 20) as file:
        synced = Synced(file, lambda: moved.append(1))
        assert synced.write(b"12345") == 5
        assert (tmp_path / "kept").read_bytes() == b""
        synced.sync()
        assert (tmp_path / "kept").read_bytes() == b"12345"
    assert moved == [1]
