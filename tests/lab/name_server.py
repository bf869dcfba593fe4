"""A name server of a lab: knows names at once, and is late with the names of addresses, or says nothing to them.

Run on a host: ``python name_server.py ADDRESS SECONDS NAME=ADDRESS...``; with ``never`` for SECONDS it is silent. It
goes to the background once it listens, and prints its pid.
"""

import os
import socket
import struct
import sys
import threading

TYPE_A, TYPE_PTR, CLASS_IN = 1, 12, 1
AUTHORITATIVE, UNKNOWN = 0x8580, 0x8583


def asked(packet: bytes) -> tuple[str, int, int]:
    """The name and type of a question, and where it ends."""
    labels, place = [], 12
    while packet[place]:
        labels.append(packet[place + 1 : place + 1 + packet[place]].decode())
        place += 1 + packet[place]
    (kind,) = struct.unpack_from("!H", packet, place + 1)
    return ".".join(labels), kind, place + 5


def encoded(name: str) -> bytes:
    """A name as packets hold it."""
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def answer(packet: bytes, addresses: dict[str, str]) -> bytes:
    """The reply: an address, the name of one, nothing of another kind, or that there is no such name."""
    name, kind, end = asked(packet)
    names = {".".join(reversed(held.split("."))) + ".in-addr.arpa": known for known, held in addresses.items()}
    data = b""
    if kind == TYPE_A and name in addresses:
        data = socket.inet_aton(addresses[name])
    elif kind == TYPE_PTR and name in names:
        data = encoded(names[name])
    flags = AUTHORITATIVE if name in addresses or name in names else UNKNOWN
    head = packet[:2] + struct.pack("!HHHHH", flags, 1, bool(data), 0, 0) + packet[12:end]
    return head + (struct.pack("!HHHIH", 0xC00C, kind, CLASS_IN, 60, len(data)) + data if data else b"")


def serve(served: socket.socket, seconds: float | None, addresses: dict[str, str]) -> None:
    """Reply to every question, each in its own time."""
    while True:
        packet, sender = served.recvfrom(512)
        wait = seconds if asked(packet)[1] == TYPE_PTR else 0.0
        if wait is not None:
            threading.Timer(wait, lambda p=packet, s=sender: served.sendto(answer(p, addresses), s)).start()


def main() -> None:
    """Listen, go to the background, serve."""
    address, wait, *known = sys.argv[1:]
    served = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    served.bind((address, 53))
    pid = os.fork()
    if pid:
        print(pid, flush=True)
        os._exit(0)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    serve(served, None if wait == "never" else float(wait), dict(one.split("=") for one in known))


if __name__ == "__main__":
    main()
