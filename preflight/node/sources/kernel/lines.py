"""Which event does a line of the kernel's log report?

A line is searched for these patterns only where it holds one of the words of SIGNS: an event has a row here, and a word
there.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

XID = r"NVRM: (?:Xid|GPU at) \(?(?:PCI:)?([0-9a-fA-F:.]+)(?: GPU-I:\d+)?\)?: (\d+),?"  # of a slice of MIG: GPU-I
SXID = r"SXid \(PCI:([0-9a-fA-F:.]+)\): (\d+), (?:Non-fatal|Fatal)"
LOADED = "loaded"
LINK = "link"
MODULE = "module"  # one that the kernel refused
BANDWIDTH = "bandwidth"  # logged when a PCIe device is found
POWER = "power"  # logged when an adapter is started
VIRTUAL = "virtual"  # logged when a guest's interface goes over to a function of the host's adapter, or back
ADAPTERS = r"mlx\w+|bnxt_\w+|irdma|ice|i40e|efa|ena|gve|mana|hfi1|ionic\w*|cxi\w*"
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
# A loop device fails when its file is taken away, and a file system on it tells. Freeing blocks is a hint.
WITH_MEDIUM = r"(?!fd\d|sr\d|loop\d)"
HINT = r"(?!.* op 0x\w+:\((?:DISCARD|SECURE_ERASE|WRITE_ZEROES)\))"
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
        r"Slot\(\S+\): (?:Link Down(?!/Up ignored)|Card not present|Power fault)|EDR: EDR event received",
        "pci",
    ),
    ("pcie", r"DMAR: .*\bfault addr|AMD-Vi: .*IO_PAGE_FAULT|PCI system error", "pci"),
    ("pcie", r": .*, device inaccessible$|not ready \d+ms after .*; giving up", "pci"),
    (VIRTUAL, r"hv_netvsc .*Data path switched (?:to|from) VF: ", "interface"),
    (BANDWIDTH, r"Gb/s available PCIe bandwidth", "pci"),
    (POWER, r"mlx\w+ .*sufficient power (?:\(|on the PCIe slot)", "pci"),
    (LINK, r"\bLink (?:is )?[Dd]own\b(?!/Up ignored)|link status definitely down", "pci"),
    (LINK, r"hfi1.*logical state changed to PORT_DOWN|cxi_\w+ .*CXI_EVENT_LINK_DOWN", "pci"),
    # An aborted request is what a corrected error of PCIe leaves behind.
    (
        "rdma",
        r"cxi_\w+ .*(?:C_EC_(?:UNCOR|CRIT|DEGRD)\w*: \w+ error: (?!pri_rbyp_abort)|init_hw failed)",
        "pci",
    ),
    ("rdma", r"mlx5_core .*(?:mlx5_(?:init|load)_one failed|RX timeout on channel)", "pci"),
    ("rdma", r"\b(?:mlx|bnxt_|irdma|efa)\w*.*(?:health compromised|assert_|fatal)", "pci"),
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
    ("machine", r"Previous system reset reason .*(?:thermal|uncorrected error|parity error)", ""),
    ("machine", r"CPU\d+: (?:Package|Core) temperature.* above threshold, cpu clock throttled", ""),
    ("machine", r"Memory failure: .*(?:SIGBUS|SIGKILL|Killing|corruption)|Uncorrected hardware memory error", ""),
    ("machine", r"critical temperature reached|Marking clocksource '\w+' as unstable|NMI: .*(?:SERR|IOCK|parity)", ""),
    ("hang", r"task .* blocked for more than \d+ seconds|soft lockup - CPU|[Hh]ard LOCKUP", ""),
    ("hang", r"rcu\w*: (?:.*detected (?:expedited )?stall|\S+ kthread starved for)", ""),
    ("refused", r"fork rejected by pids controller|VFS: file-max limit \d+ reached|VmData \d+ exceed data ulimit", ""),
    ("hang", r"RC watchdog: GPU is probably locked", ""),
    # Of the 16 MiB that devices of 1990 can reach nobody needs any; many servers lack them as they start.
    # A user program's own error is logged as "traps: python3[4711] general protection fault ip:...".
    (
        "crash",
        (
            r"BUG: (?:unable to handle|kernel NULL|Bad |workqueue lockup|scheduling while atomic|KASAN|stack guard)"
            r"|kernel BUG at|Oops: |general protection fault, probably|: page allocation failure(?!.*\|GFP_DMA\b)"
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
        + HINT
        + r"|nvme\w*: I/O .*timeout|server .* not responding",
        "",
    ),
    ("storage", r"nvme\w* .*(?:Device not ready; aborting|after reset failure)|SAS host is non-operational", ""),
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
OF_MODULE = r"^(?!Lockdown)(?:module )?(\w+): "
PCI = r"\b([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-9a-f])?)\b"
INTERFACE = r" (\S+): "
LONGEST = 4096  # letters, of which the kernel writes half as many in one record: what is longer is no record of its own
PLACES = {"pci": PCI, "interface": INTERFACE, MODULE: OF_MODULE}


def event_in(text: str) -> dict[str, Any]:
    """The event that a line reports; empty for any other line."""
    text = text[:LONGEST]
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


def in_one_line(text: str) -> str:
    r"""A text of several lines, whose ends the kernel writes as \x0a, and the driver with its name at each start."""
    return text.replace("\\x0aNVRM:", "").replace("\\x0a", " ").strip()
