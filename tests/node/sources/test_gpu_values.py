"""Tests of preflight.node.sources.gpu_values."""

from xml.etree import ElementTree as ET

import msgspec
import pytest

from preflight.facts.subjects.gpus.status import GpuStatus
from preflight.facts.value import Missing
from preflight.node.sources import gpu_values

XML = """<gpu><product_name>T</product_name><ecc_errors><volatile>
<sram_uncorrectable_parity>1</sram_uncorrectable_parity>
<sram_uncorrectable_secded>2</sram_uncorrectable_secded><dram_uncorrectable>N/A</dram_uncorrectable>
</volatile></ecc_errors>
<clocks_event_reasons>
<clocks_event_reason_hw_slowdown>Active</clocks_event_reason_hw_slowdown>
<clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle></clocks_event_reasons>
<remapped_rows><remapped_row_pending>Yes</remapped_row_pending><remapped_row_unc>4</remapped_row_unc>
<row_remapper_histogram><row_remapper_histogram_max>638 bank(s)</row_remapper_histogram_max>
<row_remapper_histogram_low>2 bank(s)</row_remapper_histogram_low>
<row_remapper_histogram_none>1 bank(s)</row_remapper_histogram_none></row_remapper_histogram></remapped_rows>
<supported_clocks><supported_mem_clock><value>1 MHz</value></supported_mem_clock></supported_clocks></gpu>"""
TEXT = """
Attached GPUs                             : 1
GPU 00000000:07:00.0
    Product Name                          : T
    ECC Errors
        Volatile
            SRAM Uncorrectable Parity     : 1
            SRAM Uncorrectable SEC-DED    : 2
            DRAM Uncorrectable            : N/A
    Clocks Event Reasons
        HW Slowdown                       : Active
        Idle                              : Not Active
    Remapped Rows
        Uncorrectable Error               : 4
        Pending                           : Yes
        Bank Remap Availability Histogram
            Max                           : 638 bank(s)
            Low                           : 2 bank(s)
            None                          : 1 bank(s)
"""


def pairs_of(form):
    """The same GPU in each of the two forms."""
    if form == "xml":
        return gpu_values.flatten(ET.fromstring(XML))
    ((_, pairs),) = gpu_values.blocks(TEXT)[1]
    return pairs


@pytest.mark.parametrize("form", ["xml", "text"])
def test_both_forms_give_the_same_facts(form):
    """Sums, flags and reasons are read alike; what is not told is left out."""
    told = gpu_values.status(dict(pairs_of(form)))
    status = msgspec.convert(told, type=GpuStatus, strict=True)
    assert (status.uncorrected_errors, status.rows_remapped, status.is_remapping_pending) == (3, 4, True)
    assert status.slowdowns == ("hw_slowdown",)
    assert (status.banks_with_one_spare_row, status.banks_without_spare_rows) == (2, 1)
    assert "has_remapping_failed" not in told
    assert not any(path.startswith("supported_clocks") for path, _ in pairs_of(form))


def test_what_stands_before_the_gpus_is_told_apart():
    """The head of the text belongs to no GPU."""
    assert gpu_values.blocks(TEXT)[0] == {"attached_gpus": "1"}


@pytest.mark.parametrize("text", ["ERR!", "[Unknown Error]", "GPU is lost", "-1"])
def test_a_figure_that_is_an_error_is_missing(text):
    """An error in the place of a figure is a failure, in a sum as well."""
    status = gpu_values.status({"ecc_errors/volatile/dram_uncorrectable": text})
    assert status["uncorrected_errors"] == {"missing": f"nvidia-smi says {text}", "kind": "failed"}


@pytest.mark.parametrize(
    ("health", "faults"),
    [
        ({"bandwidth": "Full", "route_unhealthy": "False", "incorrect_configuration": "None"}, []),
        ({"bandwidth": "Degraded", "route_unhealthy": "N/A"}, ["bandwidth: Degraded"]),
        ({"summary": "Unhealthy", "route_recovery_in_progress": "True"}, ["route recovery in progress: True"]),
        ({"bandwidth": "N/A", "summary": "Healthy"}, None),
    ],
)
def test_what_is_wrong_with_the_nvlink_fabric_is_told_by_its_own_words(health, faults):
    """Whatever the driver reports beside the summary, which older ones do not have."""
    status = gpu_values.status({f"fabric/health/{name}": text for name, text in health.items()})
    assert status.get("fabric_faults") == faults


