"""What does the error or the log of a rank say, in one line, and does it speak of another rank that failed?"""

from __future__ import annotations

import json
import re

from preflight.said import joined, said

# NCCL aborts a rank that has waited too long for its peers: it dies of another's failure, with this in its log.
WATCHDOG = "Watchdog caught collective operation timeout"
# How a rank's error reads when it is another rank that failed.
PEER_IS_GONE = (
    "Connection closed by peer",
    "Connection closed by remote peer",
    "Connection reset by peer",
    "Broken pipe",
    "Socket closed",
    "Timed out waiting",
    "waiting for clients",
    "Socket Timeout",
    "wait timeout",
    "Connection refused",
    "remote process exited",
    "communicator was aborted",
    "Connect: exceeded retries (",  # refused, 20,000 times: NCCL 2.14 to 2.23
    "Could not receive type from localRank",
    "Socket recv failed while polling",  # of the rank whose proxy thread sends for this one
    "Connection was likely closed",  # from the rank that keeps the store: torch 2.6 and later
    "Some NCCL operations have failed or timed out",
    "Unresponsive receiver",  # libfabric over EFA
    WATCHDOG,
)
# Of what NCCL's InfiniBand transport says of a request: flushed, not answered, not ready, or what the other side found
# wrong. Others are the rank's own. And of a connection that had been made, that no packet comes any more.
NOT_ANSWERED = re.compile(
    r"Got completion from peer .*?(?:status=|error )(?:IBV_WC_\w+\()?(?:5|9|1[0-3])\b"
    r"|Call to (?:recv|send)\b.* failed : (?:Connection timed out|No route to host)"
)
# How a rank reads that NCCL's watchdog has ended: it says nothing itself, and has no other reason.
ABORTED_FOR = (WATCHDOG, "remote process exited", "Connection closed by remote peer", "ncclRemoteError")
# How it reads when a rank cannot connect. A few that say so are at fault; where most do, those whom they call are.
NOT_REACHED = (
    *("Network is unreachable", "No route to host", "Connection timed out", "while trying to connect to"),
    *("Connect: exceeded timeouts (", "Software caused connection abort"),
)
# The address in the words above, and where NCCL's log says which address its rank has ("Bootstrap : Using" up to 2.20).
PEER = re.compile(
    r"(?:[Cc]losed by remote peer|completion from peer|failed : .*?peer|recv from|send to) ([^\s<]+)<\d+>"
)
OWN_ADDRESS = re.compile(r"Bootstrap ?: Using (?:\[\d+\])?[^\s:]+:([^\s<]+)<\d+>")
NATIVE_STACK = re.compile(r"\n(?:Exception raised from |frame #\d+|C\+\+ CapturedTraceback).*", re.DOTALL)
LAST_ERROR = re.compile(r"^Last error:\s*", re.MULTILINE)
# What NCCL says of every error of a class, whatever happened.
OF_A_CLASS = re.compile(r"^nccl[A-Z]\w+: .*$", re.MULTILINE)


def without_stack(text: str) -> str:
    """The text of an exception without the native stack that torch appends to it."""
    return NATIVE_STACK.sub("", text).strip()


def in_one_line(text: str) -> str:
    """An exception as a person reads it: its first line, and what NCCL says was its last error."""
    whole = without_stack(text)
    found = LAST_ERROR.split(whole, maxsplit=1)
    first = found[0].strip().split("\n", maxsplit=1)[0].strip()
    last = joined(line.strip() for line in found[1].splitlines() if line.strip()) if len(found) > 1 else ""
    return said("{first}; last error: {last}", first, last) if last else first


def particular(text: str) -> str:
    """The text in which to look for causes: without the stack, and without what NCCL says of every such error."""
    return OF_A_CLASS.sub("", without_stack(text))


def speaks_of_a_peer(text: str) -> bool:
    """Whether an error is the consequence of another rank's."""
    whole = without_stack(text)
    return any(sign in whole for sign in PEER_IS_GONE) or NOT_ANSWERED.search(whole) is not None


def was_aborted(log: str) -> bool:
    """Whether the log of a rank without an error of its own says that NCCL ended it because of a peer."""
    return any(sign in log for sign in ABORTED_FOR) or NOT_ANSWERED.search(log) is not None


def accused(text: str) -> set[str]:
    """The addresses of the peers that an error of NCCL speaks of."""
    return set(PEER.findall(without_stack(text)))


def own_address(nccl_log: str) -> str:
    """The address that a rank uses for NCCL's sockets, from its log; "" where the log does not say."""
    found = OWN_ADDRESS.search(nccl_log)
    return found[1] if found else ""


def warned(nccl_log: str) -> str:
    """The last warning in NCCL's log that speaks of no peer, "" where there is none."""
    found = [line.partition(" NCCL WARN ")[2].strip() for line in nccl_log.splitlines() if " NCCL WARN " in line]
    return next((text for text in reversed(found) if not speaks_of_a_peer(text)), "")


def last_entered(trace: str) -> int:
    """The number of the last collective that a rank entered, from its flight recorder; -1 where that does not say."""
    try:
        groups = json.loads(trace)["pg_status"]
        return max(int(group["last_enqueued_collective"]) for group in groups.values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return -1
