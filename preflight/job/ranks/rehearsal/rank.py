"""How does a rank of the user's own start live as the reference trainee? It says where it is, then meets and trains.

Started by the hook (`preflight.job.ranks.rehearsal.hook`), with the environment, folder, limits and devices that the
user's program would have had.
"""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

from preflight.job.ranks.rank.life import ERROR_CHARACTERS, OF_A_JOB
from preflight.job.ranks.rank.records import Records
from preflight.job.ranks.rank.world import load_torch
from preflight.job.ranks.rehearsal.place import arrived, lacks, loaded, meeting_place
from preflight.job.ranks.train import work

# What only the program itself can know where a scheduler numbers the ranks: where they meet.
FALLBACKS = {"MASTER_ADDR": "address", "MASTER_PORT": "port"}


def take_numbers(names: list[str], fallback: dict[str, str]) -> list[str]:
    """Set what torch reads from what the scheduler numbered this rank with -> the variables that we had to choose."""
    if names[0] in ("RANK", "LOCAL_RANK"):
        return []
    for name, held in zip(("RANK", "WORLD_SIZE", "LOCAL_RANK"), names):
        os.environ.setdefault(name, os.environ.get(held, "0"))
    chosen = [name for name in FALLBACKS if name not in os.environ]
    os.environ.update({name: fallback[FALLBACKS[name]] for name in chosen})
    return chosen


def backend_of(asked: str) -> str:
    """The backend of this job: with auto NCCL where there is a GPU."""
    import torch

    if asked != "auto":
        return asked
    return "nccl" if torch.cuda.device_count() else "gloo"


def write_only_in(scratch: str) -> None:
    """Have all temporary files in this folder, and none anywhere once it is removed, which may be before we are ended.

    Python would fall back to /tmp, and torch would make its cache there. A folder that is reached by its descriptor can
    be written to as long as it is there, and never be made again.
    """
    held = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY)
    os.environ["TMPDIR"] = tempfile.tempdir = scratch
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", f"/proc/{os.getpid()}/fd/{held}/torchinductor")


def rehearse(given: dict[str, Any], records: Records) -> None:
    """Say where this rank is, and be a rank of the reference training."""
    here = arrived(given["argv"], given["names"], given.get("network", ""))
    records.send({**here, "began": given["started"]})
    missing_program = lacks(*given["program"])
    if missing_program:
        raise RuntimeError(missing_program)
    if not given["names"] or given["names"][0] == "LOCAL_RANK" or not os.environ[given["names"][0]].isdigit():
        raise RuntimeError("nothing numbers this process: it would train alone")
    chosen = take_numbers(given["names"], given["fallback"])
    missing = [name for name in OF_A_JOB if not os.environ.get(name)]
    if missing:
        raise RuntimeError(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set in this rank")
    records.send({"record": "numbered", "chosen": chosen, "rank": int(os.environ["RANK"])})
    records.send(meeting_place())
    write_only_in(given["scratch"])
    load_torch(records)
    records.send(loaded())
    work({**given["training"], "backend": backend_of(given["backend"])}, records)


def main() -> int:
    """The life of one rank: its result is in the records."""
    number = os.environ.get("RANK", "")
    records = Records(rank=int(number) if number.isdigit() else -1)
    try:
        rehearse(json.loads(os.environ["PREFLIGHT_SETTINGS"]), records)
        records.stage("done")
        records.send({"record": "done"})
    except Exception as error:  # whatever it is, the controller must learn where this rank stopped
        why = f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS]
        records.send({"record": "failed", "stage": records.at, "error": why})
        return 1
    return 0
