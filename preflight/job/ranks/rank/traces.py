"""What is left of a rank that fails or hangs? NCCL's log, torch's flight recorder, and the reason."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from preflight.job.ranks.rank.limits import allowed

if TYPE_CHECKING:
    from preflight.job.ranks.rank.records import Records

WAITING = ("torch", "preflight", "__main__")  # whose calls wait for other ranks


def keep_what_is_written(rank: int, *, subsystems: str = "INIT,NET") -> str:
    """Send NCCL's log and torch's flight recorder to our files, kept if the job fails; gives the log's path.

    Else the recorder's file lies in the user's cache, over that of the user's own job; and before it ends a process the
    watchdog sleeps four times the milliseconds below, so that every rank can write its own.
    """
    folder = os.environ.get("TMPDIR", "/tmp")
    trace = os.path.join(folder, "preflight-trace-rank")  # torch appends the number
    log = os.path.join(folder, f"preflight-nccl-rank{rank}")
    os.environ |= {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": subsystems,
        "NCCL_DEBUG_FILE": log,
        "TORCH_FR_DUMP_TEMP_FILE": trace,
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": trace,
        "TORCH_FR_BUFFER_SIZE": "200",
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "200",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "500",
    }
    return log


def watch(records: Records, *, seconds: float, least: float, ranks: int) -> None:
    """End this rank, with its reason, once it has stood still for so long: a call into NCCL or CUDA never gives up.

    So long, and as much longer as what is planned at its stage takes, but `least` seconds at any stage: torch's own
    watchdog comes first where there is one. None looks at the making of a communicator. Other ranks are not to blame
    where it stands in what it does alone.
    """

    def look() -> None:
        while True:
            limit = max(least, allowed(records.at, records.planned, seconds=seconds))
            if records.at != "done" and time.monotonic() - records.moved >= limit:
                break
            time.sleep(min(0.5, seconds / 10))
        why = f"TimeoutError: Timed out waiting {limit:.0f} s at stage {records.at}: another rank does not answer"
        doing = records.doing or stands_in() or ("a call into CUDA or NCCL hangs" if ranks == 1 else "")
        if doing:
            why = f"TimeoutError: nothing moved for {limit:.0f} s at stage {records.at}: {doing}"
        records.send({"record": "failed", "stage": records.at, "error": why})
        dump_trace(records.rank)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


def stands_in() -> str:
    """The call in which the main thread stands; "" where that may be one that waits for other ranks."""
    frame = sys._current_frames()[threading.main_thread().ident or 0]  # noqa: SLF001 - there is no public name
    if str(frame.f_globals.get("__name__", "")).split(".")[0] in WAITING:
        return ""
    return f"it stands in {frame.f_code.co_name} ({frame.f_code.co_filename}:{frame.f_lineno})"


def dump_trace(rank: int) -> None:
    """Write what torch's flight recorder holds, as its watchdog would; older ones have none."""
    import torch

    c10d: Any = getattr(torch._C, "_distributed_c10d", None)  # noqa: SLF001 - torch gives it no public name
    dump = getattr(c10d, "_dump_nccl_trace", None)
    prefix = os.environ.get("TORCH_FR_DUMP_TEMP_FILE", "")
    if dump is None or not prefix or os.path.exists(f"{prefix}{rank}"):
        return
    with open(f"{prefix}{rank}", "wb") as file:
        file.write(dump())
