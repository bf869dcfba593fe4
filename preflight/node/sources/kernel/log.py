"""What of the kernel's log reports broken hardware, or OOM-killed processes?"""

from __future__ import annotations

import os
import time

from preflight.node.agent import children
from preflight.node.agent.missing import missing, missing_because

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Union

    from preflight.node.agent.missing import Missing

    EventsOrMissing = Union[list[dict[str, Any]], Missing]

# A line with none of these reports no event; searching thousands of lines for them takes 1 ms, the patterns take 20.
SIGNS = (
    *(b"NVRM", b"SXid", b"Killed process", b"AER: ", b"PCIe Bus Error", b"mlx", b"bnxt_", b"irdma", b"efa "),
    *(
        b"[Hardware Error]",
        b" UE ",
        b"blocked for more than",
        b" lockup",
        b" LOCKUP",
        b"detected stall",
        b"NETDEV WATCHDOG",
    ),
    *(
        b"GPU reset begin",
        b"GPU reset(",
        b"hardware errors detected",
        b"amdgpu_job_timedout",
        b"emounting filesystem read-only",
    ),
    *(b"I/O error", b"timeout, ", b"not responding", b"clock throttled"),
    *(b"nvidia: probe of", b"GPU init", b"temperature", b"containment event", b"Slot(", b"DMAR: ", b"AMD-Vi: "),
    *(b"Memory failure: ", b"Uncorrected hardware", b"NMI: ", b"as unstable", b"BUG: ", b"kernel BUG", b"Oops: "),
    *(b"general protection fault, ", b"allocation failure", b"table full", b"table overflow", b"TCP: out of memory"),
    *(b"ink is Down", b"Link is down", b"Link down", b" Unit Hang", b"definitely down", b"duplicate address"),
    *(b"XFS (", b"EXT4-fs error", b"BTRFS ", b"was evicted by", b"ceph: ", b"controller is down", b"medium error"),
    *(b"swiotlb buffer", b"Disk failure", b"failed command:", b"available PCIe bandwidth, ", b"over heated"),
    *(b"Entering Safe Mode", b"recovery mode"),
    *(b"hardware error(", b"in BAD status", b"bad pages", b"RAS records", b"your previous command", b"reset end with"),
    *(b"admin cmd", b"Admin queue is", b"(polling) timeout", b"atchdog timeout", b"Trigger reset is on"),
    *(b"tx completions is above", b"HWC: ", b"heartbeat stalled", b"Critical temperature", b"freeze mode"),
    *(b"TX timeout", b"Error (timeout: ", b"PORT_DOWN", b"Requesting a reset", b"oison "),
    *(b"Recovery Failed", b": probe of ", b"probe with driver", b"device inaccessible", b"; giving up"),
    *(b"SYN flooding", b" denied  {", b'apparmor="DENIED"'),
    *(b"equested reset", b"AQ command", b"Data path switched", b"transmit timed out", b"TX driver issue"),
    *(b"fork rejected", b"file-max limit", b"exceed data ulimit", b"orphaned sockets", b"kthread starved"),
    *(b"not responded in", b"I/O error on dev", b"borting journal", b"IO errors", b"rejecting I/O", b"Failing path"),
    *(b"SQUASHFS error", b"Reset the device", b"list_add corruption", b"list_del corruption", b"use-after-free"),
    *(b"Unable to handle kernel", b"stack is corrupted", b"hugepage pool", b"reclaim failed", b"fileid changed"),
    *(b"out-of-data-space", b" frozen", b": tx hang", b"Fan Failure", b"Internal error", b"Driver Detection"),
    *(b"{ name_connect }", b"{ name_bind }"),
    *(b"Malicious Driver", b"after probe failure", b"beegfs: ", b"ncountered a global fatal", b"uvm encountered"),
    *(b"lost from bus", b"unrecoverable state", b"NOT usable", b"heartbeat failed", b"declared device"),
    *(b"Unknown symbol", b"version of symbol", b"duplicate symbol", b"version magic", b"this_module section"),
    *(b" is rejected", b"unsigned module", b"unmasked uncorrectable", b" ERR_FATAL", b"EDR event", b"C_EC_UNCOR"),
    *(b"C_EC_CRIT", b"C_EC_DEGRD", b"CXI_EVENT_LINK_DOWN", b"init_hw failed", b"rejects atomics", b" topology failure"),
    *(b"of IP block", b"fence wait loop timeout", b"deferred hardware", b"is throttled", b"thermal throttling"),
    *(b"No response msg_reg", b"Error records from previous boot", b"system reset reason", b"expedited stall"),
    *(b"Device not ready; ", b"after reset failure", b"host is non-operational"),
)
MOST_SECONDS = 4.0  # a buffer of 16 MiB takes a tenth of that on a machine at rest
RECORD_BYTES = 8192
READ_ALL, SIZE_BUFFER = 3, 10  # of syslog(2), linux/syslog.h
CHARACTER_DEVICE, KMSG = 0o020000, (1, 11)  # as in Documentation/admin-guide/devices.txt


