"""Which cluster answers where there is none: thousands of nodes, consistent twins, that speak the real protocol?

A program called ``ssh`` stands first on the PATH; it hands its standard input and output to one server, which reads the
node agent that it is sent, takes the run's marker out of it, and says what the node of that name would say. Nothing of
preflight is replaced: it starts ssh, and counts, decodes and judges what comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from preflight.node.agent import frames
from preflight.testing.hardware import node_address
from preflight.testing.nodes import node_facts

SSH = """#!/usr/bin/perl
shift @ARGV while $ARGV[0] ne '--';
socket(S, 1, 1, 0); connect(S, pack('S a*', 1, '{path}')) or die "ssh: no stub: $!";
syswrite(S, "$ARGV[1]\\n");
my ($in, $out, $heard) = ('', '', 0); my $open = 1;
while (1) {{
  $in = ''; vec($in, fileno(S), 1) = 1; vec($in, 0, 1) = 1 if $open;
  select($out = $in, undef, undef, undef);
  if ($open && vec($out, 0, 1)) {{
    if (sysread(STDIN, $b, 262144)) {{ my $at = 0; $at += syswrite(S, $b, length($b) - $at, $at) while $at < length $b; }}
    else {{ $open = 0; shutdown(S, 1); }}
  }}
  if (vec($out, fileno(S), 1)) {{
    if (sysread(S, $b, 262144)) {{
      $heard = 1; my $at = 0; $at += syswrite(STDOUT, $b, length($b) - $at, $at) while $at < length $b;
    }} else {{ last; }}
  }}
}}
unless ($heard) {{ print STDERR "ssh: connect to host $ARGV[1] port 22: Connection timed out\\n"; exit 255; }}
"""
SIZES = re.compile(rb"i\.read\((\d+)\), i\.read\((\d+)\)")
MARKER = re.compile(rb"start\(sources, b'([0-9a-f]+)'\)")
VARIABLES = {
    "MASTER_ADDR": "node1",
    "MASTER_PORT": "29500",
    "NCCL_SOCKET_IFNAME": "eth",
    "NCCL_IB_HCA": "mlx5",
    "NCCL_IB_GID_INDEX": "3",
    "NCCL_NET_PLUGIN": "libnccl-net.so",
}
OF_THE_FIRST_ROUND = (
    *("gpu", "network", "ports", "environment", "limits", "machine"),
    *("software", "rdma", "kernel", "identity"),
)
FAULTS = ("dead", "silent", "lying")


class Twins:
    """What node1 to nodeN say; each is told apart as real nodes are: names, addresses, serial numbers."""

    def __init__(self, count: int) -> None:
        names = [f"node{number}" for number in range(1, count + 1)]
        wanted = names if len(names) < 256 else names[:256]
        made = node_facts(names[0], wanted, gpu_count=8, variables=VARIABLES)
        held = {name: msgspec.to_builtins(value) for name, value in made.items() if name not in ("peers", "trust")}
        held["files"] = {**held["files"], "shared": [], "same": []}
        for fact in ("offset_seconds", "uncertainty_seconds"):
            del held["ending"][fact]
        self.texts = {name: frames.json_text(value).encode() for name, value in held.items()}

    def event(self, name: str, subject: str) -> bytes:
        """The facts of one subject of a node, as JSON."""
        number = int(name.removeprefix("node"))
        text = self.texts[subject]
        if subject == "identity":
            text = text.replace(b'"node1"', b'"%s"' % name.encode()).replace(b"boot-1:1", b"boot-%d:1" % number)
        if subject in ("identity", "network"):
            text = text.replace(b'"10.0.0.1"', b'"%s"' % node_address(number).encode())
        if subject == "rdma":
            for rail in range(8):
                text = text.replace(
                    b"ffff:0a01:%02x01" % rail, b"ffff:0a%02x:%02x%02x" % (1 + (number >> 8), rail, number & 255)
                )
        if subject in ("gpu", "ending"):
            text = re.sub(rb'"GPU-(\d)"', rb'"GPU-%08x-73c5-b5e4-\1"' % (number * 2654435761 % 2**32), text)
        return text


def peers_of(name: str, order: dict[str, Any]) -> dict[str, Any]:
    """Every name resolves, and every route leaves by the one interface."""
    source = node_address(int(name.removeprefix("node")))
    routes = [
        {
            "name": peer["name"],
            "address": peer["address"],
            "resolved": [peer["address"]],
            "resolved_fqdn": [peer["address"]],
            "interface": "eth0",
            "source": source,
        }
        for peer in order["peers"]
    ]
    return {
        "routes": routes,
        "master_addresses": [node_address(1)],
        "master_port_error": "",
        "master_port_holder": "",
    }


class Node:
    """The agent of one node, from its first byte to its last."""

    def __init__(self, twins: Twins, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.twins, self.reader, self.writer = twins, reader, writer
        self.marker = b""
        self.held: dict[int, str] = {}

    async def serve(self, faults: Mapping[str, str]) -> None:
        """Answer until it is told to end; a fault shows itself in its own way."""
        name = (await self.reader.readline()).decode().strip()
        fault = faults.get(name, "")
        if fault == "dead":
            return
        await self._load()
        if fault == "silent":
            await self.reader.read()  # until the controller lets go
            return
        self.say({"hello": HELLO})
        decoder = frames.Decoder(self.marker, frames.unmarshalled)
        while data := await self.reader.read(1 << 18):
            for message, _ in decoder.feed(data):
                if "close" in message:
                    self.say({"end": {"reason": "closed", "residue": []}})
                    return
                self.obey(name, message, fault)
            await self.writer.drain()

    async def _load(self) -> None:
        program = zlib.decompress(await self.reader.readexactly(int(await self.reader.readline())))
        sizes, marker = SIZES.search(program), MARKER.search(program)
        assert sizes is not None
        assert marker is not None
        await self.reader.readexactly(int(sizes[1]) + int(sizes[2]))
        self.marker = marker[1]

    def say(self, message: dict[str, Any]) -> None:
        """One frame."""
        self.writer.write(frames.encode(self.marker, message))

    def tell(self, number: int, name: str, subject: str) -> None:
        """One subject's facts, in a frame."""
        text = b'{"call":%d,"event":{"subject":"%s","facts":%s}}' % (
            number,
            subject.encode(),
            self.twins.event(name, subject),
        )
        self.writer.write(frames.framed(self.marker, text, b""))

    def obey(self, name: str, message: dict[str, Any], fault: str) -> None:
        """One order of the controller."""
        if "open" in message:
            self.say({"opened": message["open"]["run"]})
        elif "ping" in message:
            self.say({"pong": message["ping"], "time": time.time()})
        elif "call" in message:
            self.held[message["call"]] = message["name"]
            self.begin(name, message["call"], message["name"], message["arguments"], fault)
        elif "send" in message and message["to"] in self.held:
            self.go_on(name, message["to"], message["send"])

    def begin(self, name: str, number: int, call: str, arguments: dict[str, Any], fault: str) -> None:
        """The first words of a call; of most also the last."""
        if call == "facts":
            for subject in OF_THE_FIRST_ROUND:
                self.tell(number, name, subject)
            if fault == "lying":
                self.tell(number, name, "gpu")
            self.say({"call": number, "event": {"collected": True}})
        elif call == "ending":
            text = b'{"call":%d,"event":{"facts":%s}}' % (number, self.twins.event(name, "ending"))
            self.writer.write(frames.framed(self.marker, text, b""))
            self.end(number, {})
        elif call == "files":
            self.end(number, msgspec.json.decode(self.twins.texts["files"]))
        elif call == "peers":
            self.end(number, peers_of(name, arguments))
        elif call == "mesh":
            self.say({"call": number, "event": {"listening": [arguments["address"], arguments.get("port") or 40000]}})

    def go_on(self, name: str, number: int, order: dict[str, Any]) -> None:
        """What is sent into a call that runs."""
        if self.held[number] == "facts":
            if order.get("peers"):
                facts = peers_of(name, order["peers"])
                self.say({"call": number, "event": {"subject": "peers", "facts": facts}})
            self.end(number, {})
        elif "peers" in order:
            edges = [
                {"to": peer["name"], "port": peer["port"], "outcome": "ok", "detail": "", "source_address": ""}
                for peer in order["peers"]
            ]
            self.say({"call": number, "event": {"tried": len(edges)}})
            self.end(number, {"edges": edges, "heard": sorted(order["expect"]), "strangers": 0, "filters": []})

    def end(self, number: int, result: dict[str, Any]) -> None:
        """The result of a call."""
        del self.held[number]
        self.say({"call": number, "result": result})


HELLO = {
    "python": "3.11.2",
    "magic": "00",
    "suffix": ".cpython-311-x86_64-linux-gnu.so",
    "machine": "x86_64",
    "lacks": [],
    "reached": [],
    "pid": 4711,
}


@contextlib.contextmanager
def cluster(count: int, folder: Path, *, faults: dict[str, str] | None = None) -> Iterator[dict[str, str]]:
    """So many nodes, for as long as the block lasts: the variables of an environment whose ssh leads to them.

    ``faults`` says which node is dead, silent or lying.
    """
    twins = Twins(count)
    path = folder / "stub.sock"
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / "ssh").write_text(SSH.format(path=path))
    (folder / "bin" / "ssh").chmod(0o755)
    told = dict(faults or {})
    ready, end = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def visited(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await Node(twins, reader, writer).serve(told)
        with contextlib.suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        async with await asyncio.start_unix_server(visited, str(path), backlog=1024, limit=1 << 20):
            ready.set()
            await end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    ready.wait()
    try:
        yield {"PATH": f"{folder}/bin:/usr/bin:/bin"}
    finally:
        loops[0].call_soon_threadsafe(end.set)
        thread.join()
        path.unlink()
