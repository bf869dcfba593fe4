"""What do tests/data/said/ranked.txt list of where a rank is: what it says on arrival, and of NCCL?"""

from __future__ import annotations

import builtins
import codecs
import fcntl
import io
import os
import resource
import socket
import sys
import tempfile
import types
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch

from preflight.job.ranks.bench import nccl
from preflight.job.ranks.rehearsal import place
from tests.instead import entries, instead, instead_of

MOUNTS = """overlay / overlay rw 0 0
tmpfs /dev/shm tmpfs rw 0 0
nfs:/x /home nfs4 rw 0 0
lustre /home/user lustre rw 0 0
disk /data ext4 rw 0 0
odd /home/user/deep
"""
LOCKED = 1_000_000.0


def known(asked: list[Any], told: Any, *words: Any, **named: Any) -> Any:
    """What is told whatever is asked."""
    asked.append((*words, *(f"{name}={int(value)}" for name, value in named.items())))
    return told


def of_arrivals() -> Iterator[str]:
    """The whole record of a rank that has just come, and that of what torch loads."""
    status = types.SimpleNamespace(f_frsize=4096, f_blocks=100, f_bavail=7)
    texts = {"/proc/self/cgroup": "0::/" + "x" * 400, "/proc/self/mounts": MOUNTS}
    for network, linked in product(("", "net:[1]", "net:[2]"), ("net:[1]", None)):
        asked: list[Any] = []
        with (
            entries("os.environ", {"HOME": "/home/user", "NCCL_X": "y" * 1100}, clear=True),
            instead(os, "statvfs", partial(known, asked, status)),
            instead(os, "readlink", gives=linked, does=None if linked else OSError),
            instead(socket, "gethostname", gives="gpu0"),
            instead_of(os, getpid=lambda: 5, getppid=lambda: 4, geteuid=lambda: 1000, getcwd=lambda: "/work"),
            instead_of(sys, executable="/bin/python", version_info=(3, 12, 4, "final", 0)),
            instead(resource, "getrlimit", lambda number: (number + 100, 0)),
            instead_of(place, text_of=lambda path: texts.get(path, ""), left_locks=lambda path: [path]),
            instead(place, "time", types.SimpleNamespace(time=lambda: 9.5)),
            instead(os, "access", lambda path, _mode: path != "/"),
        ):
            told = place.arrived(["python", "t.py"], ["RANK"], network)
        if network == "net:[2]" and linked:
            told["variables"] = {name: len(value) for name, value in told["variables"].items()}
            limits = {name: told["limits"][name] - 100 == number for name, number in place.LIMITS.items()}
            yield f"{ {**told, 'limits': limits, 'cgroup': len(told['cgroup'])} } {asked}"
        yield f"{network} {linked}: {told['own_network']}"
    for count in (0, 2):
        cuda = types.SimpleNamespace(
            device_count=lambda count=count: count,
            nccl=types.SimpleNamespace(version=lambda: (2, 20)),
            get_device_properties=lambda number: types.SimpleNamespace(**({"uuid": "GPU-a"} if number else {})),
        )
        with (
            instead(torch, "cuda", cuda),
            instead(torch.version, "cuda", "12.4" if count else None),
            instead_of(torch, __version__="2.9", __file__="/lib/torch/__init__.py"),
        ):
            yield f"{place.loaded()}"


def of_folders() -> Iterator[str]:
    """On which file system a folder is, whether a lock is old and held, and how many are looked for."""
    with instead(place, "text_of", gives=MOUNTS), instead(os.path, "realpath", str):
        paths = ("", "/", "/home", "/home/user", "/home/user2", "/home/user/deep/er", "/data", "/data/x", "/dev/shm/x")
        yield f"{[(path, place.file_system(path)) for path in paths]}"
    with instead(place, "text_of", gives=""):
        yield f"{place.file_system('/')!r}"
    status = types.SimpleNamespace(f_frsize=4096, f_bavail=7)
    with instead(os, "statvfs", lambda path: status if path == "/" else None):
        yield f"{place.free('/')} {place.free('')}"
    with tempfile.TemporaryDirectory() as name:
        lock = Path(name) / "lock"
        lock.write_text("")
        for age in (59.0, 60.0, 60.5, 61.5):
            os.utime(lock, (LOCKED, LOCKED))
            with instead(place, "time", types.SimpleNamespace(time=lambda age=age: LOCKED + age)):
                yield f"{age}: {place.is_old(str(lock))} {place.is_old(name + '/none')}"
        for how in (None, fcntl.LOCK_SH, fcntl.LOCK_EX):
            with open(lock, "rb") as file:
                if how is not None:
                    fcntl.flock(file, how)
                yield f"held {how}: {place.is_held(str(lock))} {place.is_held(name + '/none')}"
                os.utime(lock, (LOCKED, LOCKED))
                yield f"  {len(place.left_locks(name))}"
        for number in range(7):
            (Path(name) / str(number)).mkdir()
            (Path(name) / str(number) / "lock").write_text("")
            os.utime(Path(name) / str(number) / "lock", (LOCKED, LOCKED))
        ordered = [(name, [], ["lock"]), *((f"{name}/{number}", [], ["lock"]) for number in range(7))]
        for most, entries in ((4, 5000), (5, 5000), (9, 5000), (9, 4), (9, 5), (9, 6)):
            with (
                instead_of(place, MOST_LOCKS=most, MOST_ENTRIES=entries),
                instead(os, "walk", gives=ordered),
            ):
                yield f"{most} {entries}: {[path.removeprefix(name) for path in place.left_locks(name)]}"
    for names in (["lock", "a.cubin"], ["lock", "a.hsaco"], ["__grp__a"], ["lock", "cubin"], []):
        yield f"{names}: {place.has_result(names)}"
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "text").write_bytes(b"\xffab" * 40000)
        text = place.text_of(f"{name}/text")
        yield f"{len(text)} {text[:2]!r} {place.text_of(f'{name}/none')!r}"
    yield from of_ways()


