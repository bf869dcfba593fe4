"""Tests of preflight.node.sources.gpus.vendor: the forms that versions of each program print, whole and cut short."""

import json

import pytest

from preflight.node.sources.gpus import vendor

pytestmark = pytest.mark.unit


def dcgm3(status, **more):
    """DCGM 1 to 3: a result has "gpu_ids", null may stand between tests."""
    software = {"name": "Inforom", "results": [{"gpu_ids": "0,1", "status": "PASS"}]}
    results = [{"gpu_ids": "0", "status": "Pass"}, {"gpu_ids": 1, "status": status, **more}]
    memory = {"name": "Memory", "results": results}
    categories = [{"category": "Deployment", "tests": [software, None]}, {"category": "Hardware", "tests": [memory]}]
    return json.dumps({"DCGM GPU Diagnostic": {"test_categories": categories, "version": "3.1.0"}})


def dcgm4(status, **more):
    """DCGM 4: entities, a summary of each test, warnings as objects."""
    entity = {"entity_group": "GPU", "entity_group_id": 1}
    results = [{**entity, "entity_id": 0, "status": "Pass"}, {**entity, "entity_id": 1, "status": status, **more}]
    tests = [{"name": "memory", "results": results, "test_summary": {"status": status}}]
    told = {"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": tests}]}, "metadata": {}}
    return "WARNING: nvvs\n" + json.dumps(told)


@pytest.mark.parametrize(
    "text",
    [
        dcgm3("FAIL", warnings=["GPU 1 failed: pending page retirements"]),
        dcgm3("Fail", warnings="GPU 1 failed: pending page retirements"),
        dcgm4("Fail", warnings=[{"warning": "GPU 1 failed: pending page retirements", "error_id": 7}]),
    ],
)
def test_a_gpu_that_dcgm_fails_is_told_with_its_words(text):
    """Whatever the version."""
    failed = [one for one in vendor.dcgm(text) if one[2] == "fail"]
    assert [(gpu, words) for _, gpu, _, words in failed] == [("1", "GPU 1 failed: pending page retirements")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Error: unable to establish a connection to the specified host: localhost\n", "no JSON"),
        (dcgm4("Pass")[:-40], "broken JSON"),
        (json.dumps({"DCGM Diagnostic": {"version": "4.2.3"}}), "ran no test"),
        (json.dumps({"DCGM Diagnostic": {"runtime_error": "Error: Diagnostic could not be run"}}), "could not be run"),
        (json.dumps({"other": 1}), "no diagnostic"),
        (dcgm3("Odd"), "odd of Memory"),
        ("", "nothing"),
    ],
)
def test_what_dcgm_did_not_run_is_no_pass(text, words):
    """Its daemon is not there, an older board, an output cut short."""
    with pytest.raises(ValueError, match=words):
        vendor.dcgm(text)


def nvbandwidth(*rows, status="Passed", name="host_to_device_memcpy_ce"):
    """Since 0.4, with strings in the matrix."""
    test = {"name": name, "status": status, "bandwidth_matrix": [[str(value) for value in row] for row in rows]}
    waived = {"name": "device_to_device_memcpy_read_ce", "status": "Waived"}
    return json.dumps({"nvbandwidth": {"version": "v0.8", "testcases": [test, waived]}})


TEXT = """nvbandwidth Version: v0.2
Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
          0         1
0     26.03     25.94

SUM host_to_device_memcpy_ce 51.97
Running device_to_host_memcpy_ce.
memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)
          0         1
0     26.30     26.29

SUM device_to_host_memcpy_ce 52.59
Running device_to_device_memcpy_read_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
          0         1
0       N/A    276.07
1    276.19       N/A

SUM device_to_device_memcpy_read_ce 552.26
"""


def test_nvbandwidth_is_read_as_json_and_as_text():
    """A GPU's copy to itself is no figure, and a test that it cannot run is left out."""
    assert vendor.nvbandwidth(nvbandwidth([55.1, 54.9])) == [
        [("host_to_device_memcpy_ce", 0, 0, 55.1), ("host_to_device_memcpy_ce", 0, 1, 54.9)],
        "",
    ]
    cells, wrong = vendor.nvbandwidth(TEXT)
    assert [cell[1:] for cell in cells] == [
        *((0, 0, 26.03), (0, 1, 25.94), (0, 0, 26.3), (0, 1, 26.29)),
        *((0, 1, 276.07), (1, 0, 276.19)),
    ]
    assert wrong == ""


