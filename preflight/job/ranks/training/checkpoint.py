"""Can every rank read a checkpoint that was written once, and go on from it to the same losses?"""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from typing import IO, TYPE_CHECKING, Any, Callable

from preflight.job.ranks.rank.world import advanced_with, all_through
from preflight.job.ranks.training.again import distance_of_losses
from preflight.job.ranks.training.place import from_every_rank
from preflight.job.ranks.training.trainee import Trainee

if TYPE_CHECKING:
    import torch
    from torch import nn

    from preflight.job.ranks.rank.records import Records
    from preflight.job.ranks.training.data import Data
    from preflight.job.ranks.training.place import Place
    from preflight.job.ranks.training.settings import Settings
    from preflight.job.ranks.training.trainee import Step

PIECE_BYTES = 16 << 20
PATIENCE_SECONDS = 5.0  # for a file that another rank wrote: shared file systems show it late


class Checkpoint:
    """One file, written after half of the steps."""

    def __init__(self, *, settings: Settings, place: Place, records: Records) -> None:
        self.place, self.records = place, records
        self._key = f"checkpoint/{place.life}"
        self.step = settings.steps // 2
        self.is_shared = bool(settings.checkpoint_dir)
        folder = settings.checkpoint_dir or (os.environ.get("TMPDIR", "") if settings.drill else "")
        self.path = os.path.join(folder, f"{settings.checkpoint_name}.pt") if folder else ""
        self.error = ""
        self.bits = 0.0  # of the file's digest, as many as a float holds
        self.remover: subprocess.Popen[bytes] | None = None

    def write(self, trainee: Trainee) -> None:
        """Write the state of model and optimizer: rank 0 for all, or one rank a node where the folder is its own."""
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

        # Offloaded, the whole state comes together on rank 0 only.
        options = StateDictOptions(full_state_dict=True, cpu_offload=self.is_shared)
        model, optimizer = get_state_dict(trainee.engine, trainee.optimizer, options=options)
        if self.place.rank == (0 if self.is_shared else self.place.first_here):
            self._write_alone(model, optimizer)
        ranks, key = self.place.ranks, self._key
        all_through(self.place.store, ranks=ranks, key=key, records=self.records)

    def _write_alone(self, model: Any, optimizer: Any) -> None:
        import torch

        self.records.doing = f"writing {self.path}"
        if self.is_shared:
            # Removes the file once this rank closes the pipe, or is gone, however it went.
            words = 'trap "" TERM; cat; rm -f -- "$1" "$1.part"'
            self.remover = subprocess.Popen(["sh", "-c", words, "sh", self.path], stdin=subprocess.PIPE)
        try:
            with open(self.path + ".part", "wb") as file:
                written: Any = Synced(file, self._moved)
                torch.save({"model": model, "optimizer": optimizer, "step": self.step}, written)
                written.sync()
            os.replace(self.path + ".part", self.path)
            self.bits = self._digest()
        except (OSError, RuntimeError) as error:
            self.error = f"{type(error).__name__}: {error}"[:300]
        self.records.doing = ""

    def _moved(self) -> None:
        advanced_with(self.place.store, key=self._key, records=self.records)

    def read_into(self, trainee: Trainee) -> int:
        """Put the file's state into a model and its optimizer; gives the number of the step to go on with."""
        import torch
        from torch.distributed.checkpoint.state_dict import StateDictOptions, set_state_dict

        found = torch.load(self.path, map_location="cpu", weights_only=True)
        set_state_dict(
            trainee.engine,
            trainee.optimizer,
            model_state_dict=found["model"],
            optim_state_dict=found["optimizer"],
            options=StateDictOptions(full_state_dict=True),
        )
        return int(found["step"])

    def find(self) -> str:
        """Why this rank cannot read what rank 0 wrote, or nothing."""
        wanted = from_every_rank([self.bits], place=self.place)[0][0]
        if not wanted:
            return self.error  # of rank 0 alone: the others have nothing to read
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                if self._digest() == wanted:
                    return ""
                why = f"{self.path} is not the file that rank 0 wrote"
            except OSError as error:
                why = f"{self.path}: {error.strerror}"
            if time.monotonic() > end:
                return why
            time.sleep(0.2)

    def remove(self) -> None:
        """Leave nothing in the user's folder, once every rank is done with it."""
        from_every_rank([0.0], place=self.place)
        if self.remover:
            self.remover.communicate()

    def _digest(self) -> float:
        found = hashlib.sha256()
        with open(self.path, "rb") as file:
            while piece := file.read(PIECE_BYTES):
                found.update(piece)
                self._moved()
        return float(int.from_bytes(found.digest()[:6], "big") + 1)


class Synced:
    """A file that is written piece by piece to the disk, so that the last fsync does not take all the time."""

    def __init__(self, file: IO[bytes], moved: Callable[[], None]) -> None:
        self.file, self.moved = file, moved
        self.waiting_bytes = 0

    def write(self, data: Any) -> int:
        """Write to the file, and to the disk once there is a piece."""
        view = memoryview(data).cast("B")
        for start in range(0, len(view), PIECE_BYTES):
            self.waiting_bytes += self.file.write(view[start : start + PIECE_BYTES])
            if self.waiting_bytes >= PIECE_BYTES:
                self.sync()
        return len(view)

    def flush(self) -> None:
        """As torch.save asks for."""
        self.file.flush()

    def sync(self) -> None:
        """Have all of it on the disk."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.waiting_bytes = 0
        self.moved()


def check_resuming(
    start: nn.Module, checkpoint: Checkpoint, batches: list[torch.Tensor], steps: list[Step], *, data: Data
) -> dict[str, Any]:
    """Read the checkpoint on every rank and train its second half again: the losses must be the same."""
    error = checkpoint.find()
    found: dict[str, Any] = {"checkpoint_error": error}
    errors = from_every_rank([float(bool(error))], place=data.place)
    if not any(one[0] for one in errors):
        resumed = Trainee(start, settings=data.settings, place=data.place)
        begin = checkpoint.read_into(resumed)
        found["resume_error"] = distance_of_losses(resumed, batches[begin:], steps[begin:])
    checkpoint.remove()
    return found
