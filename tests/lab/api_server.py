"""What does an API server of Kubernetes say to kubectl about pods, and how does it run a command in one?

A stand-in with the protocols of the real one, for the part that `kubectl get pods` and `kubectl exec` use: discovery,
lists with label selectors (as JSON and as a table), errors as Status objects, and exec over WebSocket with the
subprotocol v5.channel.k8s.io. A pod is a host of a lab: the words of `enter` put a command into its namespaces. As a
real kubelet does, it closes a command's standard input when the client is gone, and does not kill it.

    python -m tests.lab.api_server ADDRESS PORT FOLDER

FOLDER has cert.pem and key.pem, for kubectl sends a token over TLS alone, and state.json, which is read anew for every
request: {"token", "forbidden": ["pods"], "pods": [{"object", "enter", "fault"}]}.
"""

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import re
import signal
import ssl
import struct
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from .spaces import ENVIRONMENT

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
PROTOCOL = "v5.channel.k8s.io"
STDIN, STDOUT, STDERR, STATUS, CLOSE = 0, 1, 2, 3, 255
TEXT, BINARY, END, PING, PONG = 1, 2, 8, 9, 10
REASONS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 500: "InternalError"}
REQUIREMENT = re.compile(
    r"\s*(?:(?P<absent>!)(?P<not_key>[\w./-]+)|(?P<key>[\w./-]+)\s*"
    r"(?:(?P<is>==?|!=)\s*(?P<value>[\w.-]*)|(?P<set>in|notin)\s*\((?P<values>[^)]*)\))?)\s*(?:,|$)"
)
DISCOVERY = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [
            {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["get", "list"]},
            {"name": "nodes", "singularName": "node", "namespaced": False, "kind": "Node", "verbs": ["get", "list"]},
            {"name": "pods/exec", "singularName": "", "namespaced": True, "kind": "PodExecOptions", "verbs": ["get"]},
        ],
    },
    "/version": {"major": "1", "minor": "37", "gitVersion": "v1.37.0"},
}


