"""GPUs that are not there: what torch, NCCL and NVML would give the ranks of a host, over its processor and Gloo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.lab.faults import Planted
    from tests.lab.host import LabHost

SITE = Path(__file__).parent / "site"


def environment(**described: Any) -> dict[str, str]:
    """Variables with which a Python of this machine has these GPUs (see `standin.Description`)."""
    return {"PYTHONPATH": str(SITE), "STAND_IN_CUDA": json.dumps(described)}


def site_text(plant: str = "", **described: Any) -> str:
    """A sitecustomize.py that gives every Python of a host these GPUs; `plant` runs in it, once torch is there."""
    hook = SITE / "sitecustomize.py"
    return (
        f"import os\nos.environ.setdefault('STAND_IN_CUDA', {json.dumps(described)!r})\n"
        f"os.environ.setdefault('STAND_IN_PLANT', {plant!r})\n"
        f"__file__ = {str(hook)!r}\nexec(compile(open(__file__).read(), __file__, 'exec'))\n"
    )


def plant(host: LabHost, words: str = "", **described: Any) -> Planted:
    """A lab host whose ranks have these GPUs."""
    from tests.lab import faults

    return faults.python_site(host, site_text(words, **described))
