"""Does a device measure itself, and does a product that differs count? On the processor: the code is the GPU's."""

from __future__ import annotations

import sys
import types

import pytest

from preflight.job.ranks import devices

QUICK = {"seconds": 0.05}
# Acts on the last product of that rank: the timed ones are written into a given matrix.
SPOIL = """
import torch
whole = torch.mm
def mm(left, right, *, out):
    whole(left, right, out=out)
    out[3, 5] += 1
torch.mm = mm
"""
# One product in the middle, and not the last.
SPOIL_ONE = SPOIL.replace("out[3, 5] += 1", "count.append(1)\n    if len(count) == 3: out[3, 5] += 1").replace(
    "whole = torch.mm", "whole, count = torch.mm, []"
)
LEAVE = "import os, torch; torch.zeros = lambda *words, **named: os._exit(7)"


@pytest.fixture(scope="module")
def played(forked_scenarios):
    """Every scenario of this file, played once."""
    return forked_scenarios(
        "devices",
        {
            "whole": {"ranks": 2, "settings": QUICK},
            "short": {"ranks": 1, "settings": {**QUICK, "figures": ["matmul"]}},
            "spoilt": {"ranks": 1, "settings": QUICK, "plants": {"0": SPOIL}},
            "now and then": {"ranks": 1, "settings": QUICK, "plants": {"0": SPOIL_ONE}},
            "leaves": {"ranks": 1, "settings": QUICK, "plants": {"0": LEAVE}},
            "no gpu": {"ranks": 1, "settings": {"device": "cuda"}},
        },
    )


def told(scenario, kind="device"):
    return [record for record in scenario["records"] if record["record"] == kind]


def test_a_processor_tells_its_matrices_and_its_memory(played):
    """Labelled as a processor, with the type of its numbers; there is no way to a device."""
    records = told(played["whole"])
    assert len(records) == 2
    for record in records:
        assert (record["device"], record["model"], record["matmul_dtype"]) == ("cpu", "cpu", "float32")
        assert record["matmul_tflops_per_s"] > 0
        assert record["memory_gbytes_per_s"] > 0
        assert record["wrong"] == 0
        assert "to_device_gbytes_per_s" not in record
    assert played["whole"]["codes"] == [0, 0]


def test_only_what_was_asked_for_is_measured(played):
    """Beside a slow result the matrices are enough."""
    (record,) = told(played["short"])
    assert "memory_gbytes_per_s" not in record


def test_an_element_that_differs_is_counted(played):
    """The same matrices give the same product: each is verified, not only the last."""
    (record,) = told(played["spoilt"])
    assert record["wrong"] == 1
    assert record["wrong_products"] == record["products"] > 3
    assert told(played["now and then"])[0]["wrong_products"] == 1
    assert told(played["now and then"])[0]["wrong"] == 0


def test_a_device_that_ends_or_is_not_there_gives_no_figure(played):
    """One dies without a word, the other says why."""
    assert played["leaves"]["codes"] == [7]
    assert told(played["leaves"]) == []
    assert played["no gpu"]["codes"] == [1]
    (failed,) = told(played["no gpu"], "failed")
    assert failed["error"]


@pytest.mark.parametrize(
    ("free", "whole", "is_short"),
    [(80 << 30, 80 << 30, False), (8 << 30, 80 << 30, False), ((8 << 30) - 1, 8 << 30, True)],
)
def test_a_gpu_with_too_little_free_memory_says_how_much_it_has(monkeypatch, free, whole, is_short):
    """Instead of figures that would make it, and what uses it, run out of memory; a processor has none of its own."""
    cuda = types.SimpleNamespace(
        mem_get_info=lambda _device: (free, whole),
        get_device_name=lambda _device: "NVIDIA X",
        get_device_properties=lambda _device: None,
    )
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    told = devices.without_room(types.SimpleNamespace(type="cuda"))
    wanted = {"free_bytes": free, "memory_bytes": whole, "wanted_bytes": 8 << 30}
    assert told == (wanted if is_short else {})
    assert devices.without_room(types.SimpleNamespace(type="cpu")) == {}
    if is_short:
        record = devices.measured(types.SimpleNamespace(type="cuda"), ("matmul",), seconds=0.1)
        assert record == {"record": "no_device", "device": record["device"], "model": "NVIDIA X", **wanted}
