"""Is a CUDA device's board found by torch of any age, and is memory that files fill counted as free?"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest
import torch

from preflight.facts.results.measured import named
from preflight.job.ranks.rank import board
from preflight.job.ranks.rank.board import bus_id_of, cached_bytes, identity_of, memory_of

GIB = 1 << 30
SECOND = SimpleNamespace(type="cuda", index=1)


class Driver:
    """CUDA's or HIP's own library: the second GPU it counts is board 5a."""

    def __init__(self, text=b"0000:5A:00.0", code=0):
        self.text, self.code = text, code

    def cuDeviceGet(self, handle, number):  # noqa: N802 - the driver's own name
        """A handle of a GPU as it is counted here."""
        handle._obj.value = number
        return 0

    def cuDeviceGetPCIBusId(self, text, length, handle):  # noqa: N802
        """The board of a handle."""
        assert (handle.value, length) == (1, 32)
        text.value = self.text
        return self.code

    def hipDeviceGetPCIBusId(self, text, _length, number):  # noqa: N802
        """The board of a number."""
        assert number == 1
        text.value = self.text.lower()
        return self.code


@pytest.fixture
def gpus(monkeypatch):
    """Torch that sees GPUs of these properties, and so much free memory of so much."""
    import torch

    def seen(free=0, whole=0, **properties):
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _device: SimpleNamespace(**properties))
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (free, whole))

    return seen


def test_torch_tells_the_board_itself(gpus):
    """Where it is new enough."""
    gpus(pci_domain_id=1, pci_bus_id=0x18, pci_device_id=0)
    assert bus_id_of(SECOND) == (1, 0x18, 0)


@pytest.mark.parametrize("hip", [None, "6.4"])
def test_the_driver_tells_the_board_where_torch_does_not(gpus, monkeypatch, hip):
    """By the number that torch has for it too, however the visible devices are chosen."""
    import torch

    gpus()
    monkeypatch.setattr(torch.version, "hip", hip, raising=False)
    libraries = []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: libraries.append(name) or Driver())
    assert bus_id_of(SECOND) == (0, 0x5A, 0)
    assert libraries == ["libamdhip64.so" if hip else "libcuda.so.1"]


@pytest.mark.parametrize("driver", [Driver(code=101), Driver(text=b"")])
def test_a_driver_that_does_not_know_it_is_no_answer(gpus, monkeypatch, driver):
    """Not board 0."""
    gpus()
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: driver)
    with pytest.raises(OSError, match="cuda:1"):
        bus_id_of(SECOND)


@pytest.fixture
def host(monkeypatch, tmp_path):
    """NUMA nodes of a host: their processors, memory and what files fill of it, in GiB."""

    def made(*nodes, available=0):
        for number, (cores, whole, files) in enumerate(nodes):
            folder = tmp_path / f"node{number}"
            folder.mkdir()
            (folder / "cpulist").write_text(f"{cores}\n")
            (folder / "meminfo").write_text(
                f"Node {number} MemTotal:       {whole << 20} kB\nNode {number} Active(file):   {1 << 20} kB\n"
                f"Node {number} Inactive(file): {files - 1 << 20} kB\n"
            )
        (tmp_path / "meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable:   {available << 20} kB\n")
        monkeypatch.setattr(board, "NODES", str(tmp_path))
        monkeypatch.setattr(board, "MEMORY", str(tmp_path / "meminfo"))

    return made


def test_an_integrated_gpu_has_what_the_host_has(gpus, host):
    """A GB10 whose memory is full of files that were read: CUDA calls them used."""
    host(("0-19", 119, 100), available=105)
    gpus(free=8 * GIB, whole=119 * GIB, is_integrated=True)
    assert memory_of(SECOND) == (105 * GIB, 119 * GIB)


def test_files_in_the_memory_of_a_gh200_are_given_back(gpus, host):
    """Its HBM is a node without processors; the host's own memory counts for nothing, however full of files."""
    host(("0-71", 480, 300), ("", 95, 40), available=400)
    gpus(free=50 * GIB, whole=96 * GIB, is_integrated=False)
    assert memory_of(SECOND) == (90 * GIB, 96 * GIB)


def test_of_several_gpus_the_least_counts(host):
    """Which node is whose the kernel does not say."""
    host(("0-71", 480, 300), ("", 95, 40), ("", 95, 3), ("", 95, 60))
    assert cached_bytes(96 * GIB) == 3 * GIB


def test_a_gpu_on_a_card_has_what_cuda_says(gpus, host):
    """Memory of another size without processors is CXL's, or a GPU's of another kind."""
    host(("0-63", 512, 300), ("", 512, 100), available=400)
    gpus(free=5 * GIB, whole=80 * GIB)
    assert memory_of(SECOND) == (5 * GIB, 80 * GIB)


@pytest.mark.parametrize(("model", "kind"), [("NVIDIA H100 80GB HBM3", "GPU"), ("NVIDIA A100 MIG 1g.5gb", "MIG")])
def test_a_gpu_is_named_by_its_board_and_uuid(gpus, model, kind):
    """With CUDA's number, which depends on what the job may see."""
    gpus(name=model, uuid="5ad1f0c2-1b2c", pci_domain_id=0, pci_bus_id=0x9D, pci_device_id=0)
    found = identity_of(torch.device("cuda", 1))
    assert found == {"device": "cuda:1", "board": "0000:9d:00.0", "uuid": f"{kind}-5ad1f0c2-1b2c"}
    assert named(**found) == f"{kind}-5ad1f0c2 0000:9d:00.0 (cuda:1)"


def test_a_gpu_of_which_nothing_is_told_has_cudas_number(gpus, monkeypatch):
    """An old torch, and a driver that answers with an error; a processor is no board."""
    gpus(name="NVIDIA H100 80GB HBM3")
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: Driver(code=100))
    assert identity_of(torch.device("cuda", 1)) == {"device": "cuda:1"}
    assert identity_of(torch.device("cpu")) == {"device": "cpu"}
    assert named("cuda:1", board="", uuid="") == "cuda:1"
