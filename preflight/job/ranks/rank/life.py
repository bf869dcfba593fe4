"""How does a rank live? It needs its place in the job, does its work, and ends with a reason where that fails."""

from __future__ import annotations

import gc
import json
import os
import sys
from typing import Any, Callable

from preflight.job.ranks.rank.records import Records

ERROR_CHARACTERS = 4000  # the last lines of NCCL's error hold the cause
OF_A_JOB = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def live(work: Callable[[dict[str, Any], Records], None], *, needs: tuple[str, ...] = OF_A_JOB) -> int:
    """Do the work of one rank with the settings in PREFLIGHT_SETTINGS; the exit code: its result is in the records.

    Ends the process where a variable is missing that a launcher would have set.
    """
    missing = [name for name in needs if name not in os.environ]
    if missing:
        sys.exit(f"{', '.join(missing)} not set: start it with one of the lines at the top of this file")
    records = Records(rank=int(os.environ["RANK"]))
    gc.disable()  # importing torch and DDP makes no garbage, and looking for it takes a fifth of that time
    try:
        work(json.loads(os.environ.get("PREFLIGHT_SETTINGS", "{}")), records)
        records.stage("done")
        records.send({"record": "done"})
    except Exception as error:  # whatever the error is, the controller must learn where this rank stopped
        why = f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS]
        records.send({"record": "failed", "stage": records.at, "error": why})
        return 1
    return 0
