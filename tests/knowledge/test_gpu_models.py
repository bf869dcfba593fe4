"""Are the rows of GPUs and of the CUDA that has code for them sound?"""

from __future__ import annotations

import re

from preflight.knowledge import gpu_models


def test_every_row_can_be_met():
    """Each pattern is one, and each names a version of CUDA."""
    for model in gpu_models.MODELS:
        assert re.compile(model.pattern)
        assert re.fullmatch(r"(>=|<)\d+(\.\d+)?", model.cuda)
