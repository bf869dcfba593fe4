"""What do NCCL and torch write? In their own forms: NCCL 2.27 (init.cc, net.cc, enqueue.cc), torch 2.13.

Of torch: ProcessGroupNCCL.cpp, NCCLUtils.cpp, FlightRecorder.
"""

import os
import socket
import struct
import threading

KINDS = {
    "invalid usage": (
        "invalid usage (run with NCCL_DEBUG=WARN for details)",
        "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
    ),
    "internal": (
        "internal error - please report this issue to the NCCL developers",
        "ncclInternalError: Internal check failed.",
    ),
    "remote": (
        "remote process exited or there was a network error",
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
    ),
    "system": (
        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. ",
    ),
}


def error_text(kind, last, version):
    """What torch makes of an error of NCCL."""
    said, of_class = KINDS[kind]
    number = ".".join(map(str, version))
    where = "/pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94"
    return (
        f"NCCL error in: {where}, {said}, NCCL version {number}\n{of_class}\nLast error:\n{last}\n"
        f"Exception raised from create at {where} (most recent call first):\n"
        "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f in libc10.so)\n"
    )


def interfaces():
    """Name -> IPv4 address."""
    import fcntl

    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                found[name] = socket.inet_ntoa(fcntl.ioctl(asked, 0x8915, request)[20:24])
            except OSError:
                continue
    return found


def chosen_interfaces():
    """The interfaces that NCCL would take: prefixes of NCCL_SOCKET_IFNAME, `=` for whole names, `^` for all others."""
    asked, found = os.environ.get("NCCL_SOCKET_IFNAME", ""), interfaces()
    if not asked:
        usual = {name: at for name, at in found.items() if not name.startswith(("lo", "docker", "virbr"))}
        return usual or found
    excludes, rest = asked.startswith("^"), asked.lstrip("^")
    exact, words = rest.startswith("="), rest.lstrip("=").split(",")

    def is_meant(name):
        return any(name == word if exact else name.startswith(word) for word in words)

    return {name: at for name, at in found.items() if is_meant(name) != excludes}


class Log:
    """NCCL's log: to NCCL_DEBUG_FILE, else to standard output; what NCCL_DEBUG and NCCL_DEBUG_SUBSYS let through."""

    def __init__(self, device):
        self.level = os.environ.get("NCCL_DEBUG", "").upper()
        self.subsystems = os.environ.get("NCCL_DEBUG_SUBSYS", "INIT,BOOTSTRAP,ENV").upper().split(",")
        path = os.environ.get("NCCL_DEBUG_FILE", "")
        path = path.replace("%h", socket.gethostname()).replace("%p", str(os.getpid()))
        self.file = open(path, "a", buffering=1, encoding="utf-8") if path else None  # noqa: SIM115 - while NCCL lives
        self.head = f"{socket.gethostname()}:{os.getpid()}:{threading.get_native_id()} [{device}]"

    def _write(self, line):
        if self.file:
            self.file.write(line + "\n")
        else:
            os.write(1, line.encode() + b"\n")

    def tell(self, subsystem, text):
        """An INFO line of a subsystem."""
        if self.level in {"INFO", "TRACE"} and subsystem in self.subsystems:
            self._write(f"{self.head} NCCL INFO {text}")

    def warn_of(self, where, text):
        """A WARN line, with the place in NCCL's source before it."""
        if self.level:
            self._write(f"\n{self.head} {where} NCCL WARN {text}")


def dump_topology(*, rank, device):
    """What NCCL writes of the node for the rank that asks for it."""
    for kind, text in (("TOPO", TOPOLOGY.format(rank=rank, device=device)), ("GRAPH", GRAPHS)):
        path = os.environ.get(f"NCCL_{kind}_DUMP_FILE", "")
        if path and os.environ.get(f"NCCL_{kind}_DUMP_FILE_RANK", "0") == str(rank):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)


TOPOLOGY = """<system version="1">
  <cpu host_hash="0x1" numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:10:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="{device}" sm="90" rank="{rank}" gdr="1"/>
    </pci>
  </cpu>
</system>
"""
GRAPHS = """<graphs version="1">
  <graph id="0" pattern="4" nchannels="2" speedintra="20" speedinter="20" typeintra="NVL" typeinter="PIX"/>
</graphs>
"""


def tell_start(log, *, rank, hosts, devices, boards, description):
    """What NCCL writes until a communicator is ready; of every rank its host, and its GPU's number and its bus."""
    name, address = next(iter(chosen_interfaces().items()))
    version, ranks = ".".join(map(str, description.nccl)), len(hosts)
    log.tell("INIT", f"Bootstrap: Using {name}:{address}<0>")
    log.tell("INIT", f"NCCL version {version}+cuda12.9")
    if description.network in ("IB", "Socket"):
        log.tell("NET", "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.")
    else:
        log.tell("NET", f"NET/Plugin: Loaded net plugin {description.network} (v10)")
        log.tell("NET", f"NET/{description.network} : GPU Direct RDMA Enabled for HCA 0 'rdmap79s0-rdm'")
    for line in description.lost:
        log.warn_of("nccl_net_ofi_init:260", line)
    if description.network == "IB":
        ports = " ".join(f"[{number}]{port}" for number, port in enumerate(description.ports))
        log.tell("NET", f"NET/IB : Using {ports} [RO]; OOB {name}:{address}<0>")
    elif description.network == "Socket":
        log.tell("NET", "NET/IB : No device found.")
        log.tell("NET", f"NET/Socket : Using [0]{name}:{address}<0>")
    log.tell("INIT", f"Using network {description.network}")
    comm = f"ncclCommInitRankConfig comm 0x55d0c0de rank {rank} nranks {ranks} cudaDev {devices[rank]}"
    log.tell("INIT", f"{comm} nvmlDev {boards[rank] - 16} busId {boards[rank]:x}000 commId 0xabcdef - Init START")
    for channel in range(2):
        for receives, peer in ((False, (rank + 1) % ranks), (True, (rank - 1) % ranks)):
            if hosts[peer] == hosts[rank]:
                if not receives:
                    way = f"{rank}[{devices[rank]}] -> {peer}[{devices[peer]}] via P2P/CUMEM"
                    log.tell("INIT", f"Channel {channel:02d}/0 : {way}")
                continue
            first, second = (peer, rank) if receives else (rank, peer)
            way = f"{first}[{devices[first]}] -> {second}[{devices[second]}]"
            gdr = "/GDRDMA" if description.network != "Socket" and description.gdr else ""
            direction = "receive" if receives else "send"
            log.tell("NET", f"Channel {channel:02d}/0 : {way} [{direction}] via NET/{description.network}/0{gdr}")
    if description.nvls is not None:
        is_lost, can = description.nvls == "lost", description.nvls.replace("lost", "")
        where = f"dev {devices[rank]} (NVLS_NCHANNELS 16)"
        log.tell("INIT", f"NVLS multicast support is {can}available on {where}")
        why = "CUDA error 401 'the operation cannot be performed in the present state'"
        if is_lost:
            bound = "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 16777216"
            log.tell("INIT", f"{bound} : {why}. Proceeding without NVLS support.")
    log.tell("INIT", "Connected all rings, use ring PXN 0 GDR 1")
    log.tell("INIT", "2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer")
    log.tell("INIT", f"{comm} nvmlDev {boards[rank] - 16} busId {boards[rank]:x}000 commId 0xabcdef - Init COMPLETE")
