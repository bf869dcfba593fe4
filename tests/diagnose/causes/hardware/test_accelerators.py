"""Do such lines lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    ("RuntimeError: level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)", "xpu-lost"),
    ("xe 0000:4d:00.0: [drm] Tile0: GT0: Engine reset: engine_class=ccs, logical_mask: 0x1, guc_id=17", "xpu-lost"),
    ("xe 0000:4d:00.0: [drm] Tile0: GT0: ccs0 fused off", ""),
    (
        ":0:rocdevice.cpp :2652: 4238 us: 48946: [tid:0x7f] Device::callbackQueue aborting with error : HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate the necessary resources. code: 0x1008",
        "rocm-resources",
    ),
    ("ERROR  TDRV:  NRT:nrt_allocate_neuron_cores  Unable to get exclusive access", "neuron-cores-busy"),
    ("RuntimeError: synStatus=26 [Generic failure] Device acquire failed.", "gaudi-device"),
    ("habanalabs accel0: going to hard-reset device", "gaudi-reset"),
    ("Unable to open /dev/kfd read-write: Permission denied", "kfd-not-opened"),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
