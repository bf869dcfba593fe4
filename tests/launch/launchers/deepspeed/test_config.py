"""DeepSpeed's configuration and environment file."""

from __future__ import annotations

import pytest

from preflight.launch.rules.check import check_texts
from preflight.said.errors import UsageError
from tests.launch.samples import judged


def test_export_has_no_place_in_deepspeed_env():
    """DeepSpeed takes all before the = for the name."""
    (found,) = judged({".deepspeed_env": "export NCCL_DEBUG=INFO\n"})
    assert found.fix == "NCCL_DEBUG=INFO"


def test_broken_json_is_one_line_with_its_place():
    """A comma that is missing before line 3."""
    with pytest.raises(UsageError, match=r"ds\.json:3: not JSON"):
        check_texts({"ds.json": '{\n  "fp16": {}\n  "bf16": {}\n}'})


def test_broken_json_among_other_files_is_a_finding():
    """What else is wrong is told too."""
    found, _ = check_texts({"ds.json": "{,}", "a.sh": "torchrun --nproc_per_node=0 t.py\n"})
    assert {one.check for one in found} == {"launch.config_files_are_read", "launch.counts_are_positive"}
