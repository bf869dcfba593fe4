"""What does ib_write_bw print on a host of the lab, whose RDMA ports are files in sysfs?

A client calls its server over TCP, as perftest does to tell keys and addresses; the rate is the less of what the one's
port sends and the other's receives.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.faults import Planted
    from tests.lab.host import LabHost

PLACE = "/usr/local/bin/ib_write_bw"
USUAL_GBPS = 392.08
PROGRAM = """#!{python} -IS
import socket, sys
RATES = {rates!r}
options = dict(zip(sys.argv[1::1], sys.argv[2::1]))
sends, receives = RATES.get(options["-d"], ({usual}, {usual}))
takes_value = ("-d", "-i", "-p", "-s", "-n", "-q", "-x", "-S", "--tclass")
is_client = not sys.argv[-1].startswith("-") and sys.argv[-2] not in takes_value
at = int(options["-p"])
if is_client:
    try:
        line = socket.create_connection((sys.argv[-1], at), 5)
    except OSError:
        sys.exit(f" Couldn't connect to {{sys.argv[-1]}}:{{at}}")
    sends = min(sends, float(line.makefile().readline()))
    line.sendall(f"{{sends}}\\n".encode())
else:
    listening = socket.create_server(("", at))
    line = listening.accept()[0]
    line.sendall(f"{{receives}}\\n".encode())
    sends = float(line.makefile().readline())
print("                    RDMA_Write BW Test")
print(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]")
print(f" 1048576    1024             0.00               {{sends:.2f}}             0.046740")
"""


def plant(host: LabHost, rates: Mapping[str, tuple[float, float]] | None = None) -> Planted:
    """A host that has ib_write_bw; device -> Gbit/s that its port sends and receives, where they are not the usual."""
    text = PROGRAM.format(python=sys.executable, rates=dict(rates or {}), usual=USUAL_GBPS)
    return host.change([["write", PLACE, text, 0o755]])
