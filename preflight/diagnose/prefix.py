"""Who printed a line, and when? Launchers and loggers put prefixes in front of it, several at once."""

from __future__ import annotations

import re
from dataclasses import dataclass

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
MONTHS = {
    name: number
    for number, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}
# What stands before a colon and is no host: codes of errors of HCCL, exceptions of sqlite3, programs, bars of progress.
NO_NODE = r"E[A-Z]\d{4}:|ERR\d+:|[\w.]+(?:Error|Exception|Warning|\.timeout): |python[\d.]*: |\S+: +\d+%\|"
# Prefixes of a line, in any order; each gives rank, node or time as it knows them.
PREFIXES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\[rank\s?(?P<own>\d+)\](?::| (?=\s*\S)) ?",  # torch, torchrun's own loggers
        r"\[default(?P<local>\d+)\]:",  # torchrun --tee
        r"\[\d+,(?P<task>\d+)\]<std(?:out|err|diag)>:\s?",  # mpirun --tag-output
        r" {0,4}(?P<task>\d{1,5}): (?!\d+:)",  # srun --label, which aligns its numbers
        r"(?P<node>\d{1,3}(?:\.\d{1,3}){3}): (?=\s*\S)",  # pdsh, of addresses
        r"std(?:out|err) [FP] ",  # the files of a Kubernetes node
        r"(?:&gt;|>) ?(?=\s*\S)",  # a mail or an issue that quotes the line
        r"\[pod/(?P<node>[\w.-]+)(?:/[\w.-]+)?\]\s*",  # kubectl logs --prefix
        r"std(?:out|err): ?",  # accelerate test
        r"\((?P<who>[\w. :-]+?) pid=(?P<process>\d+)(?:, ip=(?P<node>[\w.:-]+))?\) ?",  # Ray, vLLM
        r"(?P<node>[A-Za-z][\w.-]*?)\s*(?:\||>>)\s+",  # docker compose, some collectors
        r"\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?: [A-Z_]+\d+)*? TP(?P<own>\d+)(?: [A-Z_]+\d+)*\] ?",  # SGLang
        r"\[?(?P<time>\d{4}[-/]\d\d[-/]\d\d[ T_]\d\d:\d\d:\d\d(?:[.,]\d+)?)(?:Z|[+-]\d\d:?\d\d)?\]?[,:]?\s*",
        r"(?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) (?P<node>[\w.-]+) (?=kernel|[\w.-]+\[\d+\]:|systemd|slurmd)",
        r"slurmstepd-(?P<node>[\w.-]+): (?=error)",
        r"[a-z][\w.-]*\[\d+\]: (?=\s*\S)",  # the program, as journald names it
        r"\[(?P<time>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]?\d \d\d:\d\d:\d\d \d{4})\]\s*",  # dmesg -T
        r"\[?(?P<glog>[IWEF]\d{3,4} \d\d:\d\d:\d\d(?:\.\d+)?)\s+",  # glog: torch's native code
        r"\[(?P<ticks>\s*\d+\.\d{6,9})\]\s*",  # dmesg, UCX, PSM3
        r"\[(?P<node>[A-Za-z][\w.-]*):\d+ *:-?\d+(?::\d+)?\]\s*",  # UCX: host, process, thread
        r"\[(?P<node>(?!(?:rank|gpu|cuda|step|epoch)\d)[A-Za-z][\w-]*[\d.][\w.-]*):\d{2,8}\]\s*",  # Open MPI
        r"(?P<node>[A-Za-z][\w.-]*):rank(?P<own>\d+)(?:\.[\w.-]+)?: ",  # PSM3
        r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? \[?[\w./]+:\d+\]:? ?",  # vLLM
        r"\{\"log\": ?\"",  # Docker's own files
        r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)[:\s]\s*",
        # pdsh, and DeepSpeed through it
        rf"(?P<node>(?!{NO_NODE})[A-Za-z][\w.-]*\d[\w.-]*): (?=\s*\S)",
    )
)
NCCL = re.compile(r"(?:^|\s)(?P<node>[A-Za-z0-9][\w.-]*):(?P<pid>\d+):\d+ \[(?P<gpu>-?\d+)\]")
SAYS_RANK = re.compile(r"\[(?:PG [^\]]*?)?\brank[ :]\s?(\d+)\]|\brank (\d+)\b|\brank[=:]\s?(\d+)\b", re.IGNORECASE)
TIME = re.compile(
    r"(?:\d{4}[-/](?P<month>\d\d)[-/](?P<day>\d\d)|(?P<name>[A-Z][a-z]{2}) +(?P<date>\d{1,2})"
    r"|[IWEF](?P<glog>\d{3,4}))[ T_]+(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d+))?"
)
OF_FILE = re.compile(r"rank[_-]?(\d+)|/(\d+)/std(?:out|err)\.log$", re.IGNORECASE)