class Probe:
    """A socket that finds a way to some addresses."""

    def __init__(self, *_words: Any) -> None:
        self.target: Any = None

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def connect(self, target: Any) -> None:
        """Look for a way."""
        if target[0].startswith("10."):
            raise OSError(101, "Network is unreachable")
        self.target = target

    def getsockname(self) -> Any:
        """Where we are."""
        return ("1.1.1.1", 0)


def of_ways() -> Iterator[str]:
    """Whether the place to meet leads anywhere, and to this node."""
    for port, addresses in product(
        ("0", "1", "65535", "65536", "x", ""), (["1.1.1.1"], ["2.2.2.2"], ["10.0.0.1", "2.2.2.2"], ["10.0.0.1"], [])
    ):
        if port != "1" and len(addresses) != 2:
            continue
        asked: list[Any] = []
        found = [(2, 2, 17, "", (address, 1)) for address in addresses]
        with (
            entries("os.environ", {"MASTER_ADDR": "node1", "MASTER_PORT": port}),
            instead(socket, "getaddrinfo", partial(known, asked, found)),
            instead(socket, "socket", Probe),
        ):
            yield f"{port} {addresses}: {place.meeting_place()} {asked}"
    for error in (UnicodeError("label too long"), socket.gaierror(-2, "unknown"), OSError("odd")):
        with (
            entries("os.environ", {"MASTER_ADDR": "node1", "MASTER_PORT": "1"}),
            instead(socket, "getaddrinfo", does=error),
        ):
            yield f"{place.meeting_place()['error']}"


MAPS = """7f00-7f01 r-xp 00000000 08:01 131 /opt/a b/libnccl.so.2
7f01-7f02 r--p 00000000 08:01 131 /opt/a b/libnccl.so.2
7f03-7f04 r--p 00000000 08:01 132 /usr/lib/libnccl.so.2.20
7f05-7f06 r--p 00000000 08:01 133 /usr/lib/libc.so.6
7f07-7f08 rw-p 00000000 00:00 0
"""
TOPOLOGY = """<system><cpu numaid="1" arch="x86_64" vendor="GenuineIntel" modelid="143">
<pci link_speed="32.0 GT/s PCIe" link_width="16"><pci link_width="8">
<gpu dev="0" gdr="1"><nvlink count="4"/><nvlink/></gpu>
</pci><pci link_speed="16.0 GT/s PCIe"><nic><net dev="2" speed="400000" gdr="1"/><net/></nic></pci></pci><gpu/></cpu>
<cpu/><graphs><graph id="0" nchannels="8" speedintra="24" speedinter="24.5" typeintra="NVL" typeinter="PIX">
<gpu dev="9"/>
</graph><graph/></graphs></system>"""


def opened(maps: str, path: str, *, encoding: str) -> io.StringIO:
    """What this process has mapped."""
    codecs.lookup(encoding)
    return io.StringIO(maps if path == "/proc/self/maps" else "")


def of_nccl() -> Iterator[str]:
    """Which NCCL is in use, what it found of the node, and where it is to write that."""
    version = types.SimpleNamespace(version=lambda: (2, 20, 5))
    for maps in (MAPS, ""):
        with (
            instead(builtins, "open", partial(opened, maps)),
            instead(torch.cuda, "nccl", version),
        ):
            yield nccl.nccl_in_use()
    with tempfile.TemporaryDirectory() as name:
        for text in (TOPOLOGY, "<system", "<system/>"):
            (Path(name) / "dump").write_text(text)
            yield f"{nccl.nccl_dump(f'{name}/dump')}"
        yield f"{nccl.nccl_dump(f'{name}/none')}"
        (Path(name) / "log").write_bytes(
            b"\xffn:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0\n NCCL WARN \n" + b"Using network x" + b"y" * 2200
        )
        yield f"{[(line[:60], len(line)) for line in nccl.nccl_lines(f'{name}/log')]}"
    for environ in ({}, {"LOCAL_RANK": "0"}, {"LOCAL_RANK": "1"}):
        with entries("os.environ", environ, clear=True):
            nccl.dump_topology("/t/log", 5)
            yield f"{dict(os.environ)}"
