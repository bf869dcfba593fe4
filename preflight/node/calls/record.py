"""What is the raw material of this node's facts: which files were read, and what did the programs print?

The collectors themselves say what they read: an audit hook of this process notes every file that they open, every
folder that they list and every program that they start. The result is a fragment of a root file system, as tests lay
it over a machine: ``opt/twin`` holds what is no file, programs' outputs by their command line and the kernel's answers.
"""

from __future__ import annotations

import base64
import json
import os
import stat
import sys
import time

from preflight.node.agent import programs, roots
from preflight.node.calls import collect, ending
from preflight.node.sources.kernel import log
from preflight.node.sources.kernel.events import is_of_use
from preflight.node.sources.scrubbed import Scrubber
from preflight.node.sources.shells import SHELLS
from preflight.node.subjects.environment import job_variables, may_leave_node, without_credentials
from preflight.node.subjects.machine import listed, rdma_core
from preflight.node.subjects.software import SYSTEM_LIBRARIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from preflight.node.agent.channel import Channel

RECORDED = ("/sys/", "/proc/", "/dev/infiniband/", "/dev/nvidia-caps-imex-channels")
FIRST = "/proc/1/comm"  # which a user sees only where /proc hides no process
# Of other processes, only those that a check asks about are recorded.
PROCESSES = (
    *("chronyd", "ntpd", "ntpsec", "openntpd", "systemd-timesyn", "ptp4l", "phc2sys"),
    *("nv-fabricmanage", "nvidia-imex", "nvidia-persiste"),
)
NAMES = ("/etc/hosts", "/etc/nccl.conf", "/etc/resolv.conf", "/etc/nvidia-imex/nodes_config.cfg")
METADATA = (".dist-info/METADATA", "/torch/version.py")
LARGEST_BYTES = 4 << 20
LIMIT_S = 15.0
BATCH = 64
OWN = ("/proc/self", "/proc/net")  # links that are different for each process


class Reads:
    """What was opened, listed and started since the hook was set; a hook cannot be taken away, so it can be closed."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self.folders: dict[str, None] = {}
        self.commands: dict[tuple[str, ...], None] = {}
        self.is_open = True

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note what Python is about to read: its audit hook calls this for every event."""
        if not self.is_open or not arguments:
            return
        first = arguments[0]
        if event == "open" and isinstance(first, str):
            self.files[first] = None
        elif event in ("os.listdir", "os.scandir") and isinstance(first, str):
            self.folders[first] = None
        elif event == "subprocess.Popen" and len(arguments) > 1 and os.path.basename(arguments[1][0]) not in SHELLS:
            # A person's shell prints their whole environment.
            self.commands[tuple(map(str, arguments[1]))] = None


