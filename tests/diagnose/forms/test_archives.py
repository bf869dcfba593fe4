"""Are the files of an archive found from its beginning?"""

from __future__ import annotations

import io
import zipfile

import pytest

from preflight.diagnose.forms.archives import opener_of, zip_members
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
