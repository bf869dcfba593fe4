"""What is sent to a node: our node code, and the psutil and netifaces that it needs and lacks?"""

from __future__ import annotations

import functools
import importlib.util
import marshal
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from preflight.node.agent import frames
from preflight.reach.session import bytecode
from preflight.reach.session.replies import Greeting

NODE_FOLDER = Path(__file__).parents[2] / "node"
ROOT = "preflight"
SENDABLE = ("psutil", "netifaces")
OF_OTHER_SYSTEMS = ("_psaix", "_psbsd", "_psosx", "_pssunos", "_pswindows")


@functools.cache
def _node_files() -> dict[str, Path]:
    """Module name -> file of everything that runs on a node."""
    files: dict[str, Path] = {}
    for path in sorted(NODE_FOLDER.rglob("*.py")):
        parts = path.relative_to(NODE_FOLDER).with_suffix("").parts
        files[".".join(("preflight.node", *parts)).removesuffix(".__init__")] = path
    return files


@functools.cache
def node_sources() -> dict[str, str]:
    """Module name -> text of everything that runs on a node."""
    return {"preflight": "", **{name: path.read_text(encoding="utf-8") for name, path in _node_files().items()}}


# What the loader runs first: it takes our bytecode where the interpreter speaks it (compiling costs a node 40 ms), asks
# for our text elsewhere, and starts the node agent, which has a lease. `i`, `sys` and `zlib` are the loader's own. Told
# how large the bytecode is, zlib makes it in one piece, and not in several that are then put together.
PROGRAM = """
import gc, marshal, _signal
gc.disable()
from _frozen_importlib_external import MAGIC_NUMBER
marker = i.read({marker})
code = i.read({code})
if MAGIC_NUMBER != {magic!r}:
    sys.stdout.buffer.write(marker + {wanted!r})
    sys.stdout.buffer.flush()
    code = i.read(int(i.readline()))
_signal.alarm(0)
sources = marshal.loads(zlib.decompress(code, zlib.MAX_WBITS, {size}))
first = sources["preflight.node.agent.bootstrap"]
exec(marshal.loads(first) if isinstance(first, bytes) else first)
start(sources, marker)
"""
CALLS = "preflight.node.calls."
AT_FIRST = (
    f"{CALLS}collect",
    f"{CALLS}own",
    f"{CALLS}peers",
)  # the code of these calls is sent when one of them is first made,
# and so are these, which neither the node agent nor the facts use.
NOT_AT_FIRST = tuple(
    f"preflight.node.{name}"
    for name in (
        "agent.strict",
        "agent.within",
        "sources.gpus.vendor",
        "sources.rank_files",
        "sources.rehearsal",
        "sources.rehearsal.output",
        "sources.rehearsal.tail",
        "sources.rehearsal.tracing",
        "sources.scrubbed",
    )
)


# Modules that only a node with GPUs, RDMA devices, an event in its log or a filter in its own way imports: a packet
# within the packet, which others never unpack.
OF_DEVICES = tuple(
    f"preflight.node.sources.{start}"
    for start in ("amd", "firewall", "gpu", "kernel.events", "kernel.lines", "qos", "rdma")
)
FIRST, DEVICES, REST = "first", "devices", "rest"
LATER = "later"  # as bootstrap.LATER, which nothing here may import


def _part(name: str) -> str:
    """Which part of the node code a module is in."""
    if name not in AT_FIRST and (name.startswith(CALLS) or name in NOT_AT_FIRST):
        return REST
    return DEVICES if name.startswith(OF_DEVICES) else FIRST


@functools.cache
def _packed(part: str, *, is_text: bool) -> bytes:
    """A part of the node code: as text, or as bytecode of this interpreter."""
    modules = {ROOT: NODE_FOLDER / "__init__.py", **_node_files()}
    files = {name: path for name, path in modules.items() if _part(name) == part}
    more = {LATER: _packed(DEVICES, is_text=is_text)} if part == FIRST else {}
    if not is_text:
        return bytecode.packed(files, name=part, more=more)
    texts = node_sources()
    # Version 2 of marshal holds strings and bytes in the same way for every Python 3.
    return zlib.compress(marshal.dumps({**{name: texts[name] for name in files}, **more}, 2), 9)


