"""Tests of preflight.node.sources.amd."""

import json
import os

import msgspec
import pytest

from preflight.facts.subjects.gpu import Gpus
from preflight.facts.value import Missing
from preflight.node.sources import amd
from preflight.node.subjects import gpu

AMD_SMI = [
    {
        "gpu": number,
        "asic": {"market_name": "AMD Instinct MI300X", "asic_serial": f"0x{number:016x}"},
        "bus": {"bdf": f"0000:{number:02X}:00.0"},
        "vram": {"size": {"value": 196592, "unit": "MB"}},
        "driver": {"name": "amdgpu", "version": "6.8.5"},
    }
    for number in (0, 1)
]
ROCM_SMI = {
    "card1": {"Unique ID": "0x2", "PCI Bus": "0000:0D:00.0", "Card Series": "AMD Instinct MI300X"},
    "card0": {
        "Unique ID": "0x1",
        "PCI Bus": "0000:0C:00.0",
        "Card Series": "AMD Instinct MI300X",
        "VRAM Total Memory (B)": "206141652992",
    },
    "system": {"Driver version": "6.7.0"},
}


def decoded(facts):
    return msgspec.convert(facts, type=Gpus, strict=True)


@pytest.mark.parametrize("told", [AMD_SMI, {"gpu_data": AMD_SMI}], ids=["list", "gpu_data"])
def test_amd_smi_is_read_in_both_its_shapes(told):
    """Warnings may stand before the document."""
    facts = decoded(amd.parse_amd_smi("WARNING: user is not in group render\n" + json.dumps(told)))
    assert [(device.name, device.memory_mib, device.bus_id) for device in facts.devices] == [
        ("AMD Instinct MI300X", 196592, "0000:00:00.0"),
        ("AMD Instinct MI300X", 196592, "0000:01:00.0"),
    ]
    assert facts.driver == "6.8.5"


def test_rocm_smi_is_read_in_the_order_of_its_cards():
    """A card without a figure of its memory is still told."""
    facts = decoded(amd.parse_rocm_smi(json.dumps(ROCM_SMI)))
    assert [device.uuid for device in facts.devices] == ["0x1", "0x2"]
    assert facts.devices[0].memory_mib == 196592
    assert isinstance(facts.devices[1].memory_mib, Missing)


@pytest.mark.parametrize("cut", [0, 20, 200])
def test_a_document_that_is_cut_short_is_refused(cut):
    """Too few cards would look like lost ones."""
    with pytest.raises(ValueError, match="JSON"):
        amd.parse_amd_smi(json.dumps(AMD_SMI)[:cut])


@pytest.mark.parametrize("answer", ["echo []", "echo {}", "echo '[{}]'", "echo broken; exit 1", "echo '[1, 2]'"])
def test_a_tool_that_fails_is_a_missing_list(tmp_path, answer):
    """An odd answer is a failure and not a crash; an empty list says that there is none."""
    (tmp_path / "amd-smi").write_text(f"#!/bin/sh\n{answer}\n")
    (tmp_path / "amd-smi").chmod(0o755)
    devices = decoded(amd.collect(os.fspath(tmp_path))).devices
    assert devices == () if answer == "echo []" else isinstance(devices, Missing)


def test_no_tool_is_started_without_the_driver(tmp_path):
    """Only where AMD's compute driver is loaded are its tools looked for, and then their absence is a failure."""
    here = os.fspath(tmp_path)
    arguments = {"environment": [["--env", {"PATH": ""}]], "proc": here, "sysfs": here}
    assert decoded(gpu.collect(arguments)).devices == ()
    (tmp_path / "class/kfd").mkdir(parents=True)
    assert decoded(gpu.collect(arguments)).devices == ()  # loaded for the processor's own GPU
    place = tmp_path / "bus/pci/devices/0000:07:00.0"
    place.mkdir(parents=True)
    (place / "vendor").write_text("0x1002\n")
    (place / "class").write_text("0x120000\n")
    devices = decoded(gpu.collect(arguments)).devices
    assert devices == Missing("AMD's driver is loaded, but neither amd-smi nor rocm-smi was found")


