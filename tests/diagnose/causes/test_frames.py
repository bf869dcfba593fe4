"""Do the frames of a traceback say whose failure its last line is?"""

from __future__ import annotations

import pytest

from preflight.diagnose import diagnose
from preflight.diagnose.causes import CAUSES
from preflight.diagnose.causes.frames import WITHIN, told

PACKAGES = "/venv/lib/python3.12/site-packages"
FULL = "RuntimeError: CUDA error: out of memory"


@pytest.mark.parametrize(
    ("frame", "last", "cause"),
    [
        ('torch/utils/data/_utils/pin_memory.py", line 58, in pin_memory', FULL, "host-memory-not-pinned"),
        ('torch/serialization.py", line 1381, in default_restore_location', FULL, "checkpoint-loads-onto-one-gpu"),
        ('torch/serialization.py", line 964, in save', FULL, "gpu-out-of-memory"),
        ('torch/nn/modules/linear.py", line 117, in forward', FULL, "gpu-out-of-memory"),
        ('torch/_inductor/codecache.py", line 9, in load', "OSError: [Errno 116] Stale file handle", "compile-cache"),
        ('torch/storage.py", line 9, in load', "OSError: [Errno 116] Stale file handle", "stale-file"),
    ],
)
def test_one_wording_of_several_failures_is_told_apart(frame, last, cause):
    """CUDA has one for both memories, Python one for all files."""
    head, own = "Traceback (most recent call last):", '  File "/job/train.py", line 3, in <module>'
    assert diagnose([head, own, f'  File "{PACKAGES}/{frame}', last]).causes[0].cause.name == cause


def test_every_row_names_causes_that_there_are():
    """In either place."""
    names = {cause.name for cause in CAUSES}
    assert {name for row in WITHIN for name in (row.cause, *row.instead_of)} <= names


def test_a_frame_without_a_function_is_none_of_a_function():
    """As Python prints a syntax error."""
    assert {row.cause for row in told("/x/triton/a.py", None)} == {"compile-cache"}
