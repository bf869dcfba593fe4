"""Tests of preflight.node.sources.kernel.events."""

import os

import pytest

from preflight.node.sources.kernel import events, log
from tests.node.sources.kernel.reported import reported


@pytest.mark.parametrize(
    "line",
    [
        "mlx5_core 0000:41:00.0 ens1f0np0: Link down",
        "hfi1 0000:24:00.0: hfi1_0: logical state changed to PORT_DOWN (0x1)",
        "ixgbe 0000:41:00.0 eno1: NIC Link is Down",
        "tg3 0000:02:00.0 eno3: Link is down",
        "cxi_core 0000:c3:00.0: cxi3[hsn3] CXI_EVENT_LINK_DOWN",
        "bond0: (slave eno1): link status definitely down, disabling slave",
    ],
)
def test_links_that_go_down_tell_once_the_machine_has_started(line):
    """While it starts every driver and service takes them down and up again; later it is a cable."""
    assert reported([f"6,1,{int(30e6)},-;{line}"], now_s=4000.0) == []
    (event,) = reported([f"6,1,{int(3600e6)},-;{line}"], now_s=4000.0)
    assert event["kind"] == "link"


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        (["NVRM: Xid (PCI:0000:07:00): 95, x", "NVRM: Xid (PCI:0000:07:00): 154, from 0x1 (x) to 0x0 (None)"], [154]),
        (
            ["NVRM: Xid (PCI:0000:07:00): 95, x", "NVRM: Xid (PCI:0000:08:00): 154, from 0x1 (x) to 0x0 (None)"],
            [95, 154],
        ),
        (
            ["NVRM: Xid (PCI:0000:07:00): 95, x", "NVRM: Xid (PCI:0000:07:00): 154, from 0x0 (None) to 0x1 (x)"],
            [95, 154],
        ),
    ],
)
def test_a_gpu_that_needs_no_recovery_any_more_has_none_of_its_earlier_xids(lines, left):
    """The driver says of which GPU it is over; what another one reported stands."""
    found = reported([f"3,1,{number},-;{line}" for number, line in enumerate(lines)], now_s=1.0)
    assert [event["code"] for event in found] == left


AMDGPU, MLX5 = "amdgpu 0000:13:00.0: amdgpu:", "mlx5_core 0000:c1:00.0:"


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ([f"{AMDGPU} GPU reset begin!", f"{AMDGPU} GPU reset(3) succeeded!"], []),
        ([f"{AMDGPU} GPU reset begin!", f"{AMDGPU} GPU reset(3) failed"], ["driver"]),
        ([f"{AMDGPU} GPU reset begin!", f"{AMDGPU.replace('13', '14')} GPU reset(3) succeeded!"], ["driver"]),
        ([f"{AMDGPU} uncorrectable hardware error(x) detected!", f"{AMDGPU} GPU reset(3) succeeded!"], ["wear"]),
        ([f"{MLX5} poll_health: health compromised", f"{MLX5} mlx5_x:358: health recovery succeeded"], []),
        ([f"{MLX5} poll_health: health compromised", f"{MLX5} firmware version: 28.39.1002"], []),
        ([f"{MLX5} health recovery succeeded", f"{MLX5} poll_health: health compromised"], ["rdma"]),
        (["NVRM: API mismatch: the client 'nvidia-smi' (pid 4711)"], []),
    ],
)
def test_what_the_driver_has_recovered_is_over(lines, left):
    """A device that works again is not broken; of uncorrectable memory a warning is left."""
    found = reported([f"3,1,{number},-;{line}" for number, line in enumerate(lines)], now_s=1.0)
    assert [event["kind"] for event in found] == left


PROBED = "nvidia: probe of 0000:13:00.0 failed with error -1"
XID_79 = "NVRM: Xid (PCI:0000:c1:00): 79, GPU has fallen off the bus."


def test_loading_the_driver_again_ends_its_earlier_reports_but_not_those_of_the_loading():
    """A GPU that the driver could not take is logged just before the driver says that it is loaded."""
    loaded = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  575.51.03"
    lines = [(100, PROBED), (4000, PROBED.replace("13", "23")), (4000, XID_79), (4001, loaded)]
    found = reported([f"6,1,{second * 1000000},-;{line}" for second, line in lines], now_s=5000.0)
    assert [event["device"] for event in found] == ["0000:23:00.0"]