@pytest.mark.parametrize(
    "text",
    [
        nvbandwidth([1.0], status="Error"),
        nvbandwidth([1.0], status="Waived"),
        nvbandwidth([1.0])[:-9],
        TEXT[: TEXT.index("SUM device")],
        json.dumps({"nvbandwidth": {"error": "CUDA_ERROR_NO_DEVICE"}}),
        "CUDA driver version is insufficient",
        "",
    ],
)
def test_what_nvbandwidth_did_not_measure_is_no_figure(text):
    """Half a matrix would look like half a node."""
    with pytest.raises(ValueError, match=r"nvbandwidth|JSON"):
        vendor.nvbandwidth(text)


def test_data_that_arrived_changed_is_told():
    """nvbandwidth looks at what it copied, and stops."""
    cells, wrong = vendor.nvbandwidth(
        "Running ...\n Invalid value when checking the pattern at 0x7f, current 1 wanted 2"
    )
    assert cells == []
    assert "arrived changed" in wrong


def test_rvs_tells_of_each_gpu_whether_it_met_its_target():
    """The word is met or pass, as the module has it."""
    text = (
        "[RESULT] [ 4236.05] Action name :gpustress-41000-fp16\n"
        "[RESULT] [ 4239.91] [gpustress-41000-fp16] [GPU:: 40245] GFLOPS 41250 Target GFLOPS: 41000 met: TRUE\n"
        "[RESULT] [ 4239.93] [gpustress-41000-fp16] [GPU:: 63217] GFLOPS 20100 Target GFLOPS: 41000 met: FALSE\n"
        "[RESULT] [ 4301.00] [iet-stress] gpu 63217 pass: TRUE\n"
    )
    assert [(gpu, status) for _, gpu, status, _ in vendor.rvs(text)] == [
        ("40245", "pass"),
        ("63217", "fail"),
        ("63217", "pass"),
    ]
    with pytest.raises(ValueError, match="rvs reported no test"):
        vendor.rvs("RVS-ERROR [CLI] Action failed to execute\n")


def agfhc(*verdicts, executed=None, code="AGFHC_SUCCESS [0]"):
    """A recipe of as many tests, each on all GPUs."""
    names = ("gfx_bf16ri", "hbm_bw", "xgmi_a2a")
    lines = [
        f"  Title of {name}\n    {verdict}: {name}-1-1                  [00:01:08/00:01:20]"
        for name, verdict in zip(names, verdicts, strict=False)
    ]
    count = len(verdicts) if executed is None else executed
    summary = f"Summary:\n  Tests: {len(verdicts)} Total, {count} Executed, 0 Skipped | done\n  Total Time: 00:04:44\n"
    return "\n".join(["Executing tests:", *lines, "", summary]) + f"Program exiting with return code {code}\n"


def test_agfhc_tells_of_each_test_of_its_recipe():
    """With the reason of one that failed, where it gives one in the lines below."""
    assert [one[2] for one in vendor.agfhc(agfhc("PASS", "PASS", "PASS"))] == ["pass"] * 3
    text = agfhc("PASS", "FAIL", "PASS", code="AGFHC_FAIL [1]")
    assert vendor.agfhc(text)[1] == ["hbm_bw-1-1", "", "fail", ""]
    text = text.replace("20]\n  Title of xgmi", "20]\n      GPU 3: 3911 GB/s, target 4000\n  Title of xgmi")
    assert vendor.agfhc(text)[1] == ["hbm_bw-1-1", "", "fail", "GPU 3: 3911 GB/s, target 4000"]


AGFHC = agfhc("PASS", "PASS", "PASS")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (agfhc(), "ran no test"),
        (agfhc("SKIP", executed=0), "ran no test"),
        (agfhc("PASS", "PASS", executed=3), "reported 2 of 3 tests"),
        ("AGFHC must be run as root\nProgram exiting with return code AGFHC_ROOT [7]\n", "AGFHC_ROOT: .*as root"),
        (agfhc("PASS", code="AGFHC_INTERNAL [9]"), "AGFHC_INTERNAL"),
        ("", "cut short: nothing"),
        *((AGFHC[:at], "agfhc") for at in range(10, len(AGFHC) - 5, 30)),
    ],
)
def test_what_agfhc_did_not_run_or_tell_is_no_pass(text, words):
    """It was refused, skipped all, or its output ends before its last line, wherever that is."""
    with pytest.raises(ValueError, match=words):
        vendor.agfhc(text)
