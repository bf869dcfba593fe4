"""What does ib_write_bw do where there is no RDMA: it meets its peer over TCP and prints what rates.json tells.

The words and columns are those of src/write_bw.c and src/perftest_parameters.h of linux-rdma/perftest (v26), and of the
outputs in linux-rdma/perftest#132 and #234. rates.json lies beside the program: {"mlx5_0": {"sends": Gbit/s,
"receives": Gbit/s, "says": an error in place of all that}}.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HEADER_GBITS = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
LINE = "-" * 87
SCRIPT = f"""#!{sys.executable} -S
import argparse, json, os, socket, sys
parser = argparse.ArgumentParser()
for short, name in dict(d="device", i="port", p="tcp_port", s="size", n="iters", q="pairs", x="gid", S="level").items():
    parser.add_argument("-" + short, dest=name)
parser.add_argument("-F", action="store_true")
parser.add_argument("--report_gbits", action="store_true")
parser.add_argument("--tclass")
parser.add_argument("server", nargs="?")
asked = parser.parse_args()
here = os.path.dirname(os.path.abspath(sys.argv[0]))
with open(here + "/calls", "a") as file:
    file.write(" ".join(sys.argv[1:]) + "\\n")
with open(here + "/rates.json") as file:
    own = json.load(file).get(asked.device)
if own is None:
    sys.exit(" Unable to find the Infiniband/RoCE device")
if asked.server is None:
    print("\\n" + "*" * 36 + "\\n* Waiting for client to connect... *\\n" + "*" * 36)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("", int(asked.tcp_port)))
    listener.listen(1)
    peer = listener.accept()[0]
else:
    try:
        peer = socket.create_connection((asked.server, int(asked.tcp_port)), timeout=5)
    except OSError:
        sys.exit("Couldn't connect to %s:%s\\n Unable to init the socket connection" % (asked.server, asked.tcp_port))
if "says" in own:
    sys.exit(own["says"])
peer.sendall(b"%f\\n" % own["sends" if asked.server else "receives"])
told = peer.makefile().readline()
if not told:
    sys.exit("Failed to exchange data between server and clients")
rate = min(float(told), own["sends" if asked.server else "receives"])
print("{LINE}\\n                    RDMA_Write BW Test")
print(" Dual-port       : OFF\\t\\tDevice         : " + asked.device)
print(" Number of qps   : " + asked.pairs + "\\t\\tTransport type : IB")
print(" Connection type : RC\\t\\tUsing SRQ      : OFF\\n PCIe relax order: ON\\t\\tLock-free      : OFF")
print(" ibv_wr* API     : ON\\t\\tUsing Enhanced Reorder      : OFF")
print(" CQ Moderation   : 1\\n CQE Poll Batch  : Dynamic")
print(" Mtu             : 4096[B]\\n Link type       : Ethernet\\n GID index       : 3\\n Max inline data : 0[B]")
print(" rdma_cm QPs\\t : OFF\\n Data ex. method : Ethernet\\n{LINE}")
print(" local address: LID 0000 QPN 0x0108 PSN 0x63ad7d RKey 0x17eedf VAddr 0x007f760c947000")
print(" GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:255:255:05\\n{LINE}")
print("{HEADER_GBITS}")
figures = (int(asked.size), int(asked.iters) * int(asked.pairs), 0, rate, 0.04)
print(" %-7d    %-10d       %-7.2f            %-7.2f\\t\\t     %-7.6f" % figures)
print("{LINE}")
"""


def install(folder: Path, rates: dict[str, dict[str, Any]]) -> None:
    """The program and its rates in a folder for the PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "ib_write_bw"
    program.write_text(SCRIPT)
    program.chmod(0o755)
    (folder / "rates.json").write_text(json.dumps(rates))
