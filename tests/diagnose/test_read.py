"""Are logs read as they lie there: plain, packed, with progress bars, of any length?"""

from __future__ import annotations

import gzip
import io
import shutil
import subprocess

import pytest

from preflight.diagnose.read import BLOCK_BYTES, LONGEST_LINE, lines_of, logs_of, opened
from preflight.errors import UsageError

TEXT = b"one\ntwo\nthree"


def test_lines_are_counted_as_grep_counts_them():
    """From 1; what a progress bar wrote over stays on its line; the last line needs no end."""
    assert list(lines_of(io.BytesIO(b"a\r b\rc\nd\n\ne"))) == [
        (1, b"a"),
        (1, b" b"),
        (1, b"c"),
        (2, b"d"),
        (3, b""),
        (4, b"e"),
    ]


def test_an_endless_line_takes_bounded_memory():
    """Its beginning and its end are kept."""
    lines = list(lines_of(io.BytesIO(b"A" * (3 << 20) + b" end")))
    assert len(lines) == 1
    assert len(lines[0][1]) <= LONGEST_LINE + 1
    assert lines[0][1].endswith(b" end")


def test_packed_logs_are_unpacked(tmp_path):
    """By what they hold, not by their name."""
    (tmp_path / "plain").write_bytes(TEXT)
    (tmp_path / "packed.log").write_bytes(gzip.compress(TEXT, mtime=0))
    for name in ("plain", "packed.log"):
        with opened(str(tmp_path / name)) as stream:
            assert [line for _, line in lines_of(stream)] == [b"one", b"two", b"three"]


@pytest.mark.skipif(shutil.which("zstd") is None, reason="the program zstd is not installed")
def test_zstd_is_unpacked_by_its_program(tmp_path):
    """As every distribution has it."""
    (tmp_path / "a").write_bytes(TEXT)
    subprocess.run(["zstd", "-q", "a"], cwd=tmp_path, check=True)
    with opened(str(tmp_path / "a.zst")) as stream:
        assert b"".join(line for _, line in lines_of(stream)) == b"onetwothree"


@pytest.mark.parametrize("content", [None, gzip.compress(TEXT * 999, mtime=0)[:40]])
def test_what_cannot_be_read_is_named(content, tmp_path):
    """A file that is not there, and one that was cut short."""
    path = tmp_path / "log.gz"
    if content is not None:
        path.write_bytes(content)

    def read() -> None:
        with opened(str(path)) as stream:
            list(lines_of(stream))

    with pytest.raises(UsageError, match=r"log\.gz: cannot be read"):
        read()


def test_how_far_it_is_is_said_of_a_large_log():
    """Every so many bytes, a quarter of a GiB where nothing else is asked for."""
    said: list[str] = []
    lines = io.BytesIO(b"x\n" * (5 * BLOCK_BYTES // 4))
    for _ in lines_of(lines, say=said.append, every=BLOCK_BYTES):
        pass
    assert said == ["1 MiB", "2 MiB"]


def test_a_folder_stands_for_the_logs_below_it(tmp_path):
    """What programs print to, in folders of torchrun and of Slurm too; data, code and settings are no logs."""
    logs = ("slurm-17.out", "job.o17", "a/attempt_0/0/stderr.log", "b/nccl_trace_rank_0", "rank0.log.3.gz", "r.log.1")
    for name in (*logs, "train.py", "model.pt", "config.yaml", "report.json", ".hidden.swp"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert sorted(logs_of(str(tmp_path))) == sorted(str(tmp_path / name) for name in logs)
    assert logs_of("-") == ["-"]
    assert logs_of(str(tmp_path / "train.py")) == [str(tmp_path / "train.py")]
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no log lies in this folder; name the files"):
        logs_of(str(tmp_path / "empty"))
