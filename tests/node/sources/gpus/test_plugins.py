"""Tests of preflight.node.sources.gpus.plugins."""

import os

import pytest

from preflight.node.sources.gpus import plugins


def library(path, *texts):
    """A file of texts, as a library's table of them is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF\0" + b"\0".join(text.encode() for text in texts) + b"\0")
    return os.fspath(path)


@pytest.mark.parametrize(
    ("held", "lacks"),
    [
        ((), False),  # no libfabric is found: the loader may know better
        (("FABRIC_1.6",), True),
        (("FABRIC_1.6", "FABRIC_1.7"), False),
        (("FABRIC_1.6", "FABRIC_1.10"), False),
        (("no version of it",), False),
    ],
)
def test_a_plugin_that_is_newer_than_every_libfabric_lacks_it(tmp_path, held, lacks):
    """The loader refuses it with "version `FABRIC_1.7' not found", and NCCL takes TCP."""
    plugin = library(tmp_path / "ofi/libnccl-net.so", "FABRIC_1.0", "FABRIC_1.7")
    if held:
        library(tmp_path / "efa/libfabric.so.1", *held)
    found = plugins.lacking([plugin], [os.fspath(tmp_path / "efa")], "/nonexistent")
    assert bool(found) is lacks
    assert not lacks or ("needs FABRIC_1.7" in found[0] and found[0].endswith("has FABRIC_1.6 at most"))


def test_every_place_that_the_loader_may_look_in_counts(tmp_path):
    """A run path of the plugin, the folder beside it, the linker's cache: one libfabric that is new enough will do."""
    old, new = library(tmp_path / "old/libfabric.so.1", "FABRIC_1.6"), tmp_path / "new/lib/libfabric.so.1"
    library(new, "FABRIC_1.8")
    plugin = library(tmp_path / "ofi/libnccl-net.so", "FABRIC_1.7", f"/nowhere:{new.parent}")
    beside = library(tmp_path / "ofi2/libnccl-net.so", "FABRIC_1.7", "$ORIGIN/../new/lib")
    assert plugins.lacking([plugin, beside], [os.path.dirname(old)], "/nonexistent") == []
    bare = library(tmp_path / "ofi3/libnccl-net.so", "FABRIC_1.7")
    cache = library(tmp_path / "cache", old, os.fspath(new))
    assert plugins.lacking([bare], [], cache) == []
    assert len(plugins.lacking([bare], [os.path.dirname(old)], "/nonexistent")) == 1


def test_one_plugin_that_loads_is_enough(tmp_path):
    """NCCL takes one of them; which one, the loader decides."""
    held = library(tmp_path / "efa/libfabric.so.1", "FABRIC_1.7")
    new, old = (
        library(tmp_path / "a/libnccl-net.so", "FABRIC_1.8"),
        library(tmp_path / "b/libnccl-net.so", "FABRIC_1.7"),
    )
    assert plugins.lacking([new, old], [os.path.dirname(held)], "/nonexistent") == []


def test_other_plugins_are_of_no_concern(tmp_path):
    """One that needs no libfabric, or that cannot be read."""
    assert plugins.lacking([library(tmp_path / "libnccl-net.so", "ncclNet_v8"), "/nonexistent"], [], "") == []
