"""How long does a gate take whose nodes are certified? Run it as ``python -m tests.bench.reuse``.

Lab hosts are measured once with --reuse, then again and again: what is timed is the whole command, with the start of
Python. Beside it stand the seconds of processors that the command took on the controller, and as many logins at once.

``--changes`` plants one change after the other on a lab host that is certified, and says what each run made of it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.e2e import thresholds
from tests.lab import residue
from tests.lab.faults import Planted
from tests.lab.host import LabHost
from tests.lab.lab import Lab
from tests.lab.network import ip

HOSTS = 16
REPETITIONS = 7
ATTEMPTS = 4
LIMIT_SECONDS = 3.0
RATE = "200mbit"  # links that are slower than processors which all hosts share: those would make one of them look slow


def measure(lab: Lab, count: int, folder: Path) -> int:
    """Print the first run, the others, and logins alone; 1 where the median is above the limit or a run measured."""
    state = {"XDG_STATE_HOME": str(folder / "state")}
    words = [sys.executable, "-m", "preflight", "run", f"--hosts=node[1-{count}]", f"--python={sys.executable}"]
    words += ["--reuse=6h", "--ranks-per-node=1", thresholds.for_busy_machine(folder / "report")]
    seconds, processor, wrong = [], [], []
    for attempt in range(ATTEMPTS):  # a machine that others use may disturb a measurement: then there is no certificate
        begun = time.monotonic()
        first = lab.run([*words, f"--report-dir={folder / f'first{attempt}'}"], timeout_s=400, env=state)
        measured = time.monotonic() - begun
        if first.returncode == 0:
            break
        wrong += [
            f"attempt {attempt}: exit code {first.returncode}: {line}" for line in worse(folder / f"first{attempt}")
        ]
    for turn in range(REPETITIONS):
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = lab.run([*words, f"--report-dir={folder / str(turn)}"], timeout_s=400, env=state)
        seconds.append(time.monotonic() - begun)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        report = json.loads((folder / str(turn) / "report.json").read_text())
        if done.returncode or not report["ledger"].get("reused"):
            wrong.append(f"run {turn}: exit code {done.returncode}, {report['ledger']}, {report['notes']}")
    logins = []
    for _ in range(3):
        begun = time.monotonic()
        lab.run(["sh", "-c", f"for n in $(seq {count}); do ssh -oBatchMode=yes node$n true & done; wait"])
        logins.append(time.monotonic() - begun)
    median = statistics.median(seconds)
    shown = ", ".join(f"{value:.2f}" for value in seconds)
    print(f"{count} hosts, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    print(f"measured        {measured:.1f} s")
    print(f"certified       {median:.2f} s, the median of {REPETITIONS}   ({shown}); wanted at most {LIMIT_SECONDS:g}")
    print(f"  of processors {statistics.median(processor):.2f} s on the controller")
    print(f"ssh host true   {statistics.median(logins):.2f} s for {count} at once")
    print("\n".join(wrong))
    return int(median > LIMIT_SECONDS or bool(wrong))


def worse(folder: Path) -> list[str]:
    """What a run says that is worse than a skip."""
    findings = json.loads((folder / "report.json").read_text())["findings"]
    return [f"{f['verdict']} {f['check']}: {f['message']}" for f in findings if f["verdict"] not in ("pass", "skip")]


def ip_of(host: LabHost, words: str, back: str) -> Planted:
    """A change by `ip`, and what takes it back."""
    ip(host.space, [words])
    return Planted(lambda: ip(host.space, [back]))


def sysctl(host: LabHost, name: str, value: str) -> Planted:
    """Another value of a setting of the host's network."""
    before = host.check(["sysctl", "-n", name]).strip()
    host.check(["sysctl", "-qw", f"{name}={value}"])
    return Planted(lambda: host.check(["sysctl", "-qw", f"{name}={before}"]) and None)


def flap(host: LabHost) -> Planted:
    """The cable is pulled and plugged in again: nothing is left of it but a count."""
    with host.link_down():
        pass
    return Planted(lambda: None)


def hostname(host: LabHost) -> Planted:
    """The host calls itself otherwise."""
    host.check(["hostname", "renamed"])
    return Planted(lambda: host.check(["hostname", host.name]) and None)


def limits(host: LabHost) -> Planted:
    """Sessions may open fewer files."""
    pid = str(residue.listener_pid(host.space))
    show = ["prlimit", "--pid", pid, "--nofile", "-o", "SOFT,HARD", "--noheadings"]
    soft, hard = subprocess.run(show, capture_output=True, text=True, check=True).stdout.split()

    def limit(value: str) -> None:
        subprocess.run(["prlimit", "--pid", pid, f"--nofile={value}:{hard}"], check=True)

    limit("2048")
    return Planted(lambda: limit(soft))


