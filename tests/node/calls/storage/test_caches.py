"""Tests of preflight.node.calls.storage.caches; what follows from its answers: tests/checks/test_caches.py."""

from __future__ import annotations

from preflight.node.calls.storage import caches


def test_a_mount_hides_the_one_below():
    """The file system of a cache is that of the last mount at the longest path."""
    mounted = [["filer:/h", "/home", "nfs4"], ["/dev/sdb", "/home/u", "xfs"], ["srv:/x", "/home/u/.triton", "nfs"]]
    assert caches.file_system("/home/u/.cache", mounted) == ("/dev/sdb", "xfs")
    assert caches.file_system("/home/u2", mounted) == ("filer:/h", "nfs4")
    assert caches.file_system("/home/u/.triton/cache", mounted) == ("srv:/x", "nfs")


def test_folders_follow_the_variables_of_the_job():
    """The variable, else the home that the job has; a path that only the job's shell can expand is left out."""
    given = {"HOME": "/h", "XDG_CACHE_HOME": "/x", "TRITON_HOME": "/t", "HF_HOME": "/data/$USER", "TMPDIR": "/scratch/"}
    found = dict(caches.folders({name: (value, "--env") for name, value in given.items()}, "/root"))
    assert found["Triton"] == "/t/.triton/cache"
    assert found["torch extensions"] == "/x/torch_extensions"
    assert found["FlashInfer"] == "/h/.cache/flashinfer"
    assert found["torch.compile"].startswith("/scratch/torchinductor_")
    assert "Hugging Face" not in found
