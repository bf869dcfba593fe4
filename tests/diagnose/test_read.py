"""Are logs read as they lie there: plain, packed, in archives, with progress bars, of any length and encoding?"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from preflight.diagnose import diagnose_files
from preflight.diagnose.forms.blocks import BLOCK_BYTES
from preflight.diagnose.found import Gap
from preflight.diagnose.read import LONGEST_LINE, lines_of, logs_in, logs_of
from preflight.said.errors import UsageError

TEXT = b"one\ntwo\nthree"
FULL = "OSError: [Errno 28] No space left on device: '/ckpt'\n"
LONG = "".join(f"step {n} loss {n % 7}.{n * 7919 % 1000}\n" for n in range(20_000))


def read(path: Path) -> list[bytes]:
    """The lines of all logs that a file holds."""
    gaps: list[Gap] = []
    lines = [line for _, blocks in logs_in(str(path), gaps) for _, line in lines_of(blocks)]
    assert gaps == []
    return lines


def by_program(*command: str):
    """Packed by the program itself."""

    def pack(data: bytes) -> bytes:
        return subprocess.run(command, input=data, capture_output=True, check=True).stdout

    return pack


def as_tar(data: bytes, name: str = "logs/rank3.log", mode: str = "w") -> bytes:
    """In a tar archive, beside what is no log."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for member, content in (("logs/config.yaml", b"x: 1\n"), (name, data)):
            info = tarfile.TarInfo(member)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def as_zip(data: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """In a zip archive, beside what is no log."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("model.json", "{}")
        archive.writestr("logs/rank3.log", data)
    return out.getvalue()


def as_piped_zip(data: bytes) -> bytes:
    """As a program writes one that cannot seek: sizes stand behind each file."""

    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.taken = b""

        def writable(self) -> bool:
            return True

        def write(self, data) -> int:
            self.taken += bytes(data)
            return len(data)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rank3.log", data)
        archive.writestr("rank4.log", "")
    return pipe.taken


FORMS = {
    "plain": bytes,
    "gzip": gzip.compress,
    "gzip, appended to": lambda data: gzip.compress(data[:5]) + gzip.compress(data[5:]) + b"\0" * 512,
    "xz": lzma.compress,
    "lzma": lambda data: lzma.compress(data, format=lzma.FORMAT_ALONE),
    "bzip2": lambda data: bz2.compress(data, 1),
    "tar": as_tar,
    "tar.gz": lambda data: gzip.compress(as_tar(data)),
    "tar.xz": lambda data: lzma.compress(as_tar(data)),
    "tar of a gzip": lambda data: as_tar(gzip.compress(data), "rank3.log.gz"),
    "zip": as_zip,
    "zip, stored": lambda data: as_zip(data, zipfile.ZIP_STORED),
    "zip, from a pipe": as_piped_zip,
    "bzip2 in a zip": lambda data: as_zip(bz2.compress(data)),
    "UTF-8 with a mark": lambda data: b"\xef\xbb\xbf" + data,
    **{
        f"{name}{' with a mark' if mark else ''}": lambda data, name=name, mark=mark: (mark + data.decode()).encode(
            name
        )
        for name in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
        for mark in ("", "\ufeff")
    },
    "UTF-16 in gzip": lambda data: gzip.compress(data.decode().encode("utf-16")),
    **{
        command[0]: by_program(*command)
        for command in (("zstd", "-qc"), ("lz4", "-qcB4"), ("xz", "-9c"), ("compress", "-c"))
        if shutil.which(command[0])
    },
}


def test_lines_are_counted_as_grep_counts_them():
    """From 1; what a progress bar wrote over stays on its line; the last line needs no end."""
    assert list(lines_of([b"a\r b\rc\nd\n\n", b"e"])) == [
        (1, b"a"),
        (1, b" b"),
        (1, b"c"),
        (2, b"d"),
        (3, b""),
        (4, b"e"),
    ]


def test_an_endless_line_takes_bounded_memory():
    """Its beginning and its end are kept."""
    lines = list(lines_of([b"A" * (1 << 20)] * 3 + [b" end"]))
    assert len(lines) == 1
    assert len(lines[0][1]) <= LONGEST_LINE + 1
    assert lines[0][1].endswith(b" end")


@pytest.mark.parametrize("form", FORMS)
def test_a_log_is_read_in_every_form(form, tmp_path):
    """By what the file holds, not by its name; text of other languages too."""
    path = tmp_path / "log"
    path.write_bytes(FORMS[form](TEXT))
    assert read(path) == [b"one", b"two", b"three"]
    text = "rank 0: étape 一 失败\n" * 9 + FULL
    path.write_bytes(FORMS[form](text.encode()))
    assert read(path) == text.encode().splitlines()
    assert [one.cause.name for one in diagnose_files([str(path)]).causes] == ["disk-full"]


@pytest.mark.parametrize("form", FORMS)
def test_a_log_is_read_from_a_pipe_in_every_form(form, tmp_path):
    """As one that lies there is."""
    (tmp_path / "log").write_bytes(FORMS[form](FULL.encode()))
    with open(tmp_path / "log", "rb") as log:
        ended = subprocess.run(
            [sys.executable, "-m", "preflight", "diagnose", "-"], stdin=log, capture_output=True, text=True, check=False
        )
    assert (ended.returncode, "disk-full" in ended.stdout) == (1, True)


CUT = ["gzip", "xz", "bzip2", "tar.gz", "tar.xz", "tar", "zip", "zip, stored", "zip, from a pipe", "tar of a gzip"]
CUT += [name for name in ("zstd", "lz4") if name in FORMS]


@pytest.mark.parametrize("form", CUT)
def test_what_is_cut_short_is_judged_as_far_as_it_goes(form, tmp_path):
    """And never taken for the whole: a failure in what was read stands, its absence says nothing."""
    for text, has_failed in ((FULL + LONG, False), (LONG[:200_000] + FULL * 9 + "x y z\n" * 9000, True)):
        packed = FORMS[form](text.encode()).rstrip(b"\0")
        path = tmp_path / "log"
        path.write_bytes(packed[: len(packed) * 19 // 20])
        found = diagnose_files([str(path)])
        assert [(gap.is_read, gap.reason.startswith("cut short: ")) for gap in found.gaps][:1] == [(True, True)]
        assert found.lines > 1000
        if not has_failed:
            assert not found.has_failed


def damaged(data: bytes) -> bytes:
    """With some bytes in its middle that are others."""
    middle = len(data) // 2
    return data[:middle] + bytes(255 - byte for byte in data[middle : middle + 64]) + data[middle + 64 :]


@pytest.mark.parametrize("form", [name for name in CUT if name not in ("tar", "zip, stored")])
def test_what_is_damaged_is_named(form, tmp_path):
    """A program that unpacks it fails, or its checksum is wrong."""
    path = tmp_path / "log"
    path.write_bytes(damaged(FORMS[form](LONG.encode())))
    gaps: list[Gap] = []
    for _, blocks in logs_in(str(path), gaps):
        list(lines_of(blocks))
    assert gaps


NO_TEXT = {
    "zeros": b"\0" * 5000,
    "random bytes": random.Random(5).randbytes(5000),
    "few random bytes": random.Random(6).randbytes(200),
    "numbers": b"".join(number.to_bytes(4, "little") for number in range(2000)),
    "random bytes in gzip": gzip.compress(random.Random(7).randbytes(5000)),
    "a mark and random bytes": b"\xff\xfe" + random.Random(8).randbytes(5000),
    "7-Zip": b"7z\xbc\xaf\x27\x1c" + b"a" * 100,
    "RAR": b"Rar!\x1a\x07" + b"a" * 100,
    "a journal": b"LPKSHHRH" + b"a" * 100,
    "gzip cut in its header": gzip.compress(LONG.encode())[:8],
    "xz cut in its header": lzma.compress(LONG.encode())[:20],
}


@pytest.mark.parametrize("kind", NO_TEXT)
def test_what_is_no_text_is_refused(kind, tmp_path):
    """With one line that says what it is; beside logs that can be read it is named with them."""
    path = tmp_path / "rank1.log"
    path.write_bytes(NO_TEXT[kind])
    with pytest.raises(UsageError, match=r"rank1\.log: not text: ") as refused:
        diagnose_files([str(path)])
    assert "\n" not in str(refused.value)
    (tmp_path / "rank0.log").write_text(FULL)
    found = diagnose_files([str(tmp_path)])
    assert [one.cause.name for one in found.causes] == ["disk-full"]
    assert [gap.file for gap in found.gaps] == [str(path)]


@pytest.mark.parametrize("encoding", ["gb18030", "latin-1", "shift_jis", "utf-8"])
def test_text_in_an_older_encoding_is_text(encoding, tmp_path):
    """What its letters mean does not matter to what programs print."""
    words = {"latin-1": "Schlüssel ungültig: dépassé ", "shift_jis": "エラー ファイル "}.get(encoding, "错误 文件 ")
    (tmp_path / "log").write_bytes((words * 20 + "\n" + FULL).encode(encoding))
    assert [one.cause.name for one in diagnose_files([str(tmp_path / "log")]).causes] == ["disk-full"]


@pytest.mark.parametrize("content", [b"\0" * 3_000_000 + FULL.encode(), FULL.encode() * 30 + b"\0" * 4096])
def test_zero_bytes_around_a_text_are_lines_that_are_lost(content, tmp_path):
    """Of a log that was emptied under its program, or of a node that lost its power."""
    (tmp_path / "log").write_bytes(content)
    found = diagnose_files([str(tmp_path / "log")])
    assert found.causes[0].cause.name == "disk-full"
    assert "zero bytes" in found.gaps[0].reason


def test_an_archive_without_a_log_is_named(tmp_path):
    """A model in a zip is none."""
    (tmp_path / "a.log").write_bytes(as_tar(TEXT, "model.bin"))
    with pytest.raises(UsageError, match="no log lies in this archive"):
        diagnose_files([str(tmp_path / "a.log")])


BOMB = """
import re, sys
from preflight.diagnose import diagnose_files
print(diagnose_files(sys.argv[1:]).lines, re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


@pytest.mark.parametrize("form", ["gzip", "xz", "zip, from a pipe", "zstd"])
def test_what_unpacks_to_far_more_takes_bounded_memory(form, tmp_path):
    """Lines and layers of any number."""
    if form not in FORMS:
        pytest.skip(f"the program {form} is not installed")
    text = (b"a" * 999 + b"\n") * 160_000
    packed = FORMS[form](text)
    path = tmp_path / "log"
    path.write_bytes(packed)
    lines, kib = map(int, subprocess.check_output([sys.executable, "-c", BOMB, str(path)], text=True).split())
    assert lines == 160_000
    assert kib <= 128 << 10  # less than it unpacks to


def test_more_layers_than_logs_have_are_refused(tmp_path):
    """They are made to harm."""
    data = TEXT
    for _ in range(9):
        data = gzip.compress(data)
    (tmp_path / "log").write_bytes(data)
    with pytest.raises(UsageError, match="not text: it is packed in more layers"):
        diagnose_files([str(tmp_path / "log")])


def test_a_file_that_is_not_there_is_named():
    """Before any other is read."""
    with pytest.raises(UsageError, match=r"none\.log: cannot be read: No such file"):
        diagnose_files(["/none.log"])


def test_how_far_it_is_is_said_of_a_large_log():
    """Every so many bytes, a quarter of a GiB where nothing else is asked for."""
    said: list[str] = []
    blocks = [b"x\n" * (BLOCK_BYTES // 2)] * 2 + [b"x\n" * (BLOCK_BYTES // 4)]
    for _ in lines_of(blocks, say=said.append, every=BLOCK_BYTES):
        pass
    assert said == ["1 MiB", "2 MiB"]


def test_a_folder_stands_for_the_logs_below_it(tmp_path):
    """What programs print to, in folders of torchrun and of Slurm too; data, code and settings are no logs."""
    logs = ("slurm-17.out", "job.o17", "a/attempt_0/0/stderr.log", "b/nccl_trace_rank_0", "rank0.log.3.gz", "r.log.1")
    packed = ("rank1.log.xz", "rank2.out.bz2", "all.tar.zst", "rest.zip", "stderr.lz4")
    for name in (*logs, *packed, "train.py", "model.pt", "config.yaml", "report.json", ".hidden.swp"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert sorted(logs_of(str(tmp_path))) == sorted(str(tmp_path / name) for name in (*logs, *packed))
    assert logs_of("-") == ["-"]
    assert logs_of(str(tmp_path / "train.py")) == [str(tmp_path / "train.py")]
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no log lies in this folder; name the files"):
        logs_of(str(tmp_path / "empty"))


def test_how_far_it_is_is_said_in_mebibytes():
    """After each part that was asked for, and not between."""
    said: list[str] = []
    blocks = [b"x\n" * 3, b"x\n", b"x\n" * (1 << 19), b"x\n"]
    assert len(list(lines_of(blocks, say=said.append, every=6))) == 5 + (1 << 19)
    assert said == ["0 MiB", "1 MiB"]


@pytest.mark.parametrize(("count", "others"), [(1, ""), (2, " (and 1 more that could not be read)")])
def test_files_of_which_none_can_be_read_are_told_by_the_first(tmp_path, count, others):
    """And by how many more there are; beside a log they are only gaps in what was read."""
    paths = [tmp_path / f"core{number}.log" for number in range(count)]
    for path in paths:
        path.write_bytes(b"\x7fELF\2\1\1\0" + bytes(99))
    names = [str(path) for path in paths]
    with pytest.raises(UsageError) as told:
        diagnose_files(names)
    reason = "not text: a program or core dump; `coredumpctl info` or gdb reads it"
    assert str(told.value) == f"{names[0]}: {reason}{others}"
    (tmp_path / "train.log").write_text("all is well\n")
    found = diagnose_files([*names, str(tmp_path / "train.log")])
    assert [(gap.file, gap.reason, gap.is_read) for gap in found.gaps] == [(name, reason, False) for name in names]


def test_the_standard_input_is_read_as_a_file_is(monkeypatch):
    """Packed too."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(b"one\ntwo\n"))))
    gaps: list[Gap] = []
    assert [line for _, blocks in logs_in("-", gaps) for line in lines_of(blocks)] == [(1, b"one"), (2, b"two")]
    assert gaps == []


def test_a_folder_of_very_many_logs_is_not_read_whole(tmp_path, monkeypatch):
    """Nor an archive of them: it is said how many there are, and where it was left."""
    monkeypatch.setattr("preflight.diagnose.read.MOST_LOGS", 2)
    for number in range(3):
        (tmp_path / f"rank{number}.log").write_text("one\n")
    with pytest.raises(UsageError, match=r"3 logs lie in this folder; name those of one job, at most 2$"):
        logs_of(str(tmp_path))
    with tarfile.open(tmp_path / "logs.tar", "w") as archive:
        for number in range(3):
            archive.add(tmp_path / f"rank{number}.log", f"rank{number}.log")
    gaps: list[Gap] = []
    names = [name for name, blocks in logs_in(str(tmp_path / "logs.tar"), gaps) if list(lines_of(blocks))]
    assert names == [f"{tmp_path}/logs.tar/rank{number}.log" for number in range(2)]
    assert [(gap.reason, gap.is_read) for gap in gaps] == [("cut short: more than 2 logs lie in it", True)]


def test_a_file_that_breaks_off_is_judged_as_far_as_it_was_read(monkeypatch):
    """The disk may fail in the middle of it."""

    class Failing(io.BytesIO):
        def read(self, size=-1):
            if self.tell():
                raise OSError(5, "Input/output error")
            return super().read(4)

    monkeypatch.setattr("builtins.open", lambda *_: Failing(b"one\ntwo\n"))
    gaps: list[Gap] = []
    lines = [line for _, blocks in logs_in("x.log", gaps) for line in lines_of(blocks)]
    assert lines == [(1, b"one")]
    assert [(gap.reason, gap.is_read) for gap in gaps] == [("cut short: it cannot be read: Input/output error", True)]
