"""What is to be done next about a rank that holds the others up, with the numbers of its process filled in?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from preflight.diagnose.hanging import ras
from preflight.diagnose.hanging.stuck import STOPPED, Doing, Stuck
from preflight.facts.value import Missing
from preflight.said import said

MOST = 8


def next_steps(stuck: Stuck, failures: Mapping[str, str], report: ras.Report) -> tuple[str, ...]:
    """A line for each thing to do, the surest first; none for a job that goes on."""
    if stuck.goes_on:
        return ()
    found = [
        *(_of_rank(one) for one in stuck.guilty[:MOST]),
        *_of_nodes(failures),
        *([] if any(one.process.state in STOPPED for one in stuck.guilty) else ras.steps(report)),
    ]
    if stuck.missing and not failures:
        ranks = ", ".join(map(str, stuck.missing[:MOST]))
        found.append(
            said(
                "read the end of the output of rank {ranks}: none of these nodes has it; it ended or was never started",
                ranks,
            )
        )
    everyone = [one for group in stuck.groups for one in group]
    found += _of_dumps(everyone)
    if any(isinstance(one.process.frames, Missing) for one in everyone):
        found.append(
            "for the Python stacks: `pip install py-spy` beside preflight here, and look as root or as the job's user "
            "(`sysctl kernel.yama.ptrace_scope` may have to be 0)"
        )
    if not found and everyone and all(one.call for one in everyone):
        found.append(
            "all wait in the same call: `preflight run --hosts HOSTS` tests the network and the GPUs under it; "
            "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 in the next run keeps what each rank called"
        )
    return tuple(dict.fromkeys(found))


def _of_rank(one: Doing) -> str:
    pid, node = one.process.pid, one.node
    if one.process.state == "T":
        return said("on {node}: `kill -CONT {pid}`", node, pid)
    if one.process.state == "t":
        return said(
            "on {node}: detach the debugger of process {pid} (`grep TracerPid /proc/{pid2}/status`)", node, pid, pid
        )
    if one.process.state == "Z":
        return said("read the end of the output of {name}: the process has ended, and the job with it", one.name)
    if one.process.state == "D":
        return said(
            "on {node}: `cat /proc/{pid}/stack; dmesg -T | tail`: storage or the driver of a device does not answer",
            node,
            pid,
        )
    return said("on {node}: `py-spy dump --pid {pid}` again after a while shows whether it is still there", node, pid)


def _of_dumps(everyone: Sequence[Doing]) -> Iterator[str]:
    """What the flight recorder has written, or would write, of each rank's collectives."""
    pipes = [one for one in everyone if one.process.dump.endswith(".pipe")]
    dumps = [one for one in everyone if one.process.dump and one not in pipes]
    if dumps:
        places = ", ".join(f"{one.node}:{one.process.dump}" for one in dumps[:MOST])
        yield said("the flight recorder has dumped: copy {places} here, and `preflight diagnose` them together", places)
    if pipes:
        first = pipes[0]
        yield said(
            "on {node}: `echo 1 > {pipe}` makes the flight recorder write which collectives the rank called; so on all",
            first.node,
            first.process.dump,
        )


def _of_nodes(failures: Mapping[str, str]) -> Iterator[str]:
    for name in list(failures)[:MOST]:
        yield said("{name} was not looked at: reach it first (`ssh {name2} true`), and look again", name, name)


def with_report(stuck: Stuck, reports: Sequence[str], failures: Mapping[str, str]) -> Stuck:
    """What was seen, with what NCCL says of the ranks, and what to do next."""
    report = ras.standing(reports)
    words = "" if stuck.goes_on else ras.verdict(report)
    # What NCCL says comes first, except of a rank that was seen to be stopped: that says why.
    told = stuck if stuck.guilty or not words else replace(stuck, verdict=words)
    return replace(told, ras=words, steps=next_steps(told, failures, report))