def test_the_drivers_own_counts_are_read(tmp_path):
    """Errors of all blocks, and pages that are retired, pending or failed."""
    (tmp_path / "umc_err_count").write_text("ue: 2\nce: 40\n")
    (tmp_path / "gfx_err_count").write_text("ue: 0\nce: 1\n")
    (tmp_path / "gpu_vram_bad_pages").write_text("0x00000001 : 0x00001000 : R\n0x00000002 : 0x00001000 : P\n")
    assert amd.ras(os.fspath(tmp_path)) == {
        "uncorrected_errors": 2,
        "corrected_errors": 41,
        "pages_retired": 1,
        "is_retirement_pending": True,
        "has_remapping_failed": False,
    }
    assert amd.ras(os.fspath(tmp_path / "none")) == {}
    (tmp_path / "umc_err_count").write_text("ue: unknown\n")
    assert amd.ras(os.fspath(tmp_path))["uncorrected_errors"]["kind"] == "failed"


def test_a_processors_own_gpu_makes_no_gpu_node(tmp_path):
    """The compute driver is loaded for it too; without AMD's programs and an accelerator there is nothing to ask."""
    (tmp_path / "class/kfd").mkdir(parents=True)
    assert not amd.is_present({"sysfs": os.fspath(tmp_path)}, "/nonexistent")


def test_an_empty_list_beside_accelerators_is_no_answer(tmp_path):
    """A user without the group render is shown none."""
    (tmp_path / "amd-smi").write_text("#!/bin/sh\necho []\n")
    (tmp_path / "amd-smi").chmod(0o755)
    (tmp_path / "class/kfd").mkdir(parents=True)
    arguments = {"environment": [["--env", {"PATH": os.fspath(tmp_path)}]], "proc": "/x", "sysfs": os.fspath(tmp_path)}
    assert decoded(gpu.collect(arguments)).devices == ()
    place = tmp_path / "bus/pci/devices/0000:07:00.0"
    place.mkdir(parents=True)
    (place / "vendor").write_text("0x1002\n")
    (place / "class").write_text("0x120000\n")
    assert isinstance(decoded(gpu.collect(arguments)).devices, Missing)


@pytest.mark.parametrize(
    ("vram", "mebibytes"),
    [
        ({"vram_type": "HBM", "vram_size_mb": 65520}, 65520),
        ({"type": "HBM", "size": "65520 MB"}, 65520),
        ({"type": "HBM", "size": {"value": 192, "unit": "GB"}}, 196608),
        ({"type": "HBM", "size": {"value": "N/A", "unit": "MB"}}, None),
        ("N/A", None),
    ],
)
@pytest.mark.parametrize("driver", [{"driver_version": "6.3.6"}, {"version": "6.3.6"}])
def test_what_changed_its_name_with_a_version_is_read(vram, mebibytes, driver):
    """A field under another name is no reason to have no GPU."""
    gpu = {"gpu": 0, "asic": {"market_name": "MI250X", "asic_serial": "0x1"}, "bus": {"bdf": "0000:C1:00.0"}}
    told = amd.parse_amd_smi(json.dumps([{**gpu, "driver": driver, "vram": vram}]))
    assert told["driver"] == "6.3.6"
    memory = told["devices"][0]["memory_mib"]
    assert memory == mebibytes or (mebibytes is None and memory["kind"] == "absent")


@pytest.mark.parametrize("name", ["Card Series", "Card series", "Device Name", "Card model"])
def test_a_card_has_its_name_where_its_version_puts_it(name):
    """And may have no identity of its own."""
    told = amd.parse_rocm_smi(json.dumps({"card0": {name: "AMD Instinct MI300X", "PCI Bus": "0000:05:00.0"}}))
    assert told["devices"][0]["name"] == "AMD Instinct MI300X"
