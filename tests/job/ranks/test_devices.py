"""Does a device measure itself, and does a product that differs count? On the processor: the code is the GPU's."""

from __future__ import annotations

import os
import sys
import types

import pytest
import torch

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
# The other way to the product gives another one.
SPOIL_WAY = """
import torch
whole = torch.cat
def cat(parts, dim):
    made = whole(parts, dim=dim)
    made[3, 5] += 1
    return made
torch.cat = cat
"""
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
            "two ways": {"ranks": 1, "settings": QUICK, "plants": {"0": SPOIL_WAY}},
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
        assert (record["wrong"], record["paths_differ"]) == (0, 0)
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


def test_two_ways_to_one_product_are_compared(played):
    """Whoever gives another one by another way is not exact, though it always gives the same."""
    (record,) = told(played["two ways"])
    assert (record["paths_differ"], record["wrong"], record["wrong_products"]) == (1, 0, 0)


@pytest.mark.parametrize(("most", "dtype"), [(devices.MOST, torch.bfloat16), (devices.MOST_OF_HALF, torch.float16)])
def test_products_are_exact_in_any_order(most, dtype):
    """The largest sum of a row's products is a whole number that 32 bits hold, and so is every part of it."""
    inner = devices.SIDE["cuda"]
    assert inner * most**2 <= 1 << 24
    assert torch.tensor([float(number) for number in range(-most, most + 1)]).to(dtype).tolist() == [
        *range(-most, most + 1)
    ]
    left = torch.randint(-most, most + 1, (2, inner)).float()
    right = torch.randint(-most, most + 1, (inner, 2)).float()
    order = torch.randperm(inner)
    wanted = left.double() @ right.double()
    assert (left[:, order] @ right[order]).double().equal(wanted)


@pytest.mark.parametrize("before", [None, "1"])
def test_no_sum_is_kept_in_16_bits_and_no_kernel_is_looked_for(monkeypatch, before):
    """And what the user's own torch was told stands again afterwards."""
    monkeypatch.delenv(devices.TUNES, raising=False)
    if before is not None:
        monkeypatch.setenv(devices.TUNES, before)
    options = torch.backends.cuda.matmul

    def kept():
        return [getattr(options, name) for name in devices.IN_16_BITS]

    with devices.exact_sums():
        assert (kept(), os.environ[devices.TUNES]) == ([False, False], "0")
    assert (kept(), os.environ.get(devices.TUNES)) == ([True, True], before)


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
