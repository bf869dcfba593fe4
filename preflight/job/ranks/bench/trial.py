"""How long does one operation take at one size, and is its result correct?"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from preflight.job.ranks.bench.operations import Collective, Layout, finish
from preflight.job.ranks.bench.pattern import levels_of, periods_of_tile, tile

if TYPE_CHECKING:
    import torch

    from preflight.job.ranks.bench.groups import Place


class Trial:
    """The buffers of one collective at one size, refilled and checked outside the clock on every run.

    Several operations in flight need buffers each: a sum in place can be taken only once.
    """

    def __init__(
        self, collective: Collective, *, size_bytes: int, place: Place, dtype: str = "float32", depth: int = 1
    ) -> None:
        import torch

        self.collective, self.place = collective, place
        self.sends = collective.sends(place.rank, place.ranks)
        self.receives = collective.receives(place.rank, place.ranks)
        kind = getattr(torch, dtype)
        segments = max(
            len(layout(r, place.ranks)) for layout in (collective.sends, collective.receives) for r in (0, 1)
        )
        segment = max(1, size_bytes // kind.itemsize // segments)
        self.bytes = segment * segments * kind.itemsize
        self.buffers = []
        for _ in range(depth):
            send = torch.empty(segment * len(self.sends), dtype=kind, device=place.device)
            receive = send if collective.in_place else send.new_empty(segment * len(self.receives))
            self.buffers.append((send, receive))
        levels = levels_of(dtype, ranks=place.ranks if collective.sums else 1)
        layouts = {*self.sends, *self.receives}
        periods = periods_of_tile(len(layouts), segment=segment, itemsize=kind.itemsize, device=place.device.type)
        self.tiles = {keys: tile(keys, device=place.device, levels=levels).to(kind).repeat(periods) for keys in layouts}
        self.wrong = 0

    def once(self) -> float:
        """Seconds of one operation on this rank; their mean where several are in flight."""
        for send, _ in self.buffers:
            for _ in self._pieces(send, self.sends, fill=True):
                pass
        seconds = self._timed_cuda() if self.place.device.type == "cuda" else self._timed_cpu()
        for _, receive in self.buffers:
            self.wrong += int(sum(self._pieces(receive, self.receives, fill=False)))
        return seconds / len(self.buffers)

    def _run(self) -> None:
        place, is_async = self.place, len(self.buffers) > 1
        works = [self.collective.run(send, receive, place, is_async) for send, receive in self.buffers]
        for work in works if is_async else ():
            finish(work)

    def _timed_cpu(self) -> float:
        import torch.distributed as dist

        dist.barrier(group=self.place.group)
        started = time.perf_counter()
        self._run()
        return time.perf_counter() - started

    def _timed_cuda(self) -> float:
        import torch
        import torch.distributed as dist

        event: Any = torch.cuda.Event
        started, ended = event(enable_timing=True), event(enable_timing=True)
        # A barrier on the stream: no way through the host.
        dist.all_reduce(torch.zeros(1, device=self.place.device), group=self.place.group)
        started.record()
        self._run()
        ended.record()
        ended.synchronize()
        return float(started.elapsed_time(ended)) / 1e3

    def _pieces(self, buffer: torch.Tensor, layout: Layout, *, fill: bool) -> Any:
        """Fill the buffer, or give the wrong elements of each piece: tile by tile, so no second buffer is needed."""
        if not layout:
            return
        for segment, keys in zip(buffer.chunk(len(layout)), layout):
            whole = self.tiles[keys]
            for start in range(0, len(segment), len(whole)):
                piece = segment[start : start + len(whole)]
                wanted = whole[: len(piece)]
                yield piece.copy_(wanted) if fill else piece.ne(wanted).count_nonzero()