class Refused(Exception):
    """A request that is answered by a Status object."""

    def __init__(self, code: int, message: str, *, pod: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.document = status(message, reason=REASONS[code], code=code)
        if pod:
            self.document["details"] = {"name": pod, "kind": "pods"}


def status(message: str, *, reason: str, code: int = 0, causes: Any = None) -> dict[str, Any]:
    """A Status object as it stands in replies, and on the status channel of an exec."""
    found = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    found |= {"message": message, "reason": reason}
    if causes:
        found["details"] = {"causes": causes}
    return {**found, "code": code} if code else found


def matches(labels: dict[str, str], selector: str) -> bool:
    """Whether labels fulfil every requirement of a selector."""
    return all(_holds(labels, found) for found in REQUIREMENT.finditer(selector) if found[0].strip(" ,"))


def _holds(labels: dict[str, str], found: re.Match[str]) -> bool:
    if found["absent"]:
        return found["not_key"] not in labels
    value = labels.get(found["key"])
    if found["is"]:
        return (value == found["value"]) is (found["is"] != "!=")
    if found["set"]:
        return (value in [one.strip() for one in found["values"].split(",")]) is (found["set"] == "in")
    return value is not None


def nodes(state: dict[str, Any]) -> list[dict[str, Any]]:
    """The nodes that the pods run on, labelled as topograph does: two below each switch."""
    names = dict.fromkeys(pod["object"]["spec"].get("nodeName", "") for pod in state["pods"])
    leaf = "network.topology.nvidia.com/leaf"
    return [
        {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": {leaf: f"leaf{place // 2}"}}}
        for place, name in enumerate(filter(None, names))
    ]


def table(pods: list[dict[str, Any]]) -> dict[str, Any]:
    """What `kubectl get pods` prints."""
    names = ("Name", "Status", "Node")
    columns = [{"name": name, "type": "string", "format": "", "description": "", "priority": 0} for name in names]
    rows = [
        {
            "cells": [pod["metadata"]["name"], pod["status"]["phase"], pod["spec"].get("nodeName", "")],
            "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": pod["metadata"]},
        }
        for pod in pods
    ]
    return {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": columns, "rows": rows}


class Stream:
    """The frames of one WebSocket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes, kind: int = BINARY) -> None:
        """One whole message; a server's are not masked."""
        length = len(data)
        head = struct.pack("!BB", 0x80 | kind, min(length, 126 if length < 1 << 16 else 127))
        if length >= 126:
            head += struct.pack("!H" if length < 1 << 16 else "!Q", length)
        self.writer.write(head + data)
        await self.writer.drain()

    async def receive(self) -> bytes | None:
        """The next message of the client; None when it closes the stream or is gone."""
        whole = b""
        while True:
            try:
                first, second = await self.reader.readexactly(2)
                length = second & 127
                if length >= 126:
                    wide = "!H" if length == 126 else "!Q"
                    (length,) = struct.unpack(wide, await self.reader.readexactly(struct.calcsize(wide)))
                mask = await self.reader.readexactly(4)
                masked = await self.reader.readexactly(length)
            except (asyncio.IncompleteReadError, ConnectionError):
                return None
            key = (mask * (length // 4 + 1))[:length]
            data = (int.from_bytes(masked, "big") ^ int.from_bytes(key, "big")).to_bytes(length, "big")
            kind = first & 15
            if kind == END:
                return None
            if kind == PING:
                await self.send(data, PONG)
            elif kind in (0, TEXT, BINARY):
                whole += data
                if first & 0x80:
                    return whole


class ApiServer:
    """The requests of kubectl, one connection at a time each."""

    def __init__(self, state: Path) -> None:
        self.path = state

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until it ends."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self._answer(reader, writer):
                continue
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        await reader.readexactly(int(headers.get("content-length", "0")))
        try:
            found = await self._reply(method, target, headers, Stream(reader, writer))
        except Refused as refused:
            _write(writer, refused.code, refused.document)
            await writer.drain()
            return True
        if found is not None:
            _write(writer, 200, found)
            await writer.drain()
        return found is not None

    async def _reply(self, method: str, target: str, headers: dict[str, str], stream: Stream) -> Any:
        state = json.loads(self.path.read_text())
        if state["token"] and headers.get("authorization") != f"Bearer {state['token']}":
            raise Refused(401, "Unauthorized")
        url = urlsplit(target)
        if url.path in DISCOVERY:
            return DISCOVERY[url.path]
        if url.path == "/api/v1/nodes":
            return {"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": nodes(state)}
        place = re.fullmatch(r"/api/v1/namespaces/([^/]+)/pods(?:/([^/]+)(/exec)?)?", unquote(url.path))
        if place is None:
            raise Refused(404, "the server could not find the requested resource")
        namespace, name, execs = place.groups()
        query = parse_qs(url.query, keep_blank_values=True)
        resource, verb = ("pods/exec", "create") if execs else ("pods", "get" if name else "list")
        pods = [pod for pod in state["pods"] if pod["object"]["metadata"]["namespace"] == namespace]
        pod = next((pod for pod in pods if pod["object"]["metadata"]["name"] == name), None)
        if resource in [*state["forbidden"], *(pod or {}).get("fault", {}).get("forbidden", [])]:
            of = f' "{name}"' if name else ""
            user = 'User "system:serviceaccount:train:checker"'
            words = f'{user} cannot {verb} resource "{resource}" in API group "" in the namespace "{namespace}"'
            raise Refused(403, f"pods{of} is forbidden: {words}", pod=name or "")
        if not name:
            selector = query.get("labelSelector", [""])[0]
            shown = [p["object"] for p in pods if matches(p["object"]["metadata"]["labels"], selector)]
            if "as=Table" in headers.get("accept", ""):
                return table(shown)
            return {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": shown}
        if pod is None or pod.get("fault", {}).get("gone"):
            raise Refused(404, f'pods "{name}" not found', pod=name)
        if not execs:
            return pod["object"]
        return await self._exec(method, pod, query, headers, stream)

    async def _exec(
        self, method: str, pod: dict[str, Any], query: dict[str, list[str]], headers: dict[str, str], stream: Stream
    ) -> None:
        _refuse(pod, query["container"][0])
        offered = [word.strip() for word in headers.get("sec-websocket-protocol", "").split(",")]
        if method != "GET" or headers.get("upgrade", "").lower() != "websocket" or PROTOCOL not in offered:
            raise Refused(400, "Upgrade request required")
        key = hashlib.sha1(headers["sec-websocket-key"].encode() + GUID).digest()
        lines = ("HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade")
        accepted = f"Sec-WebSocket-Accept: {base64.b64encode(key).decode()}"
        stream.writer.write("\r\n".join([*lines, accepted, f"Sec-WebSocket-Protocol: {PROTOCOL}", "", ""]).encode())
        await stream.writer.drain()
        fault = pod.get("fault", {})
        if fault.get("silent"):
            while await stream.receive() is not None:
                continue
            return
        if fault.get("status"):
            await _end(stream, fault["status"])
            return
        await _run([*pod["enter"], *query["command"]], stream, fault)


def _refuse(pod: dict[str, Any], container: str) -> None:
    """As API server and kubelet refuse an exec, in their words."""
    name, spec, found = (pod["object"][key] for key in ("metadata", "spec", "status"))
    if container not in [each["name"] for each in spec["containers"]]:
        raise Refused(400, f"container {container} is not valid for pod {name['name']}")
    if not spec.get("nodeName"):
        raise Refused(400, f"pod {name['name']} does not have a host assigned")
    if pod.get("fault", {}).get("kubelet"):
        raise Refused(500, f"error dialing backend: dial tcp 10.0.0.7:10250: {pod['fault']['kubelet']}")
    running = [each["name"] for each in found.get("containerStatuses", []) if "running" in each["state"]]
    if container not in running:
        raise Refused(500, f'unable to upgrade connection: container not found ("{container}")')


async def _run(argv: list[str], stream: Stream, fault: dict[str, Any]) -> None:
    """A command with its standard streams on the channels.

    After so many bytes of its output the connection is cut, or its container killed, where `fault` says so.
    """
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=ENVIRONMENT,
        cwd="/",
        start_new_session=True,
    )
    handed_on = 0

    async def hand_on(source: asyncio.StreamReader, channel: int) -> None:
        nonlocal handed_on
        while data := await source.read(1 << 15):
            handed_on += len(data)
            if handed_on > fault.get("cut_after_bytes", handed_on):
                stream.writer.transport.abort()
            if handed_on > fault.get("killed_after_bytes", handed_on):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(ConnectionError):
                await stream.send(bytes([channel]) + data)

    async def take() -> None:
        while data := await stream.receive():
            if data[0] == STDIN and not process.stdin.is_closing():
                process.stdin.write(data[1:])
                with contextlib.suppress(ConnectionError):
                    await process.stdin.drain()
            elif data[0] == CLOSE and data[1] == STDIN:
                process.stdin.close()
        process.stdin.close()

    taking = asyncio.create_task(take())
    await asyncio.gather(hand_on(process.stdout, STDOUT), hand_on(process.stderr, STDERR))
    code = await process.wait()
    code = 128 - code if code < 0 else code
    with contextlib.suppress(ConnectionError):
        await _end(stream, ended(code))
    taking.cancel()


def ended(code: int) -> dict[str, Any]:
    """What the kubelet says of a command that has ended."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(code)}]
    words = f"command terminated with non-zero exit code: exit status {code}"
    return status(words, reason="NonZeroExitCode", causes=causes)


async def _end(stream: Stream, document: dict[str, Any]) -> None:
    await stream.send(bytes([STATUS]) + json.dumps(document).encode())
    await stream.send(struct.pack("!H", 1000), END)


def _write(writer: asyncio.StreamWriter, code: int, document: Any) -> None:
    body = json.dumps(document).encode()
    head = f"HTTP/1.1 {code} {REASONS.get(code, 'OK')}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)


async def main(address: str, port: int, folder: Path) -> None:
    """Serve until killed; a line on standard output says that it listens."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    server = await asyncio.start_server(ApiServer(folder / "state.json").serve, address, port, ssl=tls)
    print("listening", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
