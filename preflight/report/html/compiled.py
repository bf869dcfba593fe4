"""Where is a compiled template kept? Beside Python's own: to compile the page takes longer than to fill it.

As with modules, what cannot be written is compiled again by the next run.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import sys
from contextlib import suppress
from importlib.util import MAGIC_NUMBER
from pathlib import Path

from jinja2 import bccache, compiler

from preflight.report.files import write_atomically


class Compiled(bccache.BytecodeCache):
    """The code of one template in a file, good for its very text, for these options and for this Jinja and Python."""

    def __init__(self, path: Path, options: object) -> None:
        self.path = path.with_name(f"{path.name}.{sys.implementation.cache_tag}")
        self.compiler = f"{options!r} {os.stat(compiler.__file__).st_mtime_ns} {MAGIC_NUMBER!r}"

    def get_source_checksum(self, source: str) -> str:
        """Of the text of a template and of what compiles it."""
        return hashlib.sha256(f"{self.compiler}\n{source}".encode()).hexdigest()

    def load_bytecode(self, bucket: bccache.Bucket) -> None:
        """Fill the bucket, where there is a file for this very text."""
        with suppress(OSError, EOFError, ValueError, TypeError):
            checksum, _, code = self.path.read_bytes().partition(b"\n")
            if checksum == bucket.checksum.encode():
                bucket.code = marshal.loads(code)  # noqa: S302 - ours, from where our modules come from

    def dump_bytecode(self, bucket: bccache.Bucket) -> None:
        """Write the bucket's code whole or not at all, unless Python was told to write none."""
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                self.path.parent.mkdir(exist_ok=True)
                write_atomically(self.path, b"%s\n%s" % (bucket.checksum.encode(), marshal.dumps(bucket.code)))
