"""A run of 3, 64 or 512 nodes in racks of 16, with what goes wrong in clusters of that size."""

from __future__ import annotations

from preflight.judge.ledger.findings import Command, Finding, Verdict
from preflight.report.document import Counts, NodeInfo, RunInfo, RunReport

REACH = "reach.every_node_answers"
MTU = "network.mtu_is_the_same_on_every_node"
RACK = 16


def large(count: int) -> RunReport:
    """The last rack without power, another MTU on one node in twenty, slow GPUs, and jobs that did not start."""
    names = tuple(f"node{number:03d}" for number in range(1, count + 1))
    lost = names[-RACK:] if count > RACK else ()
    there = tuple(name for name in names if name not in lost)
    odd = there[2::20]
    slow = there[::150]
    rest = tuple(name for name in there if name not in odd)
    findings = [Finding(REACH, Verdict.PASS, there, "answers")]
    if lost:
        rack = f"r{(count - 1) // RACK}"
        message = f"{rack}: {RACK} of {RACK} nodes not reached: no answer on the ssh port (ssh: Connection timed out)"
        findings.append(
            Finding(REACH, Verdict.ERROR, lost, message, f"look at the switch and the power of {rack} first")
        )
    typed = tuple(Command(name, "ip link set dev eth0 mtu 9000") for name in odd)
    findings += [
        Finding(
            MTU, Verdict.FAIL, (name,), f"mtu of eth0: 1500 on {name}, 9000 on the others", "raise it", commands=(one,)
        )
        for name, one in zip(odd, typed, strict=True)
    ]
    findings.append(Finding(MTU, Verdict.PASS, rest, "the same"))
    findings += [
        Finding(
            "gpu.clocks_are_not_held_down",
            Verdict.WARN,
            (name,),
            f"GPU 3 of {name} runs at 1,{place}05 MHz",
            "reset it",
        )
        for place, name in enumerate(slow)
    ]
    for number in range(100):
        findings.append(Finding(f"subject{number % 9}.a_check_as_long_as_ours_{number}", Verdict.PASS, there, "holds"))
    for number in range(90):
        findings.append(Finding(f"gpu.another_check_as_long_{number}", Verdict.SKIP, there, "no GPU on any node"))
    for number in range(38):
        check = f"training.a_promise_of_the_job_{number}"
        findings.append(Finding(check, Verdict.ERROR, there, f"not started: {MTU}", blocked_by=MTU))
        findings += [Finding(check, Verdict.ERROR, lost, f"blocked by {REACH}", blocked_by=REACH)] * bool(lost)
    nodes = {
        name: NodeInfo(
            host=name, address=f"10.0.{place // 200}.{place % 200}", reached=name in there, rack=f"r{place // RACK}"
        )
        for place, name in enumerate(names)
    }
    return RunReport(
        finished=True,
        run=RunInfo(
            id="x", started="2030-01-02T03:04:05+00:00", seconds=41.0, command=("preflight", "run"), version="0"
        ),
        verdict=Verdict.FAIL,
        exit_code=1,
        nodes=nodes,
        ledger=Counts(expected=1, judged=1, not_asked=0),
        findings=tuple(findings),
    )