def test_of_an_adapter_the_last_word_on_its_power_counts():
    """The slot may be given more later."""
    first = "mlx5_core 0000:e1:00.0: Detected insufficient power on the PCIe slot (27W)."
    later = "mlx5_core 0000:e1:00.0: PCIe slot advertised sufficient power (75W)."
    assert reported([f"3,1,2,-;{first}", f"3,2,3,-;{later}"], now_s=65.0) == []


def test_of_a_virtual_function_the_last_word_counts():
    """A host that is serviced takes it away and gives it back; of another interface nothing is said by that."""
    words = "hv_netvsc 000d3a6e-1a2b-000d-3a6e-1a2b000d3a6e {}: Data path switched {} VF: enP1s1"
    lines = [words.format("eth0", "from"), words.format("eth1", "from"), words.format("eth0", "to")]
    found = reported([f"6,{number},{number},-;{line}" for number, line in enumerate(lines)], now_s=65.0)
    assert [event["device"] for event in found] == ["eth1"]


def test_a_module_is_refused_once_whatever_number_of_symbols_it_lacks():
    """A driver that was built against another kernel has a line for each of them."""
    lines = [f"irdma: Unknown symbol ib_{number} (err -22)" for number in range(300)]
    found = events.parse([f"3,1,{number},-;{line}" for number, line in enumerate(lines)], now_s=1.0)
    assert [(event["kind"], event["device"]) for event in found] == [("module", "irdma")]


FATAL = (
    "BERT: Error records from previous boot:",
    "[Hardware Error]: event severity: fatal",
    "[Hardware Error]:  Error 0, type: fatal",
    "[Hardware Error]:   section_type: PCIe error",
    "[Hardware Error]:   device_id: 0000:15:01.0",
)


def test_a_record_of_firmware_is_one_event_with_the_kind_of_the_error_and_its_device(tmp_path):
    """Its lines are told as one, and those of the last boot as such."""
    path = tmp_path / "kmsg"
    path.write_text("".join(f"3,1,900000,-;{line}\n" for line in FATAL))
    (event,) = log.collect(os.fspath(path))
    assert event["kind"] == "machine"
    assert event["text"] == f"{FATAL[0]} {FATAL[1]}, section_type: PCIe error, device_id: 0000:15:01.0"


@pytest.mark.parametrize(("severity", "count"), [("recoverable", 2), ("corrected", 0)])
def test_each_record_of_firmware_is_an_event_of_its_own(severity, count):
    """What was corrected is none."""
    record = (f"[Hardware Error]: event severity: {severity}", "[Hardware Error]:   section_type: memory error")
    lines = [f"{{{number}}}{line}" for number in (1, 2) for line in record]
    found = events.parse([f"3,1,900000,-;{line}" for line in lines], now_s=65.0)
    assert len(found) == count
    assert all(event["text"].endswith("section_type: memory error") for event in found)


def test_a_machine_check_after_a_record_of_firmware_is_told_too():
    """It belongs to another report, whatever came just before."""
    lines = [*FATAL[1:3], "mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 4: be00000000800400"]
    assert len(events.parse([f"3,1,900000,-;{line}" for line in lines], now_s=65.0)) == 2


def test_many_lines_are_bounded():
    """A device that fails a thousand times a second does not fill the report; the newest are kept."""
    line = "NVRM: Xid (PCI:0000:07:00): 79"
    found = reported([f"3,1,{number},-;{line} {number}" for number in range(1000)], now_s=1.0)
    assert len(found) == events.MOST_EVENTS
    assert found[-1]["text"].endswith("999")


def test_what_an_earlier_life_of_the_driver_reported_is_over():
    """Loading the driver again resets the GPUs; what broke in the machine stays."""
    lines = ["NVRM: Xid (PCI:0000:07:00): 79, x", "mlx5_core 0000:41:00.0: assert_var[0] 0x00000001"]
    lines += ["NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95", "NVRM: Xid (PCI:0000:07:00): 48, x"]
    found = reported([f"3,1,{number},-;{line}" for number, line in enumerate(lines)], now_s=1.0)
    assert [(event["kind"], event["code"]) for event in found] == [("rdma", 0), ("xid", 48)]
