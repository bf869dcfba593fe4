"""Which cores are near a GPU?"""

from __future__ import annotations

import fcntl
import os
import sys
from types import SimpleNamespace

import pytest

from preflight.job.ranks.bench import cores
from preflight.job.ranks.bench.cores import a_turn, cores_near, cores_of


@pytest.mark.parametrize(("text", "cores"), [("0-3,8\n", {0, 1, 2, 3, 8}), ("5", {5}), ("0-1,4-5", {0, 1, 4, 5})])
def test_the_cores_near_a_gpu_are_read(text, cores):
    """As the kernel lists them."""
    assert cores_of(text) == cores


def test_a_rank_gets_its_cores_back(monkeypatch):
    """Of a GPU of which neither torch nor the kernel tells the cores, it keeps all of them."""
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace()))
    before = os.sched_getaffinity(0)
    with cores_near(SimpleNamespace(type="cuda")):
        assert os.sched_getaffinity(0) == before
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("near", [True, False])
def test_a_rank_copies_on_cores_near_its_gpu(monkeypatch, tmp_path, near):
    """As the kernel lists them for its place on the bus; one that may use none of them stays where it is."""
    before = os.sched_getaffinity(0)
    place = SimpleNamespace(pci_domain_id=0, pci_bus_id=0x9B, pci_device_id=1)
    cuda = SimpleNamespace(get_device_properties=lambda _device: place)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(cores, "PCI_DEVICES", str(tmp_path))
    (tmp_path / "0000:9b:01.0").mkdir()
    (tmp_path / "0000:9b:01.0" / "local_cpulist").write_text(f"{max(before)},4000-4003\n" if near else "4000-4003\n")
    with cores_near(SimpleNamespace(type="cuda")):
        assert os.sched_getaffinity(0) == ({max(before)} if near else before)
    assert os.sched_getaffinity(0) == before


def test_only_one_rank_of_a_node_has_its_turn(monkeypatch, tmp_path):
    """The next has it when the first is through."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    other = os.open(tmp_path, os.O_RDONLY)
    try:
        with a_turn(), pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(other)
