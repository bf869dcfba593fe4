"""What does a rank put into the exchange of gradients, and how long does it wait for it?"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from preflight.job.ranks.training.place import Place


class Wire:
    """Stands where DDP hands a bucket of gradients to the all-reduce: sees what goes in, times what comes out."""

    def __init__(self, *, place: Place, group: Any) -> None:
        self.place, self.group = place, group
        self.keeps_what_is_sent = False
        self.sent: dict[int, torch.Tensor] = {}  # by id of the parameter
        self.extremes: list[torch.Tensor] = []  # NaN where a gradient is
        self.begun: list[Any] = []  # moments; one for each bucket of the step
        self.ended: list[Any] = []

    def hook(self, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        """The mean over ranks, as DDP's own hook computes it."""
        import torch.distributed as dist

        buffer = bucket.buffer()
        if self.keeps_what_is_sent:
            self.sent.update(
                (id(parameter), gradient.detach().clone())
                for parameter, gradient in zip(bucket.parameters(), bucket.gradients())
            )
        self.extremes += buffer.aminmax()  # isfinite() would cost a hundred times as much
        self.begun.append(self._now())
        work = dist.all_reduce(buffer.div_(dist.get_world_size(self.group)), group=self.group, async_op=True)

        def reduced(future: torch.futures.Future[Any]) -> torch.Tensor:
            self.ended.append(self._now())
            total: torch.Tensor = future.value()[0]
            return total

        mean: torch.futures.Future[torch.Tensor] = work.get_future().then(reduced)
        return mean

    def _now(self) -> Any:
        """A moment: on a GPU one of the stream that runs the work, since the host is far ahead of it."""
        if self.place.device.type == "cpu":
            return time.perf_counter()
        import torch

        event: Any = torch.cuda.Event
        event = event(enable_timing=True)
        event.record()
        return event

    def read_step(self) -> tuple[float, bool]:
        """Seconds that the step waited for the exchange, and whether all that went into it was finite.

        Buckets leave while the backward pass goes on; it is over with the last of them, and what follows is waiting.
        """
        seconds = 0.0
        if self.begun and self.place.device.type == "cpu":
            seconds = max(self.ended) - self.begun[-1]
        elif self.begun:
            seconds = max(self.begun[-1].elapsed_time(ended) for ended in self.ended) / 1e3
        finite = all(math.isfinite(one) for one in self.extremes)
        self.begun, self.ended, self.extremes = [], [], []
        return max(seconds, 0.0), finite
