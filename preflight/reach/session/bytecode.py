"""What is the node code as bytecode of this interpreter, as small as it can be sent?

A node pays for every byte: sshd decrypts it, Python decompresses it. So there are neither docstrings nor annotations
nor columns in it; tracebacks keep their lines. What was packed is kept beside Python's own bytecode: making it takes
longer than a login.
"""

from __future__ import annotations

import ast
import hashlib
import marshal
import os
import sys
import zlib
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType

CHECKSUM_BYTES = hashlib.sha256().digest_size
FOLDER = Path(__file__).parent / "__pycache__"
# From Python 3.11 on the position table of code holds columns too; these are the kinds of entries without them.
HAS_COLUMNS = sys.version_info >= (3, 11)
FIRST_BIT, LINE_ALONE, NOWHERE = 0x80, 13 << 3, 15 << 3
MOST_UNITS = 8  # of two bytes of code, covered by one entry


def packed(
    files: Mapping[str, Path], *, name: str, more: Mapping[str, bytes] | None = None, folder: Path = FOLDER
) -> bytes:
    """The compressed table of these modules, module name -> marshalled code; made again when a file has changed.

    `more` is put beside them as it is.
    """
    looks = [(module, str(path), *_look(path)) for module, path in files.items()]
    key = f"{sys.version} {MAGIC_NUMBER!r} {_look(Path(__file__))} {looks} {more}".encode()
    kept = folder / f"{name}.{sys.implementation.cache_tag}"
    with suppress(OSError):
        checksum, made = (data := kept.read_bytes())[:CHECKSUM_BYTES], data[CHECKSUM_BYTES:]
        if checksum == hashlib.sha256(key + made).digest():
            return made
    # Version 2 of marshal holds strings and bytes in the same way for every Python 3.
    table = {module: compiled(path, module) for module, path in files.items()}
    made = zlib.compress(marshal.dumps({**table, **(more or {})}, 2), 9)
    if not sys.dont_write_bytecode:
        _keep(kept, hashlib.sha256(key + made).digest() + made)
    return made


def compiled(path: Path, module: str) -> bytes:
    """The marshalled code of a file, under a name that reveals no path of ours."""
    tree = WithoutAnnotations().visit(ast.parse(path.read_text(encoding="utf-8")))
    code = compile(tree, f"<sent>/{module}", "exec", dont_inherit=True, optimize=2)
    return marshal.dumps(without_columns(code) if HAS_COLUMNS else code)


class WithoutAnnotations(ast.NodeTransformer):
    """A module without its annotations, and without the import that keeps them from being evaluated."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        """A parameter by its name alone."""
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """A function that does not say what it returns."""
        node.returns = None
        self.generic_visit(node)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        """What is assigned; nothing where a name is only declared."""
        return ast.copy_location(ast.Assign([node.target], node.value) if node.value else ast.Pass(), node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom | None:
        """Every import but that of __future__, which a node would read from its disk."""
        return None if node.module == "__future__" else node


def without_columns(code: CodeType) -> CodeType:
    """The same code, nested code included, with a table of lines but no columns."""
    constants = tuple(without_columns(held) if isinstance(held, CodeType) else held for held in code.co_consts)
    return code.replace(co_consts=constants, co_linetable=lines_alone(code))


def lines_alone(code: CodeType) -> bytes:
    """The table of positions as CPython's Objects/locations.md describes it, with lines only."""
    table = bytearray()
    before = code.co_firstlineno
    for start, end, line in code.co_lines():
        units = (end - start) // 2
        while units > 0:
            length = min(units, MOST_UNITS)
            if line is None:
                table.append(FIRST_BIT | NOWHERE | length - 1)
            else:
                table.append(FIRST_BIT | LINE_ALONE | length - 1)
                table += signed(line - before)
                before = line
            units -= length
    return bytes(table)


def signed(number: int) -> bytes:
    """A number in pieces of six bits, the lowest first; the sign is the lowest bit."""
    left = (-number << 1) | 1 if number < 0 else number << 1
    pieces = bytearray()
    while left > 63:
        pieces.append(64 | left & 63)
        left >>= 6
    pieces.append(left)
    return bytes(pieces)


def _keep(path: Path, data: bytes) -> None:
    """Write the file whole or not at all: the folder may belong to somebody else."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        try:
            beside.write_bytes(data)
            beside.replace(path)
        except OSError:
            beside.unlink(missing_ok=True)


def _look(path: Path) -> tuple[int, int]:
    """Time and size by which a changed file is noticed, as Python itself does."""
    status = path.stat()
    return status.st_mtime_ns, status.st_size
