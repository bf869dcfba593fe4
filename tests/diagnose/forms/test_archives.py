"""Are the files of an archive found from its beginning?"""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile

import pytest

from preflight.diagnose.forms.archives import opener_of, tar_members, zip_members
from preflight.diagnose.forms.blocks import Blocks, Reading


def packed(method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Two files in a zip archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("a.log", "one" * 99)
        archive.writestr("b.log", "two")
    return out.getvalue()


def read(data: bytes) -> tuple[dict[str, bytes], str]:
    """What an archive holds, and why not all of it was read."""
    blocks = Blocks(iter([data]), Reading("x"))
    return {name: b"".join(content) for name, content in zip_members(blocks)}, blocks.reading.cut


def test_a_wrong_checksum_is_said():
    """Of what is stored as it is too."""
    data = packed(zipfile.ZIP_STORED)
    assert read(data) == ({"a.log": b"one" * 99, "b.log": b"two"}, "")
    assert read(data.replace(b"oneoneone", b"oneOneone", 1))[1] == "the checksum of a.log in it is wrong"


@pytest.mark.parametrize(
    ("at", "value", "reason"), [(6, 1, "a.log in it is encrypted"), (8, 9, "not known here (method 9)")]
)
def test_what_cannot_be_unpacked_is_said(at, value, reason):
    """A password, and methods that other programs have."""
    data = bytearray(packed())
    data[at] = value
    found, cut = read(bytes(data))
    assert (found, reason in cut) == ({}, True)


def test_what_is_no_archive_has_no_opener():
    """Text, and the beginning of one."""
    assert all(opener_of(Blocks(iter([data]), Reading("x"))) is None for data in (b"", b"PK", b"text\n" * 200))
    assert opener_of(Blocks(iter([packed()]), Reading("x"))) is zip_members


class Pipe(io.BytesIO):
    """What cannot go back to write a size into a header that has passed."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise OSError


def piped() -> bytes:
    """Two files in a zip archive whose checksums and sizes stand behind them."""
    out = Pipe()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.log", "one" * 99)
        archive.writestr("b.log", "two")
    return out.getvalue()


def large(*, before: bytes = b"") -> bytes:
    """A stored file whose size stands in the extra field of files of 4 GiB and more, behind other extras."""
    out = io.BytesIO()
    info = zipfile.ZipInfo("a.log")
    info.extra = before
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        with archive.open(info, "w", force_zip64=True) as entry:
            entry.write(b"one" * 99)
        archive.writestr("b.log", "two")
    return out.getvalue()


@pytest.mark.parametrize(
    "before", [b"", struct.pack("<HH4s", 0x5455, 4, b"time"), struct.pack("<HH8s", 1, 8, b"x" * 8)]
)
def test_the_size_of_a_large_file_stands_among_the_extras(before):
    """The first one that is long enough to hold both sizes, whatever stands before it."""
    assert read(large(before=before)) == ({"a.log": b"one" * 99, "b.log": b"two"}, "")


def test_a_large_file_without_its_size_is_read_to_the_end():
    """No extra tells it."""
    data = large().replace(struct.pack("<HH", 1, 16), struct.pack("<HH", 2, 16), 1)
    found, cut = read(data)
    assert found["a.log"].startswith(b"one" * 99)
    assert cut == "it ends in the middle of a file"


@pytest.mark.parametrize("make", [packed, lambda: packed(zipfile.ZIP_STORED), piped, large])
def test_a_zip_archive_that_ends_too_soon_is_read_as_far_as_it_goes(make):
    """Wherever it ends, with the reason; its list of files at the end is not needed."""
    data = make()
    whole, listed = b"one" * 99, data.index(b"PK\x01\x02")
    reasons = set()
    for length in range(1, listed):
        found, cut = read(data[:length])
        assert whole.startswith(found.get("a.log", b""))
        reasons.add(cut)
        assert cut.startswith(("it ends", "it breaks off", "the checksum")), length
    assert "it ends, or is damaged, in the middle of the archive" in reasons
    assert read(data[: listed + 4])[1] == ""


def test_a_checksum_behind_a_file_is_found_in_each_form():
    """With a mark of its own or without, and sizes of 32 or 64 bits."""
    data = piped()
    crc, small = data.index(b"PK\x07\x08") + 4, data.index(b"PK\x07\x08") + 16
    mark, sum_, sizes = data[crc - 4 : crc], data[crc : crc + 4], struct.unpack("<II", data[crc + 4 : small])
    for head in (mark, b""):
        for width in ("<II", "<QQ"):
            told = data[: crc - 4] + head + sum_ + struct.pack(width, *sizes) + data[small:]
            assert read(told) == ({"a.log": b"one" * 99, "b.log": b"two"}, "")
    assert read(data[: crc - 4] + b"no sum" * 9)[1] == "it ends, or is damaged, behind a file"
    assert read(data.replace(sum_, b"wrng", 1))[1] == "the checksum of a.log in it is wrong"


def test_a_tar_archive_that_ends_too_soon_is_read_as_far_as_it_goes():
    """Folders in it are passed over."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        folder = tarfile.TarInfo("logs")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name in ("logs/a.log", "logs/b.log"):
            info = tarfile.TarInfo(name)
            info.size = 60000
            archive.addfile(info, io.BytesIO(b"one" * 20000))
    data = out.getvalue()

    def members(held: bytes) -> tuple[dict[str, int], bool]:
        blocks = Blocks(iter([held]), Reading("x"))
        return {name: len(b"".join(content)) for name, content in tar_members(blocks)}, bool(blocks.reading.cut)

    assert opener_of(Blocks(iter([data]), Reading("x"))) is tar_members
    assert members(data) == ({"logs/a.log": 60000, "logs/b.log": 60000}, False)
    found, is_cut = members(data[:40000])
    assert (list(found), is_cut) == (["logs/a.log"], True)
    assert found["logs/a.log"] == 2 << 14  # of whole reads
