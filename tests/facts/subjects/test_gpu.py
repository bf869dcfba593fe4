"""Are GPUs told as they are, partitions, holes and silence included?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.subjects.gpu import Gpu, Gpus
from preflight.facts.value import Missing
from preflight.said.errors import BlockedBy, FactMissing
from preflight.testing.hardware import gpus

replace = msgspec.structs.replace
GPU = Gpu(
    index=0,
    name="NVIDIA H200",
    uuid="GPU-0",
    memory_mib=143771,
    bus_id="0f:00.0",
    compute_mode="Default",
    mig_mode="Disabled",
    processes=0,
)
SILENT = Missing("the driver does not report it", "absent")


@pytest.mark.parametrize(("processes", "busy"), [(0, False), (2, True), (SILENT, False)])
def test_a_gpu_is_busy_when_somebody_holds_memory(processes, busy):
    """One that does not tell is taken for free."""
    assert replace(GPU, processes=processes).is_busy() is busy


def test_models_are_told_once_each_with_memory_and_partition():
    """A card in MIG mode is another card."""
    gpus = Gpus(
        devices=(GPU, replace(GPU, index=1), replace(GPU, mig_mode="Enabled"), replace(GPU, memory_mib=SILENT)),
        driver="1",
        cuda_driver="1",
    )
    assert gpus.models() == "NVIDIA H200, NVIDIA H200 143771 MiB, NVIDIA H200 143771 MiB in MIG mode"


def test_a_node_without_gpus_has_neither_models_nor_a_driver():
    """Absent, which is an answer: every check of them is skipped where no node has one."""
    none = Gpus(devices=(), driver=SILENT, cuda_driver=SILENT)
    assert none.readable() == ()
    assert none.trouble() == ""
    for ask in (none.models, none.driver_version):
        with pytest.raises(FactMissing) as caught:
            ask()
        assert caught.value.kind == "absent"


def test_a_driver_that_does_not_answer_blocks_what_asks_for_gpus():
    """One cause, named by its own check."""
    broken = Gpus(devices=Missing("NVML: driver/library version mismatch"), driver=SILENT, cuda_driver=SILENT)
    assert broken.trouble() == "NVML: driver/library version mismatch"
    for ask in (broken.readable, broken.models, broken.driver_version):
        with pytest.raises(BlockedBy, match=r"gpu\.devices_are_readable"):
            ask()


def test_the_drivers_version_is_the_drivers():
    """Where there are GPUs."""
    assert Gpus(devices=(GPU,), driver="580.95", cuda_driver="13.0").driver_version() == "580.95"


@pytest.mark.parametrize(
    ("bus_id", "board"),
    [("00000000:9D:00.0", "0000:9d:00.0"), ("0000:c1:00.0", "0000:c1:00.0"), ("00010000:01:00.0", "00010000:01:00.0")],
)
def test_a_board_is_its_address_as_the_kernel_writes_it(bus_id, board):
    """NVML writes eight digits of a domain, the drivers of others four; a domain of its own keeps all of them."""
    (gpu,) = gpus(1)
    assert msgspec.structs.replace(gpu, bus_id=bus_id).board == board
