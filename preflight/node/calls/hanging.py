"""What are the ranks of a hanging job doing right now? Everything is read; no process is stopped or signalled."""

from __future__ import annotations

import contextlib
import os
import re
import time

from preflight.node.agent import programs
from preflight.node.agent.missing import missing
from preflight.node.sources.gpus import printed_json, ras

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from preflight.node.agent.channel import Channel

# How launchers number the ranks that they start, the first that is set.
RANK = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
WORLD = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
LOCAL = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")
MOST = 256
MOST_FRAMES = 60
MOST_SOCKETS = 64
LOOKS = 5
PAUSE_S = 0.5
WATCH_S = 12.0  # no look begins later than this after the first
SPY_S = 20.0
TCP_ESTABLISHED, TCP_SYN_SENT = "01", "02"
STATES = {TCP_ESTABLISHED: "established", TCP_SYN_SENT: "connecting", "08": "close_wait"}


def run(arguments: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Emit the ranks of the job that is named by ``match`` (a pattern of command lines) or by ``pids``."""
    channel.emit({"facts": collect(arguments, channel.blob)})
    return {}


def collect(arguments: dict[str, Any], spy: bytes = b"") -> dict[str, Any]:
    """The ranks on this node, with what each is doing, and what NCCL says of all where it is asked.

    `spy` is the program py-spy, for a node that has none.
    """
    proc = arguments["proc"]
    chosen = ranks(everybody(proc), arguments.get("match", ""), set(arguments.get("pids", ())), own(proc))
    address = next((process["ras"] for process in chosen if process["ras"]), "")
    said = [ras.status(address)] if arguments.get("ras") else []
    before = {process["pid"]: cpu_seconds(proc, process["pid"]) for process in chosen}
    began = time.monotonic()
    with sent_program(spy) as sent:
        looks = watched(chosen, proc, arguments.get("path", ""), sent)
    elapsed = time.monotonic() - began
    connections = sockets(proc)
    gpus = gpu_use(arguments.get("path", ""))
    for process in chosen:
        pid = process["pid"]
        process["cpu"] = round(max(0.0, cpu_seconds(proc, pid) - before[pid]) / elapsed, 2)
        process["kernel_stack"] = text_of(f"{proc}/{pid}/stack").splitlines()[:8]
        process["sockets"] = [connections[inode] for inode in inodes(proc, pid) if inode in connections][:MOST_SOCKETS]
        process["gpu_memory_mib"] = gpus.get(pid, 0)
        read = [look for look in looks[pid] if isinstance(look["frames"], list)]
        process.update({**(read or looks[pid])[-1], "state": looks[pid][-1]["state"]})
        process["earlier"] = [] if all(look == looks[pid][-1] for look in looks[pid]) else looks[pid][:-1]
        process.pop("parent")
        process.pop("program")
        process.pop("ras")
        process["dump"] = dump_of(proc, pid, process["rank"], *process.pop("recorder"))
    if said and isinstance(said[0], str):  # a rank that is only late has gone on by now
        said.append(ras.status(address))
    return {"ranks": chosen, "ras": said}


def recorder(environment: dict[str, str]) -> tuple[str, str]:
    """Where the flight recorder of torch dumps, and the pipe that makes it, both without the rank; "" for no pipe."""
    names = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
    dump = next((environment[name] for name in names if environment.get(name)), "/tmp/nccl_trace_rank_")
    return dump, environment.get("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "")


def dump_of(proc: str, pid: int, rank: int, dump: str, pipe: str) -> str:
    """The dump that this process has written, else the pipe that makes it write one; "" for neither.

    A dump that is older than the process is another job's.
    """
    try:
        if os.stat(f"{proc}/{pid}/root{dump}{rank}").st_mtime >= os.stat(f"{proc}/{pid}").st_mtime:
            return f"{dump}{rank}"
    except OSError:
        pass
    return f"{pipe}{rank}.pipe" if pipe and os.path.exists(f"{proc}/{pid}/root{pipe}{rank}.pipe") else ""


@contextlib.contextmanager
def sent_program(program: bytes) -> Iterator[str]:
    """The path of a program that lies in memory alone, for as long as it is needed; "" for none."""
    if not program or not hasattr(os, "memfd_create"):
        yield ""
        return
    descriptor = os.memfd_create("py-spy", 0)
    try:
        view = memoryview(program)
        while view:
            view = view[os.write(descriptor, view) :]
        # Opened for reading too by whoever starts it: what is open for writing cannot be executed.
        reading = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY)
        os.close(descriptor)
        descriptor = reading
        yield f"/proc/{os.getpid()}/fd/{descriptor}"
    finally:
        os.close(descriptor)


def watched(processes: list[dict[str, Any]], proc: str, path: str, sent: str = "") -> dict[int, list[dict[str, Any]]]:
    """What each process does at several moments: of one alone, a rank that is late is not told from one that hangs."""
    looks: dict[int, list[dict[str, Any]]] = {process["pid"]: [] for process in processes}
    began = time.monotonic()
    for number in range(LOOKS if processes else 0):
        if number and time.monotonic() - began > WATCH_S:
            break
        at = time.monotonic()
        stacks = spied(processes, path, sent)
        for pid, seen in looks.items():
            fields = text_of(f"{proc}/{pid}/stat").rpartition(")")[2].split()
            wchan = text_of(f"{proc}/{pid}/wchan").strip("\0\n 0")
            frames = stacks.get(pid, missing("no stack was read"))
            seen.append({"state": fields[0] if fields else "X", "wchan": wchan, "frames": frames})
        time.sleep(max(0.0, PAUSE_S - (time.monotonic() - at)))
    return looks


def everybody(proc: str) -> list[dict[str, Any]]:
    """Every process that we may inspect."""
    found = []
    for entry in os.listdir(proc):
        if not entry.isdigit():
            continue
        stat = text_of(f"{proc}/{entry}/stat")
        fields = stat.rpartition(")")[2].split()
        words = [word for word in text_of(f"{proc}/{entry}/cmdline").split("\0") if word]
        if len(fields) < 20 or not words:
            continue
        environment = variables(f"{proc}/{entry}/environ")
        found.append(
            {
                "pid": int(entry),
                "parent": int(fields[1]),
                "state": fields[0],
                "threads": int(fields[17]),
                "command": " ".join(words)[:400],
                "program": words[0],
                "rank": number(environment, RANK),
                "local_rank": number(environment, LOCAL),
                "world_size": number(environment, WORLD),
                "ras": environment.get("NCCL_RAS_ADDR", ""),
                "recorder": recorder(environment),
            }
        )
    return found


def ranks(
    processes: list[dict[str, Any]], match: str, pids: set[int], ours: set[int], most: int = MOST
) -> list[dict[str, Any]]:
    """The processes that are ranks of the job: of several with one number, a rank and its workers, the first.

    Of the processes below one of ``pids``, or whose command line fits ``match``; those without a number only where
    none has one.
    """
    by_pid = {process["pid"]: process for process in processes}
    pattern = re.compile(match) if match else None

    def is_asked(process: dict[str, Any]) -> bool:
        if process["pid"] in ours or "preflight diagnose" in process["command"]:
            return False
        if pattern is not None and pattern.search(process["command"]):
            return True
        return any(ancestor in pids for ancestor in line_of(process, by_pid))

    asked = [process for process in processes if is_asked(process)]
    numbered = [process for process in asked if process["rank"] >= 0]
    kept = []
    for process in sorted(numbered or asked, key=lambda process: process["pid"]):
        above = by_pid.get(process["parent"])
        if above is None or above["rank"] != process["rank"] or above["rank"] < 0 or above not in asked:
            kept.append(process)
    return kept[:most]


def line_of(process: dict[str, Any], by_pid: dict[int, dict[str, Any]]) -> list[int]:
    """A process and its ancestors, the nearest first."""
    line = []
    at: dict[str, Any] | None = process
    while at is not None and at["pid"] not in line:
        line.append(at["pid"])
        at = by_pid.get(at["parent"])
    return line


def own(proc: str) -> set[int]:
    """Our process and those above it: they carry the pattern in their own command lines."""
    line: set[int] = set()
    pid = os.getpid()
    while pid > 1 and pid not in line:
        line.add(pid)
        fields = text_of(f"{proc}/{pid}/stat").rpartition(")")[2].split()
        pid = int(fields[1]) if len(fields) > 1 else 0
    return line


def text_of(path: str) -> str:
    """The text of a file of a process; "" where the process has ended, or is not ours to look at."""
    try:
        with open(path, encoding="utf-8", errors="backslashreplace") as file:
            return file.read(1 << 16)
    except OSError:
        return ""


def variables(path: str) -> dict[str, str]:
    """The variables that give the rank's numbers, and no others: an environment holds secrets."""
    wanted = {*RANK, *WORLD, *LOCAL}
    pairs = (entry.partition("=") for entry in text_of(path).split("\0"))
    return {name: value for name, _, value in pairs if name in wanted}


def number(environment: dict[str, str], names: tuple[str, ...]) -> int:
    """The first of the variables that is set; -1 where none is."""
    for name in names:
        if environment.get(name, "").isdecimal():
            return int(environment[name])
    return -1


def cpu_seconds(proc: str, pid: int) -> float:
    """Seconds of a core that a process has used so far."""
    fields = text_of(f"{proc}/{pid}/stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if len(fields) > 12 else 0.0


def spied(processes: list[dict[str, Any]], path: str, sent: str = "") -> dict[int, Any]:
    """The Python frames of each rank's main thread, innermost first, by py-spy; it reads memory and pauses nobody."""
    commands = {}
    for process in processes:
        folder = os.path.dirname(process["program"])
        spy = programs.find("py-spy", f"{folder}:{path}" if folder.startswith("/") else path)
        spy = spy or sent
        if not spy:
            continue
        commands[str(process["pid"])] = [spy, "dump", "--json", "--nonblocking", "--pid", str(process["pid"])]
    if not commands:
        return {
            process["pid"]: missing("py-spy is not installed beside the job's Python", "absent")
            for process in processes
        }
    outputs = programs.run_all(commands, limit_s=SPY_S)
    return {int(pid): frames(output) for pid, output in outputs.items()}


def frames(output: Any) -> Any:
    """The frames of the main thread in what py-spy printed."""
    if not isinstance(output, str):
        return output
    try:
        begin = 0 if output.startswith("[") else max(0, output.find("[\n"))
        threads = printed_json.value_at(output, begin)[0]
        main = next((thread for thread in threads if thread["thread_name"] == "MainThread"), threads[0])
        return [f"{frame['name']} ({frame['filename']}:{frame['line']})" for frame in main["frames"][:MOST_FRAMES]]
    except (ValueError, LookupError, TypeError):
        last = [line for line in output.splitlines() if line.strip()][-1:]
        denied = "denied" if "ermission" in output or "not permitted" in output else "failed"
        return missing(f"py-spy: {last[0][:200] if last else 'no output'}", denied)


def sockets(proc: str) -> dict[str, dict[str, Any]]:
    """TCP connections by inode: both ends, the state, and the bytes that wait in either queue."""
    found: dict[str, dict[str, Any]] = {}
    for name in ("tcp", "tcp6"):
        for line in text_lines(f"{proc}/self/net/{name}")[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] in STATES:
                sending, _, receiving = fields[4].partition(":")
                found[fields[9]] = {
                    "peer": address(fields[2]),
                    "state": STATES[fields[3]],
                    "unsent_bytes": int(sending, 16),
                    "unread_bytes": int(receiving, 16),
                }
    return found


def text_lines(path: str) -> list[str]:
    """The lines of a table of the kernel, whole; none where it is not there."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.readlines()
    except OSError:
        return []


def address(text: str) -> str:
    """10.0.0.1:29500 of 0100000A:733C, as the kernel writes it."""
    import socket

    words, _, port = text.partition(":")
    raw = b"".join(bytes.fromhex(words[i : i + 8])[::-1] for i in range(0, len(words), 8))
    if len(raw) == 16 and raw.startswith(b"\0" * 10 + b"\xff\xff"):
        raw = raw[12:]
    family = socket.AF_INET if len(raw) == 4 else socket.AF_INET6
    host = socket.inet_ntop(family, raw)
    return f"{host}:{int(port, 16)}" if family == socket.AF_INET else f"[{host}]:{int(port, 16)}"


def inodes(proc: str, pid: int) -> list[str]:
    """The inodes of a process's sockets; none where its files are not ours to see."""
    found = []
    try:
        for entry in os.listdir(f"{proc}/{pid}/fd"):
            try:
                target = os.readlink(f"{proc}/{pid}/fd/{entry}")
            except OSError:
                continue
            if target.startswith("socket:["):
                found.append(target[8:-1])
    except OSError:
        return []
    return found


def gpu_use(path: str) -> dict[int, int]:
    """MiB of GPU memory by process; empty without nvidia-smi."""
    smi = programs.find("nvidia-smi", path)
    if not smi:
        return {}
    try:
        output = programs.run(
            [smi, "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"], limit_s=10.0
        )
    except (OSError, ValueError):
        return {}
    pairs = (line.split(",") for line in output.splitlines())
    return {
        int(pair[0]): int(pair[1])
        for pair in pairs
        if len(pair) == 2 and pair[0].strip().isdecimal() and pair[1].strip().isdecimal()
    }