def first_message(marker: bytes) -> bytes:
    """What the loader on the node reads: a length, the program that starts the node agent, the marker, and the code."""
    return b"%s%s%s" % (_program(len(marker), importlib.util.MAGIC_NUMBER), marker, _packed(FIRST, is_text=False))


@functools.cache
def _program(marker_bytes: int, magic: bytes) -> bytes:
    """The program, compressed, after its length on a line: the same for all nodes."""
    code = _packed(FIRST, is_text=False)
    program = PROGRAM.format(
        marker=marker_bytes,
        code=len(code),
        size=len(zlib.decompress(code)),
        magic=magic,
        wanted=frames.encode(b"", {"wants": "text"}),
    )
    packed = zlib.compress(program.encode())
    return b"%d\n%s" % (len(packed), packed)


def as_text() -> bytes:
    """The same code as text, with its length in front, for a Python of another version."""
    text = _packed(FIRST, is_text=True)
    return b"%d\n%s" % (len(text), text)


def needs_rest(call: str) -> bool:
    """Whether a call needs more than what is sent at first."""
    return call != "facts"


def rest(magic: str) -> bytes:
    """All other code, for the interpreter of this bytecode."""
    return _packed(REST, is_text=magic != importlib.util.MAGIC_NUMBER.hex())


@dataclass(frozen=True)
class Modules:
    """Modules for a node: a table of contents and the bytes it points into."""

    contents: tuple[dict[str, Any], ...]
    blob: bytes


def missing_modules(hello: Greeting) -> Modules:
    """psutil and netifaces from our own installation, where the node lacks them and could load ours.

    ``hello`` is the node agent's greeting: interpreter, machine, extension suffix and what it lacks.
    """
    entries: list[dict[str, Any]] = []
    blob = bytearray()
    for name in SENDABLE:
        if name in hello.lacks and hello.machine == os.uname().machine:
            for entry, data in _package(name, hello.suffix, hello.magic):
                entries.append({**entry, "start": len(blob), "end": len(blob) + len(data)})
                blob += data
    return Modules(tuple(entries), bytes(blob))


@functools.cache
def _package(name: str, suffix: str, magic: str) -> tuple[tuple[dict[str, Any], bytes], ...]:
    """The modules of one package, or none when our build of it cannot run under the node's interpreter."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return ()
    origin = Path(spec.origin)
    is_package = spec.submodule_search_locations is not None
    # An extension may stand beside its package, as netifaces has _netifaces.
    beside = (origin.parent.parent if is_package else origin.parent).glob(f"_{name}.*.so")
    inside = [path for path in origin.parent.iterdir() if path.is_file()] if is_package else [origin]
    same_bytecode = magic == importlib.util.MAGIC_NUMBER.hex()
    entries: list[tuple[dict[str, Any], bytes]] = []
    for path in sorted(path for path in (*inside, *beside) if path.stem not in OF_OTHER_SYSTEMS):
        module = _module_name(name, path, is_inside=is_package and path in inside)
        if path.suffix == ".so":
            if not (path.name.endswith((".abi3.so", suffix))):
                return ()
            entries.append(({"name": module, "kind": "extension", "package": False}, path.read_bytes()))
        elif path.suffix == ".py":
            # Bytecode where both interpreters speak the same: compiling psutil costs a node 0.1 s.
            data = marshal.dumps(compile(path.read_bytes(), module, "exec")) if same_bytecode else path.read_bytes()
            kind = "code" if same_bytecode else "source"
            entries.append(({"name": module, "kind": kind, "package": path.name == "__init__.py"}, data))
    return tuple(entries)


def _module_name(package: str, path: Path, *, is_inside: bool) -> str:
    stem = path.name.split(".", 1)[0]
    if not is_inside:
        return stem
    return package if stem == "__init__" else f"{package}.{stem}"
