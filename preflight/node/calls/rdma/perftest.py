"""How is perftest's ib_write_bw started on a port, and what did it measure?

Its client writes into the memory of its server, so data goes one way; both are given the same sizes. The form of the
output is that of perftest 4.4 to 26.x: src/perftest_parameters.h of linux-rdma/perftest.
"""

from __future__ import annotations

import re

from preflight.node.agent import programs
from preflight.node.subjects.environment import job_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROGRAM = "ib_write_bw"
MESSAGE_BYTES = 1 << 20
PAIRS_OF_QUEUES = 4  # one pair does not fill a port of 400 Gbit/s everywhere
MESSAGES = 256  # of each pair of queues: 1 GiB together
# Options of ours -> of ib_write_bw; -x is the row of the GID table, -S the service level.
OPTIONS = {"gid": "-x", "level": "-S", "traffic_class": "--tclass"}
HEADER = re.compile(r"#bytes +#iterations.*BW average\[(Gb|MB|MiB)/sec\]")
ROW = re.compile(r"^\s*\d+\s+\d+\s+[\d.]+\s+([\d.]+)\s+[\d.]+", re.MULTILINE)
GBYTES = {"Gb": 1 / 8, "MB": 1.048576e-3, "MiB": 1.048576e-3}  # older versions write MB for MiB
MOST_WORDS = 300


def found(arguments: dict[str, Any]) -> str:
    """Where the program is on this node; "" where it is not."""
    return programs.find(PROGRAM, job_variables(arguments).get("PATH", ("", ""))[0])


def argv(program: str, port: dict[str, Any], *, tcp_port: int, address: str = "") -> list[str]:
    """The command line that serves a port, or writes to it where an address is given."""
    words = [program, "-d", str(port["device"]), "-i", str(port["port"]), "-p", str(tcp_port), "-F", "--report_gbits"]
    words += ["-s", str(MESSAGE_BYTES), "-n", str(MESSAGES), "-q", str(PAIRS_OF_QUEUES)]
    for name, option in OPTIONS.items():
        if name in port:
            words += [option, str(int(port[name]))]
    if ":" in address:
        words.append("--ipv6-addr")
    return [*words, address] if address else words


def rate(text: str) -> float:
    """The average in GB/s (1e9 bytes a second); ValueError with its last line of output where there is none."""
    header = HEADER.search(text)
    row = ROW.search(text, header.end()) if header else None
    if header is None or row is None:
        lines = [line.strip() for line in text.splitlines() if line.strip(" -*\t")]
        raise ValueError((lines[-1] if lines else f"{PROGRAM} printed nothing")[:MOST_WORDS])
    return float(row[1]) * GBYTES[header[1]]