BOOT_ID = "/proc/sys/kernel/random/boot_id"
# What is changed -> how; each as the field has it, and none of them is more than a fact to the run.
CHANGES: dict[str, Callable[[LabHost], Planted]] = {
    "reboot": lambda host: host.write_file(BOOT_ID, "11111111-2222-4333-8444-555555555555\n"),
    "MTU": lambda host: host.mtu(1400),
    "address": lambda host: ip_of(host, "addr add 10.70.0.9/24 dev eth0", "addr del 10.70.0.9/24 dev eth0"),
    "interface": lambda host: host.add_interface("eth7", "10.79.0.2/24"),
    "route": lambda host: ip_of(host, "route add default via 10.77.0.1", "route del default"),
    "hostname": hostname,
    "line in /etc/hosts": lambda host: host.hostname_resolves_to("127.0.1.1"),
    "limits": limits,
    "port range": lambda host: sysctl(host, "net.ipv4.ip_local_port_range", "33000 60000"),
    "TCP buffers": lambda host: sysctl(host, "net.ipv4.tcp_rmem", "4096 65536 131072"),
    "/etc/nccl.conf": lambda host: host.write_file("/etc/nccl.conf", "NCCL_DEBUG=WARN\n"),
    "variable of a session": lambda host: host.environment(OMP_NUM_THREADS="3"),
    "torch version": lambda host: host.torch_version("2.4.1"),
    "RDMA adapter": lambda host: host.rdma_tree(),
    "line in the kernel's log": lambda host: host.write_file("/dev/kmsg", XID),
    "boot options": lambda host: host.write_file("/proc/cmdline", "quiet iommu=off\n"),
    "memory": lambda host: host.write_file("/proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 900000 kB\n"),
    "reverse path filter": lambda host: sysctl(host, "net.ipv4.conf.all.rp_filter", "1"),
    "proxy of a session": lambda host: host.environment(http_proxy="http://proxy:3128"),
    "IPv6": lambda host: sysctl(host, "net.ipv6.conf.all.disable_ipv6", "1"),
    "quota": lambda host: host.cpu_quota(150),
}
XID = f"3,1,{int(time.monotonic() * 1e6)},-;NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.\n"


def try_changes(folder: Path, only: Sequence[str] = ()) -> int:
    """Print what a certified run says after each change; 1 where one is taken for none, or there was no certificate."""
    state = {"XDG_STATE_HOME": str(folder / "state")}
    words = [sys.executable, "-m", "preflight", "bench", "--hosts=node[1-2]", f"--python={sys.executable}"]
    words += ["--reuse=6h", "--ranks-per-node=1", "--op=sendrecv", "-b", "64K", "--iters=6", "-q"]
    missed = unproved = 0
    changes = {name: plant for name, plant in {**CHANGES, "link flap": flap}.items() if name in (only or (name,))}
    with Lab.create(2) as lab:

        def run(name: str) -> tuple[bool, str]:
            place = folder / name.replace("/", "_")
            lab.run([*words, f"--report-dir={place}"], timeout_s=200, env=state)
            report = json.loads((place / "report.json").read_text())
            said = [note for note in report["notes"] if note.startswith("--reuse")]
            return bool(report["ledger"].get("reused")), "; ".join(said)

        run("first")
        for name, plant in changes.items():
            is_reused, _ = run(f"before {name}")
            with plant(lab["node2"]):
                is_missed, said = run(name)
            missed += is_missed
            unproved += not is_reused
            print(f"{'MISSED' if is_missed else 'voided' if is_reused else 'no certificate before'}  {name:28} {said}")
            run(f"after {name}")  # a bench anew where the change left a trace, and a certificate for the next
    print(f"{missed} of {len(changes)} missed, {unproved} tried without a certificate")
    return int(bool(missed or unproved))


def main() -> None:
    """Build the lab and measure from its controller."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=HOSTS)
    parser.add_argument("--changes", action="store_true", help="which changes take a certificate back")
    parser.add_argument("--only", action="append", default=[], help="of the changes, these alone")
    chosen = parser.parse_args()
    if chosen.changes:
        with tempfile.TemporaryDirectory() as place:
            sys.exit(try_changes(Path(place), chosen.only))
    with Lab.create(chosen.hosts, rate=RATE) as lab, tempfile.TemporaryDirectory() as folder:
        sys.exit(measure(lab, chosen.hosts, Path(folder)))


if __name__ == "__main__":
    main()
