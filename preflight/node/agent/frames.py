r"""How do messages cross a pipe that other programs may scribble on?

A frame is ``<marker> <text length> <blob length> <crc32>\n<text><blob>\n``: the marker is random for every run, so
a banner, an rc file's echo or a frame of an earlier run is noise, and a cut or mangled frame is noticed.

What a node sends is strict JSON, because a node is not trusted. What the controller sends is marshalled: the node runs
our code anyway, and importing the json library there would cost 6 ms, more than all messages of a run.
"""

from __future__ import annotations

import marshal
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Message = dict[str, Any]
    Frame = tuple[Message, bytes]

FRAME_LIMIT_BYTES = 8 << 20
NOISE_KEPT_BYTES = 4096
HEADER_BYTES = 3 * 9 + 1


class FrameError(ValueError):
    """A frame whose length or checksum is wrong, or whose text is not what was to be in it."""


def encode(marker: bytes, message: Message, blob: bytes = b"") -> bytes:
    """A frame from a node to the controller. Raises ValueError for NaN and infinities, which JSON does not have."""
    return framed(marker, json_text(message).encode(), blob)


def order(marker: bytes, message: Message, blob: bytes = b"") -> bytes:
    """A frame from the controller to a node."""
    return framed(marker, marshal.dumps(message, 2), blob)  # version 2: every Python 3 reads it


def framed(marker: bytes, text: bytes, blob: bytes) -> bytes:
    """One frame."""
    return b"%s %08x %08x %08x\n%s%s\n" % (marker, len(text), len(blob), zlib.crc32(blob, zlib.crc32(text)), text, blob)


def json_text(value: Any) -> str:
    """JSON without spaces. Raises ValueError for NaN and infinities, which it does not have."""
    if _compiled is not None:
        return "".join(_compiled(value, 0))
    import json

    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _refuse(value: Any) -> None:
    raise TypeError(f"JSON has no {type(value).__name__}")


try:
    from _json import encode_basestring_ascii, make_encoder
except ImportError:  # not CPython
    _compiled = None
else:
    # What json.JSONEncoder makes of the same words; the rest of that library takes 6 ms to load.
    _compiled = make_encoder(None, _refuse, encode_basestring_ascii, None, ":", ",", False, False, False)


def unmarshalled(text: bytes) -> Message:
    """A message of the controller: only the checksum of its frame is checked."""
    message: Message = marshal.loads(text)  # noqa: S302 - it comes from where our code comes from
    return message


class Decoder:
    """Bytes in, messages out. Text outside frames is counted, and the first of it kept."""

    def __init__(self, marker: bytes, read: Callable[[bytes], Message]) -> None:
        self.marker = marker
        self.read = read
        self.noise = b""
        self.noise_bytes = 0
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """The (message, blob) pairs that are complete now. Raises FrameError for a frame that is wrong."""
        return [self._open(frame) for frame in self.cut(data)]

    def cut(self, data: bytes) -> list[bytes]:
        """The frames that are complete now, unopened. Raises FrameError for a header that is wrong."""
        self._buffer += data
        whole: list[bytes] = []
        while True:
            start = self._buffer.find(self.marker)
            if start < 0:
                self._drop(max(0, len(self._buffer) - len(self.marker) + 1))
                return whole
            if start:
                self._drop(start)
            length = self._frame_bytes()
            if not length or len(self._buffer) < length:
                return whole
            whole.append(bytes(self._buffer[:length]))
            del self._buffer[:length]

    def text(self) -> str:
        """What came outside frames, the unfinished rest included, for people."""
        return (self.noise + bytes(self._buffer))[:NOISE_KEPT_BYTES].decode("utf-8", "replace").strip()

    def _drop(self, count: int) -> None:
        dropped = bytes(self._buffer[:count])
        del self._buffer[:count]
        if dropped.strip():
            self.noise_bytes += len(dropped)
            self.noise = (self.noise + dropped)[:NOISE_KEPT_BYTES]

    def _frame_bytes(self) -> int:
        """How long the frame at the start of the buffer is; 0 while its header is not here."""
        body = len(self.marker) + HEADER_BYTES
        if len(self._buffer) < body:
            return 0
        text_length, blob_length, _ = self._header(bytes(self._buffer[:body]))
        if text_length + blob_length > FRAME_LIMIT_BYTES:
            raise FrameError(f"a frame of {text_length + blob_length} bytes; wanted at most {FRAME_LIMIT_BYTES}")
        return body + text_length + blob_length + 1

    def _header(self, frame: bytes) -> tuple[int, int, int]:
        try:
            _, *words = frame[len(self.marker) : len(self.marker) + HEADER_BYTES].split(b" ")
            first, second, third = words
            text_length, blob_length, checksum = int(first, 16), int(second, 16), int(third, 16)
            if text_length < 0 or blob_length < 0:  # else the frame would stay in the buffer, and be read forever
                raise ValueError("a length below 0")
        except ValueError:
            raise FrameError("a frame's header is not three numbers") from None
        return text_length, blob_length, checksum

    def _open(self, frame: bytes) -> Frame:
        text_length, _, checksum = self._header(frame)
        body = len(self.marker) + HEADER_BYTES
        text, blob = frame[body : body + text_length], frame[body + text_length : -1]
        if (zlib.crc32(blob, zlib.crc32(text)) if blob else zlib.crc32(text)) != checksum:
            raise FrameError("a frame's checksum does not match")
        return self.read(text), blob
