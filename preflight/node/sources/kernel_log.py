"""Which lines of the kernel's log report broken hardware, or OOM-killed processes?"""

from __future__ import annotations

import os
import time

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
    *(b"ink is Down", b"Link down", b" Unit Hang", b"definitely down", b"duplicate address", b"swiotlb buffer"),
    *(b"XFS (", b"EXT4-fs error", b"BTRFS ", b"was evicted by", b"ceph: ", b"controller is down", b"medium error"),
    *(b"Disk failure", b"failed command:", b"available PCIe bandwidth, ", b"over heated"),
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
    *(b"No response msg_reg", b"Error records from previous boot"),
)
XID = r"NVRM: (?:Xid|GPU at) \(?(?:PCI:)?([0-9a-fA-F:.]+)(?: GPU-I:\d+)?\)?: (\d+),?"  # of a slice of MIG: GPU-I
SXID = r"SXid \(PCI:([0-9a-fA-F:.]+)\): (\d+), (?:Non-fatal|Fatal)"
LOADED = "loaded"
AT_LOADING = r"probe (?:of|with)|PCI I/O region|The NVIDIA GPU"  # logged of a GPU before the line LOADED
LOADING_S = 30.0
LINK = "link"
MODULE = "module"  # one that the kernel refused
BANDWIDTH = "bandwidth"  # logged when a PCIe device is found
POWER = "power"  # logged when an adapter is started
VIRTUAL = "virtual"  # logged when a guest's interface goes over to a function of the host's adapter, or back
LIMITED = (r"limited by", r"insufficient", r"switched from VF")
STATES = (BANDWIDTH, POWER, VIRTUAL, MODULE)  # what holds is what was said last
ADAPTERS = r"mlx\w+|bnxt_\w+|irdma|ice|i40e|efa|ena|gve|mana|hfi1|ionic\w*|cxi\w*"
AT_START_S = 600.0  # while drivers and services come up, links go down and up as they are configured
# Devices that were denied to a job, by context and path: what a desktop or a service was denied does not matter.
DENIED = (
    r"avc: +denied .*(?:name|path)=\"(?:/dev/)?(?:infiniband|uverbs|rdma_cm|nvidia|kfd|renderD)\S*\" .*"
    r"scontext=[^:]*:[^:]*:(?:container|spc|svirt|slurm|unconfined|user|staff)\w*:(?!.*permissive=1)"
    r"|avc: +denied +{ name_(?:connect|bind) } .*scontext=[^:]*:[^:]*:(?:container|spc|svirt|slurm)\w*:"
    r"(?!.*permissive=1)"
    r"|apparmor=\"DENIED\" .*profile=\"(?:docker|cri-|containers|crio|lxc)[^\"]*\" "
    r"name=\"/dev/(?:infiniband|nvidia|kfd|dri)"
)
# A drive without a medium, as every virtual machine and every BMC has one, fails to read it at each start.
WITH_MEDIUM = r"(?!fd\d|sr\d)"
# Firmware's record of an error: the first line has its severity, further ones its kind and its device.
RECORD, SEVERITY = "[Hardware Error]:", " event severity: "
DETAIL = r"\[Hardware Error\]: +((?:section_type|error_type|device_id): .*)"
OF_LAST_BOOT = "BERT: Error records from previous boot:"
# Each symbol that a module lacks has a line.
REFUSED = (
    r"^(?:module )?\w+: (?:Unknown symbol |disagrees about version of symbol |exports duplicate symbol "
    r"|version magic '|\.gnu\.linkonce\.this_module section size )"
    r"|Loading of (?:unsigned module|module with .*) is rejected|unsigned module loading is restricted"
)
# Kind, words that a line must have, and where its device stands.
KINDS = (
    (
        "oom",
        r"(?:Out of memory|Memory cgroup out of memory): Killed process (\d+)|killed due to inadequate hugepage pool",
        "",
    ),
    (
        "pcie",
        r"AER: .*(?:Uncorrect|Fatal)|PCIe Bus Error: severity=Uncorrect|DPC: (?:containment event|.* detected$)",
        "pci",
    ),
    (
        "pcie",
        r"Slot\(\S+\): (?:Link Down|Card not present|Power fault)|EDR: EDR event received",
        "pci",
    ),
    ("pcie", r"DMAR: .*\bfault addr|AMD-Vi: .*IO_PAGE_FAULT|PCI system error", "pci"),
    ("pcie", r": .*, device inaccessible$|not ready \d+ms after .*; giving up", "pci"),
    (VIRTUAL, r"hv_netvsc .*Data path switched (?:to|from) VF: ", "interface"),
    (BANDWIDTH, r"Gb/s available PCIe bandwidth", "pci"),
    (POWER, r"mlx\w+ .*sufficient power (?:\(|on the PCIe slot)", "pci"),
    (LINK, r"\bLink (?:is )?[Dd]own\b|link status definitely down", "pci"),
    (LINK, r"hfi1.*logical state changed to PORT_DOWN|cxi_\w+ .*CXI_EVENT_LINK_DOWN", "pci"),
    # An aborted request is what a corrected error of PCIe leaves behind.
    (
        "rdma",
        r"cxi_\w+ .*(?:C_EC_(?:UNCOR|CRIT|DEGRD)\w*: \w+ error: (?!pri_rbyp_abort)|init_hw failed)",
        "pci",
    ),
    ("rdma", r"mlx5_core .*(?:mlx5_(?:init|load)_one failed|RX timeout on channel)", "pci"),
    ("rdma", r"(?:mlx\w+|bnxt_\w+|irdma|efa).*(?:health compromised|assert_|fatal)", "pci"),
    (
        "rdma",
        r"mlx\w+ .*(?:timeout\. Will cause a leak|Port module event\[error\])|NETDEV WATCHDOG: .* timed out",
        "pci",
    ),
    ("rdma", r"mlx\w+:? .*(?:synd 0x[0-9a-f]+: \w|High temperature on sensors|initializing state, aborting)", "pci"),
    (
        "rdma",
        r"mlx\w+ .*(?:Fatal error \d+ detected|Health issue observed, |health recovery f(?:ailed|low aborted))",
        "pci",
    ),
    (
        "rdma",
        r"bnxt_\w+ .*(?:FW STALL Detected|Firmware (?:reset aborted|not responding|init phase \d+ failed))",
        "pci",
    ),
    ("rdma", r"\b(?:" + ADAPTERS + r"): probe of .* failed with", "pci"),
    ("rdma", r"probe with driver (?:" + ADAPTERS + r") failed with", "pci"),
    ("rdma", r"(?:efa|infiniband) .*(?:admin cmd|Admin queue is|\(polling\) timeout|Reset indication didn't)", "pci"),
    ("rdma", r"\b(?:" + ADAPTERS + r") .*TX timeout (?:detected|on )|bnxt_en .*Error \(timeout: \d+\) msg", "pci"),
    (
        "rdma",
        r"mlx\w+ .*(?:handling bad device|error_sw_reset)|(?:infiniband|ice|i40e|irdma) .*Requesting a reset",
        "pci",
    ),
    ("rdma", r"hfi1.*(?:Critical temperature|freeze mode)|ionic .*heartbeat stalled", "pci"),
    (
        "network",
        r"\bena .*(?:[Ww]atchdog timeout|Trigger reset is on|lost tx completions is above|Reset the device)",
        "pci",
    ),
    ("network", r"\bgve .*(?:Device requested reset|AQ commands? (?:\S+ )*timed out)", "pci"),
    ("network", r"\bmana .*HWC: (?:Request|Command) .*timed out", "pci"),
    ("network", r"temperature has gone above the \w+ thermal threshold|stopped because it has over heated", "pci"),
    ("network", r"Entering Safe Mode|[Ff]irmware recovery mode detected", "pci"),
    ("network", r"transmit timed out, resetting|i40e .*TX driver issue|Malicious Driver Detection event", "pci"),
    ("network", r"vmxnet3 .*: tx hang|Fan Failure on Network Controller|mlx4_\w+ .*Internal error detected", "pci"),
    ("network", r"Detected (?:Hardware|Tx) Unit Hang|swiotlb buffer is full|IPv6 duplicate address .* detected", "pci"),
    ("network", r"nf_conntrack: table full|neighbou?r table overflow|TCP: (?:out of memory|too many orphaned)", ""),
    ("network", r"Possible SYN flooding on port .*Dropping request", ""),
    ("denied", DENIED, ""),
    # A corrected error is none: it says so itself, or has no severity.
    ("machine", r"\[Hardware Error\]: .*(?:Machine Check Exception|(?i:uncorrected|fatal))|EDAC \w+: \d+ UE ", ""),
    ("machine", r"\[Hardware Error\]: event severity: recoverable", ""),
    ("machine", r"CPU\d+: (?:Package|Core) temperature.* above threshold, cpu clock throttled", ""),
    ("machine", r"Memory failure: .*(?:SIGBUS|SIGKILL|Killing|corruption)|Uncorrected hardware memory error", ""),
    ("machine", r"critical temperature reached|Marking clocksource '\w+' as unstable|NMI: .*(?:SERR|IOCK|parity)", ""),
    ("hang", r"task .* blocked for more than \d+ seconds|(?i:(?:soft|hard) lockup)|rcu\w*: .*detected stall", ""),
    ("hang", r"rcu\w*: \S+ kthread starved for", ""),
    ("refused", r"fork rejected by pids controller|VFS: file-max limit \d+ reached|VmData \d+ exceed data ulimit", ""),
    ("hang", r"RC watchdog: GPU is probably locked", ""),
    # A user program's own error is logged as "traps: python3[4711] general protection fault ip:...".
    (
        "crash",
        (
            r"BUG: (?:unable to handle|kernel NULL|Bad |workqueue lockup|scheduling while atomic|KASAN|stack guard)"
            r"|kernel BUG at|Oops: |general protection fault, probably|: page allocation failure"
        ),
        "",
    ),
    (
        "crash",
        r"list_(?:add|del) corruption|refcount_t: .*use-after-free|Unable to handle kernel|Kernel stack is corrupted",
        "",
    ),
    ("storage", r"BTRFS (?:error|critical)|nvme\w* .*Removing after probe failure|beegfs: .*Connect failed", ""),
    (
        "storage",
        r"Remounting filesystem read-only|I/O error, dev "
        + WITH_MEDIUM
        + r"|nvme\w*: I/O .*timeout|server .* not responding",
        "",
    ),
    ("storage", r"has not responded in \d+ seconds|rejecting I/O to (?:offline|dead)", ""),
    ("storage", r"(?:Buffer I/O error on dev(?:ice)? |medium error, dev )" + WITH_MEDIUM, ""),
    (
        "storage",
        r"NFS: .*reclaim failed|NFS: server .*fileid changed|out-of-data-space|ata\d\S*: exception .* frozen",
        "",
    ),
    ("storage", r"[Aa]borting journal|JBD2: Detected IO errors|multipath: .*Failing path|SQUASHFS error", ""),
    (
        "storage",
        r"XFS \(.*(?:[Cc]orruption|[Ss]hutting down|shut down due to|log I/O error)|EXT4-fs error|: failed command:",
        "",
    ),
    (
        "storage",
        r"was evicted by|ceph: .* hung|controller is down; will reset|: Disk failure on ",
        "",
    ),
    (LOADED, r"NVRM: loading NVIDIA UNIX", ""),
    (MODULE, REFUSED, MODULE),
    ("driver", r"NVRM: (?:GPU .* has fallen off the bus|(?:GPU \S+ )?RmInitAdapter failed)", "pci"),
    ("driver", r"NVRM: .*(?:[Hh]eartbeat timed out|GSP-CrashCat Report|PCI I/O region assigned .* is invalid)", "pci"),
    ("driver", r"nvidia-uvm: .*Encountered a global fatal error|NVRM: .*uvm encountered global fatal error", ""),
    ("driver", r"NVRM: The NVIDIA GPU .*(?:is not supported|fallen off the bus|requires use of)", "pci"),
    ("driver", r"NVRM: .*\[NV_ERR_RESET_REQUIRED\]", ""),
    (
        "driver",
        r"(?:nvidia|nvidia-nvswitch|amdgpu): probe of .* failed|probe with driver (?:nvidia\S*|amdgpu) failed",
        "pci",
    ),
    (
        "driver",
        r"amdgpu.* (?:GPU reset begin|GPU is in BAD status|GPU reset end with ret)|amdgpu_job_timedout(?!.* soft)",
        "pci",
    ),
    # "no uncorrectable hardware errors detected" is its answer to a query, and no fault.
    (
        "driver",
        r"amdgpu.*(?:[1-9]\d* (?:new )?uncorrectable hardware errors detected|[Uu]ncorrectable hardware error\()",
        "pci",
    ),
    ("driver", r"amdgpu [0-9a-f:.]+: amdgpu: ring \S+ timeout, (?!but soft recovered)", "pci"),
    ("driver", r"amdgpu.* (?:Fatal error during GPU init|ASIC temperature fault|GPU Recovery Failed)", "pci"),
    ("driver", r"amdgpu.* (?:device lost from bus|GPU will not be initialized)", "pci"),
    ("driver", r"amdgpu.* (?:hw|sw)_init of IP block .* failed|amdgpu.* XGMI: .* topology failure", "pci"),
    (
        "driver",
        r"amdgpu: skipped device .*PCI rejects atomics|(?:cp|MES) might be in (?:an )?unrecoverable state",
        "pci",
    ),
    ("driver", r"amdgpu: qcm fence wait loop timeout", ""),
    ("accelerator", r"habanalabs .*(?:NOT usable|heartbeat failed)|Xe has declared device .* as wedged", "pci"),
    ("wear", r"amdgpu.* (?:[Pp]oison (?:is consumed|consumption)|[1-9]\d* new deferred hardware errors)", "pci"),
    (
        "wear",
        r"amdgpu.* (?:Saved bad pages \d+ reaches|RAS records:\d+ exceed|SMU: (?:I'm not done with your|No response))",
        "pci",
    ),
    # At the cap of its power (PPT) a healthy GPU is throttled too.
    ("wear", r"amdgpu.* WARN: GPU (?:thermal throttling|is throttled.*(?i:thermal|prochot|socket|hbm|vr))", "pci"),
)
# The driver recovered a device, or took it anew: what of these kinds it reported of it before is over.
RECOVERED = (
    (("xid", "driver"), r"NVRM: Xid .*: 154, .*\bto (?:0x0 )?\(?None"),
    (("driver",), r"amdgpu .* GPU reset\(\d+\) succeeded"),
    (("rdma",), r"mlx5_core .*(?:health recovery succeeded|: firmware version: )"),
)
OF_MEMORY = "ncorrectable"  # which a reset does not mend for good
OF_MODULE = r"^(?!Lockdown)(?:module )?(\w+): "
PCI = r"\b([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-9a-f])?)\b"
INTERFACE = r" (\S+): "
PLACES = {"pci": PCI, "interface": INTERFACE, MODULE: OF_MODULE}
OF_DRIVER = ("xid", "sxid", "driver")
MOST_EVENTS = 200
MOST_SECONDS = 4.0  # a buffer of 16 MiB takes a tenth of that on a machine at rest
RECORD_BYTES = 8192


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
        found = records(descriptor, end=time.monotonic() + seconds)
        if not found:  # /dev/null in place of /dev/kmsg reads like this
            return missing("the kernel's log is empty: a container does not see it", "denied")
        whole = b"".join(found)
        if not whole.endswith(b"\n"):  # the kernel ends every record
            return missing("the kernel's log was cut short in the middle of a line")
        lines = of_interest(whole)
        # /dev/kmsg gives a record at a time; a saved log is read as it comes.
        return parse([line.decode("utf-8", "backslashreplace") for line in lines], now_s=time.monotonic())
    except OSError as error:
        return missing_because(error)
    finally:
        os.close(descriptor)


