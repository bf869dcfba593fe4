"""Does the training know what the controller asks of it?"""

from __future__ import annotations

import dataclasses
import json

import pytest

from preflight.job.ranks.training.settings import Settings


def test_settings_go_over_the_wire():
    """As JSON, and back to the same."""
    asked = Settings(strategy="fsdp", accumulate=2, drill=True)
    assert Settings(**json.loads(json.dumps(dataclasses.asdict(asked)))) == asked


def test_a_mistyped_setting_is_refused():
    """With its name."""
    with pytest.raises(TypeError, match="'precison'"):
        Settings(precison="bf16")
