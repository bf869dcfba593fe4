"""Are files found and read?"""

from __future__ import annotations

import pytest

from preflight.launch.read import read_files, read_texts
from preflight.launch.reading import bundle
from preflight.launch.rules.check import check_files
from preflight.said.errors import UsageError
from tests.launch.samples import config


def test_globs_and_files_that_are_not_there(tmp_path):
    """A pattern that fits nothing is a usage error."""
    (tmp_path / "n0.yaml").write_text(config(0))
    (tmp_path / "n1.yaml").write_text(config(0))
    files = read_files([str(tmp_path / "n*.yaml")])
    assert len(files.files) == 2
    assert [found.check for found in check_files(files)] == ["launch.ranks_are_distinct"]
    for bad in ("missing.sh", "none*.yaml", ""):
        with pytest.raises(UsageError):
            read_files([str(tmp_path / bad)])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.conf", "a = 1\nNCCL_DEBUG=INFO\n"),
        ("a.env", "PET_NNODES=2\n"),
        ("a.env", "MASTER_ADDR=node1\n"),
        ("a.env", "NCCL_NO_SUCH=1\n"),
        ("a.sh", "export LD_LIBRARY_PATH=/opt/nccl\n"),
        ("ds.json", '{"train_batch_size": 8}'),
        ("hostfile", "node1 slots=8\n"),
    ],
)
def test_one_value_of_a_job_is_enough_to_be_judged(name, text):
    """The others beside it are nobody's business."""
    files = read_texts({name: text})
    assert files.are_judged
    assert files.skips == ()


@pytest.mark.parametrize(
    ("name", "limit", "why"),
    [
        ("*.sh", ("FILES_LIMIT", 1), "2 launch files; wanted at most 1"),
        ("long.sh", ("FILE_LIMIT_BYTES", 8), "'long.sh' has more than 0 MiB"),
        ("zero.sh", ("FILES_LIMIT", 9), "'zero.sh' is not a text file"),
        ("a\0b", ("FILES_LIMIT", 9), "'a\\x00b' is not a file that can be read"),
        ("/proc/self/mem", ("FILES_LIMIT", 9), "'/proc/self/mem' cannot be read: Input/output error"),
        (".", ("FILES_LIMIT", 9), "'.' is a folder: name its files, as './*'"),
        ("none.sh", ("FILES_LIMIT", 9), "'none.sh' is not a file that can be read"),
        ("none*", ("FILES_LIMIT", 9), "'none*' matches no file"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_reason(tmp_path, monkeypatch, name, limit, why):
    """Too many files, one too large, one of bytes, a name that is none."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "long.sh").write_text("echo 1234")
    (tmp_path / "zero.sh").write_bytes(b"a\0b")
    monkeypatch.setattr(bundle, *limit)
    with pytest.raises(UsageError) as raised:
        read_files([name])
    assert str(raised.value) == why


def test_a_file_of_eight_bytes_is_no_longer_than_eight(tmp_path, monkeypatch):
    """The limit itself is taken, and the mark of UTF-8 is no letter."""
    monkeypatch.setattr(bundle, "FILE_LIMIT_BYTES", 8)
    (tmp_path / "n.sh").write_bytes(b"\xef\xbb\xbfA=b\xff\n")
    assert bundle.read_file(str(tmp_path / "n.sh")) == "A=b\ufffd\n"