def collect(path: str, *, seconds: float = MOST_SECONDS) -> EventsOrMissing:
    """The lines of /dev/kmsg that report an event, newest last; denied where only root may read it.

    The newest lines come last, so a log that could not be read to its end in so many seconds is not read at all.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:
        return missing("the kernel's log is for root only", "denied")
    except FileNotFoundError:
        return missing("a container does not see the kernel's log", "denied")
    except OSError as error:
        return missing_because(error)
    try:
        end = time.monotonic() + seconds
        found = records(descriptor, end=end, most=1)
        if not found:  # /dev/null in place of /dev/kmsg reads like this
            return missing("the kernel's log is empty: a container does not see it", "denied")
        is_kernels = is_device(descriptor)
        together = at_once(found[0]) if is_kernels else b""
        if together and not of_interest(together):
            return []
        whole = b"".join([*found, *records(descriptor, end=end)])
        if not whole.endswith(b"\n"):  # the kernel ends every record
            return missing("the kernel's log was cut short in the middle of a line")
        lines = [line.decode("utf-8", "backslashreplace") for line in of_interest(whole)]
        if not lines:
            return []
        from preflight.node.sources.kernel import events  # a healthy node's log needs no pattern

        return events.parse(lines, now_s=time.monotonic() if is_kernels else newest_s(whole))
    except OSError as error:
        return missing_because(error)
    finally:
        os.close(descriptor)


def is_device(descriptor: int) -> bool:
    """Whether an open file is the log of the kernel that runs here, and no file that was put in its place."""
    status = os.fstat(descriptor)
    return status.st_mode & 0o170000 == CHARACTER_DEVICE and status.st_rdev == os.makedev(*KMSG)


def newest_s(whole: bytes) -> float:
    """When the last record of a log was written: in a saved one, ages count from there."""
    stamps = (line.split(b",", 3)[2:3] for line in whole.split(b"\n") if b";" in line)
    return max((int(stamp[0]) for stamp in stamps if stamp and stamp[0].isdigit()), default=0) / 1e6


def at_once(first: bytes) -> bytes:
    """The log in one call of the kernel, which takes two thirds of the time of a call for each record.

    Nothing where the call does not give all that /dev/kmsg does, as after `dmesg -C`, or where it is refused: `first`
    is the oldest record there. Its time alone would prove nothing: every log that has lost no line begins at 0.
    """
    fields = first.split(b",", 3)
    text = first.partition(b";")[2].partition(b"\n")[0]
    try:
        held = bytes(2 * max(0, children.in_libc("klogctl", SIZE_BUFFER, b"", 0)))  # its lines are longer than records
        given = children.in_libc("klogctl", READ_ALL, held, len(held)) if held else 0
        since = b"[%5d.%06d]" % divmod(int(fields[2]), 1_000_000)
    except (OSError, AttributeError, IndexError, ValueError):  # no such call in this C library, or no record
        return b""
    oldest = held[: held.find(b"\n")]  # <6>[    0.000000] Linux version ..., perhaps with the caller behind the time
    return held[:given] if given > 0 and since in oldest and text and oldest.endswith(b" " + text) else b""


def records(descriptor: int, *, end: float, most: float = float("inf")) -> list[bytes]:
    """The records that there are, or so many; one that the kernel overwrites meanwhile is skipped.

    Raises TimeoutError past `end`.
    """
    found: list[bytes] = []
    while len(found) < most:
        if time.monotonic() > end:
            raise TimeoutError(f"the kernel's log is longer than could be read in time ({len(found)} lines)")
        try:
            record = os.read(descriptor, RECORD_BYTES)
        except BrokenPipeError:
            continue
        except BlockingIOError:
            break
        if not record:
            break
        found.append(record)
    return found


def of_interest(whole: bytes) -> list[bytes]:
    """The lines that may report an event or the end of one. Most lines of a log repeat: each kind is searched once."""
    shapes = without_figures(whole).split(b"\n")
    distinct = set(shapes)
    together = b"\n".join(distinct)
    signs = [sign for sign in map(without_figures, SIGNS) if sign in together]
    if not signs:
        return []
    wanted = {shape for shape in distinct if any(sign in shape for sign in signs)}
    return [line for line, shape in zip(whole.split(b"\n"), shapes) if shape in wanted]


def without_figures(text: bytes) -> bytes:
    """What is left without digits: lines that differ only in time and device become equal."""
    return text.translate(None, b"0123456789")
