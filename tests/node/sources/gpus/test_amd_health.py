"""Tests of preflight.node.sources.amd_health: both shapes of amd-smi's JSON, and what becomes of each loss."""

import dataclasses
import json

import msgspec
import pytest

from preflight.facts.subjects.gpu import Gpus, Links
from preflight.facts.value import Missing
from preflight.node.sources import amd
from preflight.node.sources.gpus import amd_health
from tests.twins import amd as twin
from tests.twins.platforms import BY_NAME

GPUS = BY_NAME["mi300x"].gpus


def node(folder, *, tool="", **changed):
    """An amd-smi that prints what a healthy node's does, but for some commands; the facts that follow."""
    outputs = twin.outputs(dataclasses.replace(GPUS, tool=tool), 1)
    program = folder / "amd-smi"
    for words, text in outputs.items():
        (folder / words.split()[1]).write_text(changed.get(words.split()[1], text))
    program.write_text(f'#!/bin/sh\ncat "{folder}/$1"\n')
    program.chmod(0o755)
    facts = amd.collect(str(folder))
    return msgspec.convert(facts, type=Gpus, strict=True)


@pytest.mark.parametrize("tool", ["rocm6", "rocm7"])
def test_a_healthy_gpu_is_told_whole(tool, tmp_path):
    """Errors, limits, temperatures, links, firmware and users, as a list and under "gpu_data"."""
    gpu = node(tmp_path, tool=tool).devices[3]
    status = gpu.status
    assert (status.uncorrected_errors, status.deferred_errors, status.has_ecc) == (0, 0, True)
    assert (status.power_limit_watts, status.temperature_celsius, status.temperature_limit_celsius) == (750, 43, 100)
    assert (status.slowdowns, status.performance_level, status.partition) == ((), "AUTO", "SPX/NPS1")
    assert (gpu.links, gpu.processes, status.memory_used_mib) == (Links(7, 0), 0, 284)
    assert dict(status.firmware)["PM"] == "00.85.112.00"


@pytest.mark.parametrize("lost", ["metric", "xgmi", "firmware", "process"])
@pytest.mark.parametrize(
    "text", ["", "[{", '[{"gpu": 0, "ecc": {"tot', "ERROR: driver not initialized\n", "Permission denied\n", "[]"]
)
def test_a_command_that_tells_nothing_is_missing_and_not_zero(lost, text, tmp_path):
    """No error counted, no link down and no program running would look well."""
    gpu = node(tmp_path, **{lost: text}).devices[0]
    told = {
        "metric": gpu.status.deferred_errors,
        "xgmi": gpu.links,
        "firmware": gpu.status.firmware,
        "process": gpu.processes,
    }
    assert isinstance(told[lost], Missing)
    assert told[lost].kind == "failed"
    assert not any(isinstance(value, Missing) for name, value in told.items() if name != lost)


def test_a_command_that_an_older_amd_smi_lacks_is_absent(tmp_path):
    """As xgmi --link-status before ROCm 6.4."""
    gpu = node(tmp_path, xgmi="usage: amd-smi xgmi [-h]\nunrecognized arguments: --link-status\n").devices[0]
    assert gpu.links.kind == "absent"


@pytest.mark.parametrize(
    ("value", "wanted"), [(12, 12.0), ("12 W", 12.0), ({"value": 12.5, "unit": "W"}, 12.5), ("N/A", None), (None, None)]
)
def test_a_figure_has_several_forms(value, wanted):
    """ROCm 6 writes some figures bare, and text beside others."""
    found = amd_health.figure(value, "it")
    assert found == wanted if wanted is not None else found["kind"] == "absent"


@pytest.mark.parametrize(
    "shape", [lambda told: told, lambda told: {"gpu_data": told}, lambda told: {"a": told, "b": []}]
)
def test_records_are_found_in_every_shape(shape):
    """A list, a list by a name, and several documents one after the other."""
    text = f"WARNING: no group render\n{json.dumps(shape([{'gpu': 0}]))}\n{json.dumps([{'gpu': 1}])}\n"
    assert amd_health.records_in(text) == [{"gpu": 0}, {"gpu": 1}]
    assert amd_health.records_in("no JSON at all")["kind"] == "failed"