def test_figures_that_the_driver_answers_with_an_error_are_kept():
    """Wherever they stand."""
    status = gpu_values.status({"fb_memory_usage/total": "[Unknown Error]", "fan_speed": "N/A", "pci/x": "GPU is lost"})
    assert status["unanswered"] == ["total: [Unknown Error]", "x: GPU is lost"]


def process(kind, name="python"):
    """A program on the GPU, as the XML lists it."""
    return [
        (f"processes/process_info/{key}", text) for key, text in (("pid", "7"), ("type", kind), ("process_name", name))
    ]


@pytest.mark.parametrize(
    ("pairs", "count"),
    [
        ([("processes", "None")], 0),
        ([("processes", "")], 0),
        (process("C"), 1),
        (process("G"), 0),
        (process("M+C"), 1),
        (process("C", name="/usr/bin/nvidia-cuda-mps-server"), 0),
        ([("processes/process_id", "7"), ("processes/process_id/type", "C+G"), ("processes/process_id/name", "a")], 0),
        ([("processes/process_info/pid", "7")], 1),
    ],
)
def test_programs_that_compute_are_counted(pairs, count):
    """A screen that is drawn on the GPU is nobody's job."""
    assert gpu_values.processes(pairs) == count


def test_every_fact_of_the_table_is_one_of_the_status():
    """A field that the controller does not know would lose the whole subject."""
    names = [name for name, _, _ in gpu_values.FIELDS]
    elsewhere = ("is_inforom_corrupted", "unanswered", "nvlink_gbytes_per_s")  # beside it, anywhere, in nvlink -s
    of_amd = ("deferred_errors", "performance_level", "partition", "link_fault")
    assert sorted([*names, *elsewhere, *of_amd]) == sorted(GpuStatus.__struct_fields__)
    told = {value for value in msgspec.structs.astuple(GpuStatus()) if not isinstance(value, Missing)}
    assert told == {False, ()}


def test_newer_drivers_write_sentences_behind_versions():
    """Driver 610 deprecates two names, says so where the version stands, and moves the power limit."""
    head = {"driver_version": "610.62 [Deprecated; will be removed in CUDA 14.0. Use KMD Version instead]"}
    assert gpu_values.version_at(head, "kmd_version", "driver_version") == "610.62"
    assert gpu_values.version_at({**head, "kmd_version": "610.62"}, "kmd_version", "driver_version") == "610.62"
    limits = "gpu_power_readings/gpu_ceiling_power_limit/"
    status = gpu_values.status({f"{limits}current_power_limit": "250.00 W", f"{limits}default_power_limit": "300.00 W"})
    assert (status["power_limit_watts"], status["power_default_watts"]) == (250.0, 300.0)


def test_a_corrupted_inforom_is_the_gpus_that_the_warning_names():
    """The warning writes a shorter address than the list."""
    assert gpu_values.corrupted_inforoms("WARNING: infoROM is corrupted at gpu 0000:C1:00.0\n") == {"0000:c1:00.0"}
    assert gpu_values.status({}, is_worn=True) == {"is_inforom_corrupted": True}


@pytest.mark.parametrize(
    ("values", "limit"),
    [
        ({"temperature/gpu_temp": "42 C", "temperature/gpu_temp_slow_threshold": "89 C"}, 89.0),
        ({"temperature/gpu_temp": "42 C", "temperature/gpu_temp_tlimit": "45 C"}, 87.0),
        ({"temperature/gpu_current_temp": "42 C", "temperature/gpu_t.limit_temp": "45 C"}, 87.0),
        ({"temperature/gpu_temp_slow_threshold": "N/A", "temperature/gpu_temp": "42 C"}, None),
        ({"temperature/gpu_temp": "42 C", "temperature/gpu_temp_tlimit": "N/A"}, None),
    ],
)
def test_a_limit_of_temperature_is_told_as_it_is_or_as_what_is_left(values, limit):
    """Since Hopper the driver tells the margin, in the XML and in the text."""
    found = gpu_values.status(values).get("temperature_limit_celsius")
    assert found == limit


@pytest.mark.parametrize(("said", "told"), [("570.133.20", "570.133.20"), ("N/A", "none")])
def test_a_driver_without_gsp_says_so(said, told):
    """A node where it was switched off differs from the others."""
    assert gpu_values.status({"gsp_firmware_version": said})["firmware"] == [["GSP", told]]
    assert "firmware" not in gpu_values.status({})