def run(arguments: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Emit {"files": [{"path", "text" | "base64" | "link" | "folder"}]} until all are sent."""
    roots.only_here(arguments)
    arguments = {**arguments, "scratch": channel.scratch}
    reads = Reads()
    sys.addaudithook(reads.note)
    facts = {event["subject"]: event.get("facts", {}) for event in answers_of(arguments)}
    ending.collect(arguments)
    reads.is_open = False
    scrubber = Scrubber(bytes.fromhex(arguments["key"]))
    entries = [
        *tree(reads),
        *outputs(reads),
        *packages(reads, facts),
        kernel(facts, arguments),
    ]
    for start in range(0, len(entries), BATCH):
        kept = [
            {**entry, "text": scrubber.text(entry["text"])} if "text" in entry else entry
            for entry in entries[start : start + BATCH]
        ]
        channel.emit({"files": kept})
    return {}


def answers_of(arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """The answer of every subject."""
    return [collect.answer(subject, arguments) for subject in collect.COLLECTORS]


def tree(reads: Reads) -> list[dict[str, Any]]:
    """The files, folders and links below /sys, /proc and /dev that were looked at, with the names of hosts."""
    found: dict[str, dict[str, Any]] = {}
    wanted = [path for path in reads.files if path.startswith(RECORDED)]
    for folder in (path for path in reads.folders if f"{path}/".startswith(RECORDED)):
        if folder.rstrip("/") in ("/proc", "/proc/self/fd") or "/fd" in folder:
            continue
        add(found, folder)
        wanted += [f"{folder.rstrip('/')}/{name}" for name in listed(folder)]
    for path in [*wanted, *NAMES, *more(wanted)]:
        if not path.startswith("/proc/") or may_be_recorded(path):
            add(found, path)
        elif path == FIRST and read(path):  # that there is one is told, and not which
            found[path[1:]] = {"path": path[1:], "text": "init\n"}
    text = kernel_log("/dev/kmsg")
    return [*found.values(), *verbs_library(), *([{"path": "dev/kmsg", "text": text}] if text is not None else [])]


def more(paths: list[str]) -> list[str]:
    """Paths that are looked up but never opened: the device behind an adapter or an interface, and its class."""
    tops = {
        "/".join(path.split("/")[:5])
        for path in paths
        if path.startswith(("/sys/class/infiniband/", "/sys/class/net/"))
    }
    return [f"{top}/{name}" for top in sorted(tops) for name in ("device", "device/vendor", "ifindex")] + [
        "/sys/class/kfd"
    ]


def verbs_library() -> list[dict[str, Any]]:
    """The name of the verbs library, which tells its version."""
    version = rdma_core(SYSTEM_LIBRARIES)
    if not isinstance(version, str):
        return []
    name = "libibverbs.so.1"
    real = f"libibverbs.so.{version}"
    return [{"path": f"usr/local/lib/{real}", "text": ""}, {"path": f"usr/local/lib/{name}", "link": real}]


def may_be_recorded(path: str) -> bool:
    """Whether a file of /proc may be recorded: of other processes only the names of a few."""
    parts = path.split("/")
    if not parts[2].isdigit():
        return parts[2] != "self" or parts[3:] == ["cgroup"]
    return parts[3:] == ["comm"] and read(path).decode("utf-8", "replace").strip() in PROCESSES


def add(found: dict[str, dict[str, Any]], path: str) -> None:
    """A path with every symbolic link on the way to it."""
    place = ""
    for part in path.strip("/").split("/"):
        place = f"{place}/{part}"
        try:
            target = os.readlink(place) if os.path.islink(place) and place not in OWN else ""
        except OSError:
            return
        if target:
            key = place.lstrip("/")
            found[key] = {"path": key, "link": os.path.abspath(os.path.join(os.path.dirname(place), target))}
            place = os.path.realpath(place)
    key = place.lstrip("/")
    if key in found or not place.startswith((*RECORDED, "/etc/", "/dev/")):
        return
    try:
        mode = os.stat(place).st_mode
    except OSError:
        return
    if stat.S_ISDIR(mode):
        found[key] = {"path": key, "folder": True}
    elif stat.S_ISREG(mode):
        found[key] = {"path": key, **content(read(place))}
    else:
        found[key] = {"path": key, "text": ""}


def read(path: str) -> bytes:
    """The bytes of a file, none where it refuses."""
    data = b""
    try:
        with open(path, "rb", buffering=0) as file:
            while len(data) < LARGEST_BYTES and (more := file.read(1 << 16)):  # a sysctl refuses to be asked for more
                data += more
    except OSError:
        return b""
    return data


def content(data: bytes) -> dict[str, str]:
    """Bytes as they cross the wire."""
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def kernel_log(path: str) -> str | None:
    """The lines that report an event or its end, and no others; nothing where the log is not for us."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        records = log.records(descriptor, end=time.monotonic() + log.MOST_SECONDS)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    lines = b"".join(records).decode("utf-8", "backslashreplace").splitlines()
    told = [line for line in lines if is_of_use(line.partition(";")[2])]
    if lines and not told:  # an empty log looks like one that a container hides
        told = [f"{lines[0].partition(';')[0]};lines that report no event are left out"]
    return "".join(f"{line}\n" for line in told)


def outputs(reads: Reads) -> list[dict[str, Any]]:
    """What every program that was asked prints, by its name and words; its exit code where that is not 0."""
    import subprocess

    found: list[dict[str, Any]] = []
    for words in reads.commands:
        name = " ".join([os.path.basename(words[0]), *words[1:]])
        if "/" in name:
            continue
        try:
            text = programs.run(list(words), limit_s=LIMIT_S)
            code = subprocess.run(words, capture_output=True, timeout=LIMIT_S, check=False).returncode
        except (OSError, ValueError, subprocess.SubprocessError):
            continue
        found.append({"path": f"opt/twin/outputs/{name}", "text": text})
        if code:
            found.append({"path": f"opt/twin/outputs/{name}.exit", "text": str(code)})
    return found


def packages(reads: Reads, facts: dict[str, Any]) -> list[dict[str, Any]]:
    """The distributions of the job's interpreter by their names, and the metadata of those that were read."""
    site = "opt/twin/env/site-packages"
    found = []
    for name, version in facts.get("software", {}).get("packages", {}).items():
        found.append({"path": f"{site}/{name.replace('-', '_')}-{version}.dist-info", "folder": True})
    for path in filter(lambda path: path.endswith(METADATA), reads.files):
        text = read(path).decode("utf-8", "replace")
        if path.endswith("METADATA"):
            text = text.partition("\n\n")[0] + "\n"  # the description is long, and nothing reads it
        else:
            found.append({"path": f"{site}/torch/__init__.py", "text": ""})
        found.append({"path": f"{site}/{'/'.join(path.split('/')[-2:])}", "text": text})
    return found


def kernel(facts: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """What system calls answered: names, sizes, limits, interfaces, and the job's variables without secrets."""
    identity, limits, network = (facts.get(name, {}) for name in ("identity", "limits", "network"))
    variables = job_variables(arguments)
    interfaces = [
        {
            "name": each["name"],
            "mtu": each["mtu"],
            "speed_mbps": each["speed_mbps"],
            # Link-local ones are made from hardware addresses.
            "addresses": [
                f"{held['address']}/{held['prefix_length']}"
                for held in each["addresses"]
                if not held["address"].startswith("fe80:")
            ],
            "is_up": each["is_up"],
        }
        for each in network.get("interfaces", [])
        if not each["is_loopback"]
    ]
    answers = {
        "hostname": identity.get("hostname", "node1"),
        "release": identity.get("kernel", ""),
        "machine": identity.get("machine", ""),
        "cpus": facts.get("kernel", {}).get("cpus_allowed", 1),
        "memory_bytes": identity.get("memory_bytes", 1 << 30),
        "shared_memory_bytes": limits.get("shm_total_bytes", 64 << 20),
        "user_id": identity.get("user_id", 0),
        "limits": {
            name: -1 if limits.get(f"{name}_soft{unit}") == "unlimited" else limits.get(f"{name}_soft{unit}", -1)
            for name, unit in (("memlock", "_bytes"), ("nofile", ""), ("nproc", ""))
        },
        "interfaces": interfaces,
        "gateway": next((each["address"] for each in network.get("gateways", [])), ""),
        "environment": {
            name: without_credentials(value) for name, (value, _) in sorted(variables.items()) if may_leave_node(name)
        },
    }
    return {"path": "opt/twin/kernel.json", "text": json.dumps(answers, indent=1)}
