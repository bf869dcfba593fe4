"""Which files does an archive hold? Read from its beginning, as one from a pipe must be."""

from __future__ import annotations

import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator

from preflight.diagnose.forms.blocks import BLOCK_BYTES, Blocks
from preflight.diagnose.forms.packed import RAW_FORM, Inflater, inflated
from preflight.said import said

TAR_HEADER = 512
TAR_READ = 1 << 14  # bytes at a time: tarfile drops those of the read in which the archive ends too soon
ZIP_ENTRY, ZIP_END = b"PK\x03\x04", (b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x08")
ZIP_DESCRIPTOR = b"PK\x07\x08"
ZIP_HEADER = struct.Struct("<4sHHHHHIIIHH")
ENCRYPTED, DESCRIBED_BEHIND = 1, 8  # bits of an entry's flags
STORED, DEFLATED = 0, 8
LARGE = 0xFFFFFFFF  # then the size stands among the extras
OF_SIZES = 1  # the extra that holds it
Members = Iterator[tuple[str, Blocks]]


def opener_of(blocks: Blocks) -> Callable[[Blocks], Members] | None:
    """What lists the files of the archive that the blocks are; None where they are none."""
    head = blocks.peek(TAR_HEADER)
    if head.startswith((ZIP_ENTRY, *ZIP_END)):
        return zip_members
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")  # the header's own checksum decides
    except tarfile.HeaderError:
        return None
    return tar_members


def tar_members(blocks: Blocks) -> Members:
    """Files of a tar archive, each to be read before the next one."""
    try:
        with tarfile.open(fileobj=blocks, mode="r|", ignore_zeros=False) as archive:  # type: ignore[call-overload]
            for member in archive:
                archive.members = []  # tarfile keeps them all otherwise
                opened = archive.extractfile(member) if member.isreg() else None
                if opened is not None:
                    yield member.name, Blocks(_of_tar(opened.raw, blocks), blocks.reading)
    except (tarfile.TarError, OSError, ValueError) as error:
        blocks.reading.cut_short(said("it breaks off: {error}", error))


def _of_tar(raw: tarfile.ExFileObject, blocks: Blocks) -> Iterator[bytes]:
    """The bytes of one file; its raw reader, as the buffered one drops what it has when the archive ends too soon."""
    try:
        while block := raw.read(TAR_READ):
            yield block
    except (tarfile.TarError, OSError) as error:
        blocks.reading.cut_short(said("it breaks off: {error}", error))


def zip_members(blocks: Blocks) -> Members:
    """Files of a zip archive, each to be read before the next one; the directory at its end is not needed."""
    while True:
        head = blocks.read(ZIP_HEADER.size)
        if head.startswith(ZIP_END):
            return
        if len(head) < ZIP_HEADER.size or not head.startswith(ZIP_ENTRY):
            blocks.reading.cut_short("it ends, or is damaged, in the middle of the archive")
            return
        _, _, flags, method, _, _, crc, packed, _, name_length, extra_length = ZIP_HEADER.unpack(head)
        name = blocks.read(name_length).decode("utf-8", "replace")
        extra = blocks.read(extra_length)
        if packed == LARGE:
            packed = _size_of(extra)
        if flags & ENCRYPTED:
            blocks.reading.cut_short(said("{name} in it is encrypted", name))
            return
        if method == DEFLATED:
            content = Checked(inflated(blocks, Inflater(RAW_FORM)))
        elif method == STORED and not flags & DESCRIBED_BEHIND:
            content = Checked(_stored(blocks, packed))
        else:
            blocks.reading.cut_short(
                said("{name} in it is packed in a way that is not known here (method {method})", name, method)
            )
            return
        yield name, Blocks(content, blocks.reading)
        for _ in content:  # what the reader left
            pass
        if flags & DESCRIBED_BEHIND and not blocks.reading.cut:
            crc = _descriptor(blocks)
        if content.crc != crc:
            blocks.reading.cut_short(said("the checksum of {name} in it is wrong", name))
        if blocks.reading.cut:
            return


def _size_of(extra: bytes) -> int:
    """The packed size of a file that may have more than 4 GiB: behind the unpacked one."""
    while len(extra) >= 4:
        kind, length = struct.unpack("<HH", extra[:4])
        if kind == OF_SIZES and length >= 16 and len(extra) >= 20:  # fewer are there where the archive ends in it
            return int(struct.unpack("<Q", extra[12:20])[0])
        extra = extra[4 + length :]
    return LARGE


def _stored(blocks: Blocks, count: int) -> Iterator[bytes]:
    while count > 0:
        block = blocks.read(min(count, BLOCK_BYTES))
        if not block:
            blocks.reading.cut_short("it ends in the middle of a file")
            return
        count -= len(block)
        yield block


class Checked:
    """Blocks with the checksum of what has passed."""

    def __init__(self, content: Iterator[bytes]) -> None:
        self.crc = 0
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        block = next(self._content)
        self.crc = zlib.crc32(block, self.crc)
        return block


def _descriptor(blocks: Blocks) -> int:
    """The checksum behind a file, with sizes of 32 or 64 bits, and with or without a mark of its own."""
    head = blocks.peek(28)
    start = 4 if head.startswith(ZIP_DESCRIPTOR) else 0
    for length in (start + 12, start + 20):
        if head[length : length + 4] in (ZIP_ENTRY, *ZIP_END):
            return int.from_bytes(blocks.read(length)[start : start + 4], "little")
    blocks.reading.cut_short("it ends, or is damaged, behind a file")
    return 0
