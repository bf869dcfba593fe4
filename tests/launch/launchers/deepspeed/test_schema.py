"""Are values and keys told that DeepSpeed refuses or leaves out, and no others?"""

from __future__ import annotations

import json

import pytest

from preflight.launch.rules.check import check_texts

GOOD = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}


def told(config):
    """Rule and verdict of every finding about a configuration."""
    found, _ = check_texts({"ds.json": json.dumps(config, indent=1)})
    return [(one.check.removeprefix("launch."), str(one.verdict)) for one in found]


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"zero_optimization": {"stage": 4}}, [("values_are_allowed", "fail")]),
        ({"zero_optimization": {"stage": "auto"}}, []),
        ({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "gpu"}}}, [("values_are_allowed", "fail")]),
        ({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}, []),
        ({"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}}}, [("values_are_allowed", "fail")]),
        ({"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/nvme"}}}, []),
        ({"zero_optimization": {"stage": 2, "overlap_comn": True}}, [("keys_are_known", "fail")]),
        ({"fp16": {"enabled": True}}, [("values_are_allowed", "fail")]),
        ({"fp16": {"enabled": "auto"}}, []),
        ({"gradient_cliping": 1.0}, [("keys_are_known", "warn")]),
        ({"my_notes": "x"}, []),
    ],
)
def test_a_configuration_is_judged_as_deepspeed_reads_it(change, wanted):
    """A key of somebody's own is no slip."""
    assert told({**GOOD, **change}) == wanted