def records(descriptor: int, *, end: float) -> list[bytes]:
    """Every record there is; one that the kernel overwrites while we read is skipped. TimeoutError past `end`."""
    found: list[bytes] = []
    while True:
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


def parse(lines: list[str], *, now_s: float) -> list[dict[str, Any]]:
    """The events among records "6,1234,5678901,-;text"; the third figure is microseconds since the start."""
    found: list[dict[str, Any]] = []
    limited: dict[tuple[str, str], dict[str, Any]] = {}  # by kind and device: a later line replaces it
    heading = ""  # of firmware's records
    for record in lines:
        head, separator, text = record.partition(";")
        fields = head.split(",")
        if not separator or len(fields) < 3 or not fields[2].isdecimal():
            continue
        at_s, text = int(fields[2]) / 1e6, text.partition("\n")[0]
        if found and RECORD in text and is_of_record(found[-1], text, age_s=now_s - at_s):
            found[-1] = with_detail(found[-1], text)
            continue
        heading = text if text.startswith(OF_LAST_BOOT) else heading if RECORD in text else ""
        event = event_in(in_one_line(f"{heading} {text}" if heading != text else text))
        if event.get("kind") == LOADED:  # the driver was loaded again: its earlier reports are over
            found = [one for one in found if one["kind"] not in OF_DRIVER or is_of_loading(one, now_s - at_s)]
            continue
        found = without_recovered(found, text) if found else found
        if event and not (event["kind"] == LINK and at_s < AT_START_S):
            event = {**event, "age_seconds": round(max(0.0, now_s - at_s), 1)}
            place = event["kind"], event["device"]
            if event["kind"] not in STATES:
                found.append(event)
            elif event["kind"] == MODULE or any(words in event["text"] for words in LIMITED):
                limited[place] = event
            else:
                limited.pop(place, None)
    return [*list(limited.values())[:MOST_EVENTS], *found[-MOST_EVENTS:]]