# In a name, what the files of one job differ in: the rank, and which of its streams a file holds.
OF_STREAM = re.compile(r"(?i)rank[_-]?\d+|/\d+(?=/std(?:out|err)\.log$)|(?:[._-]?(?:std)?(?:out|err)|\.log|\.txt)+$")
OF_PBS = re.compile(r"\.[oe](?=\d+$)")


@dataclass(frozen=True)
class Line:
    """A line without its prefixes. ``rank`` is -1, ``seconds`` negative where the line does not say.

    ``task`` is the number that srun or mpirun put in front, -1 where none: the rank too, unless a task starts several.
    ``seconds`` count from the beginning of a year, so that lines of one run compare, whatever wrote them.
    """

    text: str
    rank: int = -1
    node: str = ""
    pid: str = ""
    seconds: float = -1.0
    task: int = -1
    process: str = ""  # as Ray and vLLM name it in front of each of its lines

    @property
    def stream(self) -> str:
        """What lines that one process printed have in common, as far as they say."""
        return f"{self.rank}/{self.node}/{self.process}"


def job_of(file: str) -> str:
    """What the names of the files of one job share."""
    return OF_PBS.sub(".", OF_STREAM.sub("", file))


def seconds_of(text: str) -> float:
    """The time that a text names, in seconds from the beginning of its year; -1 where it names none."""
    found = TIME.search(text)
    if found is None:
        return -1.0
    if found["glog"]:
        month, day = int(found["glog"][:-2]), int(found["glog"][-2:])
    elif found["name"]:
        month, day = MONTHS.get(found["name"].lower(), 0), int(found["date"])
    else:
        month, day = int(found["month"]), int(found["day"])
    fraction = float(f"0.{found['f'] or 0}")
    return (month * 31 + day) * 86400 + int(found["h"]) * 3600 + int(found["m"]) * 60 + int(found["s"]) + fraction


def line_of(line: str, *, file: str = "") -> Line:
    """The line without prefixes and ANSI codes, with its rank, or else that of the file."""
    text = ANSI.sub("", line) if "\x1b" in line else line
    rank, task, node, process, seconds = -1, -1, "", "", -1.0
    text = text.rstrip()
    for _ in range(8):
        for prefix in PREFIXES:
            found = prefix.match(text)
            if found is None or found.end() == 0:
                continue
            groups = found.groupdict()
            if groups.get("own") and rank < 0:
                rank = int(groups["own"])
            if groups.get("task") and task < 0:
                task = int(groups["task"])
            node = node or groups.get("node") or ""
            process = groups.get("process") or process
            when = groups.get("time") or groups.get("glog")
            if when and seconds < 0:
                seconds = seconds_of(when)
            text = text[found.end() :]
            break
        else:
            break
    pid = ""
    nccl = NCCL.search(line) if "NCCL" in line else None
    if nccl:
        node, pid = nccl["node"], nccl["pid"]
    rank = task if rank < 0 else rank
    if rank < 0:
        of_file = OF_FILE.search(file)
        if of_file:
            rank = int(of_file[1] or of_file[2])
    if rank < 0:
        spoken = SAYS_RANK.search(text)
        if spoken:
            rank = int(next(group for group in spoken.groups() if group is not None))
    if seconds < 0:
        seconds = seconds_of(line[:200])
    return Line(text, rank, node, pid, seconds, task, process)
