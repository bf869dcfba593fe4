"""Does what is sent start a keeper on any Python, with what the node lacks and nothing else?"""

from __future__ import annotations

import importlib.util
import marshal
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from preflight.node.agent import bootstrap, frames, strict
from preflight.reach.session import payload, replies
from preflight.reach.transport import LOADER
from preflight.reach.transport.reach import UNREAD_SECONDS
from tests.node.wire import Wire

NODE = Path(payload.__file__).parents[2] / "node"
HERE = {
    "python": "3.9.0",
    "reached": (),
    "pid": 2,
    "machine": os.uname().machine,
    "suffix": importlib.machinery.EXTENSION_SUFFIXES[0],
    "magic": importlib.util.MAGIC_NUMBER.hex(),
}


def lacking(**words: object) -> payload.Modules:
    """What a node is sent whose greeting differs from this interpreter's in these words."""
    return payload.missing_modules(replies.Greeting(**{**HERE, **words}))


def words(message: bytes, marker: bytes) -> list[dict]:
    """What a node says that is sent this message and then nothing more."""
    argv = [sys.executable, "-I", "-S", "-B", "-c", LOADER]
    done = subprocess.run(argv, input=message, capture_output=True, timeout=20, check=False)
    decoder = frames.Decoder(marker, strict.strict_json)
    messages = [message for message, _ in decoder.feed(done.stdout)]
    assert messages, done.stderr.decode()
    assert decoder.noise == b""
    return messages


def test_all_of_the_node_code_is_sent_and_nothing_else():
    """Every file of node/, under its own name, and an empty package around it."""
    sources = payload.node_sources()
    paths = [path.relative_to(NODE.parents[1]).with_suffix("") for path in NODE.rglob("*.py")]
    names = {".".join(path.parts).removesuffix(".__init__") for path in paths}
    assert set(sources) == {"preflight", "preflight.node", *names}
    assert sources["preflight"] == ""
    assert sources["preflight.node.agent.frames"] == (NODE / "agent/frames.py").read_text()


def test_the_first_message_starts_a_keeper():
    """The loader on a bare interpreter, without site-packages, answers with a greeting."""
    marker = b"m" * 32
    hello = words(payload.first_message(marker), marker)[0]["hello"]
    assert hello["python"] == "{}.{}.{}".format(*sys.version_info[:3])
    assert hello["lacks"] == []


def test_an_agent_that_has_its_code_is_ended_by_its_lease_alone():
    """The loader's alarm, here a second, is stopped: a node may serve for hours."""
    wire = Wire(loader=LOADER.replace(f"alarm({UNREAD_SECONDS})", "alarm(1)"))
    try:
        wire.open(lease_seconds=2.0)
        assert wire.end_reason() == "lease"
    finally:
        wire.close()


def test_a_python_of_another_version_is_sent_what_it_can_run(monkeypatch):
    """Where the bytecode is another's, it asks for the text."""
    monkeypatch.setattr(importlib.util, "MAGIC_NUMBER", b"\x00\x01\r\n")
    marker = b"n" * 32
    wants, greeting, *_ = words(payload.first_message(marker) + payload.as_text(), marker)
    assert wants == {"wants": "text"}
    assert greeting["hello"]["magic"] == HERE["magic"]


def sent_at_first():
    """The text of every module in the first message, those of devices included."""
    first = marshal.loads(zlib.decompress(payload.as_text().partition(b"\n")[2]))
    return {**marshal.loads(zlib.decompress(first.pop(bootstrap.LATER))), **first}


@pytest.mark.parametrize("magic", [HERE["magic"], "00"])
def test_what_facts_do_not_need_comes_with_the_first_call_that_does(magic):
    """Nothing is sent twice, and nothing is left out."""
    first = sent_at_first()
    rest = marshal.loads(zlib.decompress(payload.rest(magic)))
    assert not first.keys() & rest.keys()
    assert {**first, **rest}.keys() == payload.node_sources().keys()
    assert isinstance(rest["preflight.node.calls.mesh"], bytes if magic == HERE["magic"] else str)
    assert {name for name in first if name.startswith("preflight.node.calls.")} == set(payload.AT_FIRST)