def is_of_record(event: dict[str, Any], text: str, *, age_s: float) -> bool:
    """Whether a line belongs to firmware's record whose first line is the event."""
    head, _, rest = text.partition(RECORD)
    begun = event["text"].removeprefix(OF_LAST_BOOT).strip().startswith(f"{head}{RECORD}{SEVERITY}")
    return begun and not rest.startswith(SEVERITY) and event["age_seconds"] - age_s < 1.0


def with_detail(event: dict[str, Any], text: str) -> dict[str, Any]:
    """The event with what a further line of its record tells: of what kind the error is, and of which device."""
    import re

    found = re.search(DETAIL, text)
    return {**event, "text": f"{event['text']}, {found.group(1)}"[:300]} if found else event


def without_recovered(found: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """The events that a line does not end; of what memory a GPU lost stays a warning."""
    import re

    for kinds, words in RECOVERED:
        place = re.search(PCI, text.lower()) if re.search(words, text) else None
        if place:
            slot = place.group(1).partition(".")[0]
            ended = [e for e in found if e["kind"] in kinds and e["device"].partition(".")[0] in (slot, "")]
            worn = [{**e, "kind": "wear"} for e in ended if OF_MEMORY in e["text"]]
            return [*worn, *(e for e in found if e not in ended)]
    return found


def is_of_use(text: str) -> bool:
    """Whether a line reports an event, or the end of one."""
    import re

    words = (DETAIL, OF_LAST_BOOT, *(words for _, words in RECOVERED))
    return bool(event_in(text)) or any(re.search(each, text) for each in words)


def in_one_line(text: str) -> str:
    r"""A text of several lines, whose ends the kernel writes as \x0a, and the driver with its name at each start."""
    return text.replace("\\x0aNVRM:", "").replace("\\x0a", " ").strip()


def is_of_loading(event: dict[str, Any], age_s: float) -> bool:
    """Whether a line came as the driver was loaded that says so at this age: of a GPU that it could not take."""
    import re

    return event["age_seconds"] <= age_s + LOADING_S and bool(re.search(AT_LOADING, event["text"]))


def event_in(text: str) -> dict[str, Any]:
    """The event that a line reports; empty for any other line."""
    import re  # a healthy node's log needs no pattern

    xid = re.search(XID, text)
    sxid = re.search(SXID, text)
    if sxid:
        return {"kind": "sxid", "code": int(sxid.group(2)), "device": sxid.group(1).lower(), "text": text[:300]}
    if xid:
        return {"kind": "xid", "code": int(xid.group(2)), "device": xid.group(1).lower(), "text": text[:300]}
    for kind, words, device in KINDS:
        if re.search(words, text):
            place = re.search(PLACES[device], text) if device else None
            return {"kind": kind, "code": 0, "device": place.group(1) if place else "", "text": text[:300]}
    return {}