def test_the_first_message_tells_its_length_on_a_line():
    """The loader reads a line, then exactly that many bytes of compressed program."""
    length, _, rest = payload.first_message(b"m" * 32).partition(b"\n")
    program = zlib.decompress(rest[: int(length)]).decode()
    compile(program, "program", "exec")
    assert rest[int(length) :].startswith(b"m" * 32)


def test_two_runs_have_nothing_of_each_others():
    """The marker is the run's own, though the code is packed once."""
    assert payload.first_message(b"a" * 32) != payload.first_message(b"b" * 32)


def test_a_node_that_has_everything_is_sent_nothing():
    """Its own psutil is as good as ours, and nothing else is ever sent, whatever a greeting asks for."""
    modules = lacking(lacks=["tomllib"])
    assert modules == payload.Modules((), b"")


def test_the_table_of_contents_covers_the_bytes_that_follow():
    """Without gap or overlap, names once each, packages before what is in them."""
    modules = lacking(lacks=["psutil", "netifaces"])
    assert [entry["start"] for entry in modules.contents] == [0, *(entry["end"] for entry in modules.contents[:-1])]
    assert modules.contents[-1]["end"] == len(modules.blob)
    names = [entry["name"] for entry in modules.contents]
    assert len(set(names)) == len(names)
    assert {"psutil", "psutil._common", "netifaces", "_netifaces"} <= set(names)
    assert "psutil._pswindows" not in names
    assert {entry["name"] for entry in modules.contents if entry["package"]} == {"psutil", "netifaces"}


@pytest.mark.parametrize("name", ["psutil", "netifaces"])
def test_what_the_node_has_is_not_sent_beside_what_it_lacks(name):
    """Each module is decided by itself."""
    contents = lacking(lacks=[name]).contents
    names = {entry["name"].lstrip("_").partition(".")[0] for entry in contents}
    assert names == {name}


def test_bytecode_is_sent_only_to_who_speaks_it():
    """Another interpreter gets the text of the pure modules."""
    same = lacking(lacks=["psutil"])
    other = lacking(magic="00", lacks=["psutil"])
    assert {entry["kind"] for entry in same.contents} == {"code", "extension"}
    assert {entry["kind"] for entry in other.contents} == {"source", "extension"}


def test_a_build_for_another_python_is_not_sent():
    """An extension of this interpreter alone is no use to another: the node does without the module."""
    entries = lacking(suffix=".cpython-39-x86_64-linux-gnu.so", lacks=["netifaces"])
    builds = [path.name for path in Path(importlib.util.find_spec("_netifaces").origin).parent.glob("_netifaces.*.so")]
    assert bool(entries.contents) == all(name.endswith(".abi3.so") for name in builds)


def test_facts_need_nothing_that_comes_later():
    """What the node agent, facts and the question about peers import is all in the first message."""
    first = sent_at_first()
    wanted = {
        name
        for text in first.values()
        for folder, names in re.findall(r"from (preflight\.node[\w.]*) import ([\w, ]+)", text)
        for name in (folder, *(f"{folder}.{word}" for word in re.split(r"[, ]+", names)))
    } & payload.node_sources().keys()
    assert wanted <= first.keys()


def test_a_node_without_devices_leaves_their_code_packed():
    """What reads the answers of GPUs' and adapters' programs is in a packet that importing every collector leaves."""
    program = (
        "import sys, marshal, zlib\n"
        "sources = marshal.loads(zlib.decompress(sys.stdin.buffer.read()))\n"
        "exec(marshal.loads(sources['preflight.node.agent.bootstrap']))\n"
        "finder = MemoryFinder({}, set(), {}); finder.later = sources.pop(LATER); finder.add(sources)\n"
        "sys.meta_path.insert(0, finder)\n"
        "from preflight.node.calls import collect\n"
        "for name in collect.COLLECTORS: __import__(f'preflight.node.subjects.{name}')\n"
        "assert finder.later\n"
        "from preflight.node.sources.gpus import imex\n"
        "assert not finder.later\n"
    )
    code = payload._packed(payload.FIRST, is_text=False)
    subprocess.run([sys.executable, "-I", "-S", "-c", program], input=code, check=True, timeout=30)
