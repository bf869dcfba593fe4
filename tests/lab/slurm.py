"""How do the hosts of a lab become a Slurm cluster: a real munged, slurmctld and one slurmd a host?"""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import faults, residue
from .faults import Planted
from .lab import Lab
from .machine import CONTROLLER_ADDRESS
from .spaces import ENVIRONMENT, LabError

PROGRAMS = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "srun": "slurm-client",
    "munged": "munge",
}
CONFIGURATION = """
ClusterName=lab
SlurmctldHost=controller({controller})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
StateSaveLocation={folder}/state
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdSpoolDir={folder}/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
InactiveLimit=0
KillWait=2
OverTimeLimit=0
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
SwitchType=switch/none
TopologyPlugin=topology/tree
PrologSlurmctld={folder}/prolog
PrologEpilogTimeout=90
{nodes}
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str:
    """Why there can be no Slurm here; empty where there can."""
    missing = sorted(
        {package for name, package in PROGRAMS.items() if not shutil.which(name, path=ENVIRONMENT["PATH"])}
    )
    return f"a lab of Slurm needs Debian's {', '.join(missing)}" if missing else ""


def _switches(names: Sequence[str]) -> str:
    """Two hosts below each switch, and one switch above all."""
    pairs = [names[start : start + 2] for start in range(0, len(names), 2)]
    leaves = [f"SwitchName=leaf{number} Nodes={','.join(pair)}" for number, pair in enumerate(pairs)]
    return "\n".join([*leaves, f"SwitchName=spine Switches=leaf[0-{len(leaves) - 1}]", ""])


class SlurmLab:
    """A lab whose hosts are the nodes of a Slurm cluster, and whose controller runs slurmctld; a context manager."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.folder = lab.shared / "slurm"
        (self.folder / "state").mkdir(parents=True)
        nodes = "\n".join(
            f"NodeName={host.name} NodeAddr={host.address} CPUs={os.cpu_count()} RealMemory=1000 Gres=gpu:2"
            " State=UNKNOWN"
            for host in lab.hosts
        )
        text = CONFIGURATION.format(controller=CONTROLLER_ADDRESS, folder=self.folder, nodes=nodes)
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "gres.conf").write_text(
            "Name=gpu File=/dev/zero\nName=gpu File=/dev/full\n"
        )  # as if they were two GPUs
        (self.folder / "topology.conf").write_text(_switches([host.name for host in lab.hosts]))
        self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf")}
        self.set_prolog(None)
        self._start_munged()
        self._start_slurmctld("-i")
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        for host in lab.hosts:
            self.start_slurmd(host.name)
        self.wait_until_idle()

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start_slurmctld(self, *options: str) -> None:
        self._controller = self._daemon(self.lab.command(["slurmctld", "-D", *options]), "slurmctld")

    def restart_slurmctld(self) -> None:
        """It ends, keeps its state, and comes back; what runs on the nodes goes on meanwhile."""
        self._controller.terminate()
        self._controller.wait(20)
        self._start_slurmctld()
        end = time.monotonic() + 20
        while self.run(["scontrol", "ping"], timeout_s=30).returncode:
            if time.monotonic() > end:
                raise LabError(f"slurmctld does not come back{self.log()}")
            time.sleep(0.1)

    def restart_slurmd(self, node: str) -> None:
        """It is killed and starts again, as by an update of its package; its steps go on."""
        self.stop_slurmd(node)
        self.start_slurmd(node)

    def start_slurmd(self, node: str, *, limits: Sequence[str] = ()) -> None:
        """Start a node's slurmd, under limits as prlimit writes them: that is where a unit file's Limit... act."""
        argv = [*self.lab[node].space.enter(), *(["prlimit", *limits] if limits else []), "slurmd", "-D"]
        self._daemons[node] = self._daemon(argv, node)

    def limited(self, node: str, *limits: str) -> Planted:
        """A node's slurmd has these limits, as prlimit writes them, and nothing else on the node."""
        self.stop_slurmd(node)
        self.start_slurmd(node, limits=limits)
        self.wait_until_idle()

        def undo() -> None:
            self.stop_slurmd(node)
            self.start_slurmd(node)
            self.wait_until_idle()

        return Planted(undo)

    def drained(self, node: str, reason: str) -> Planted:
        """An operator takes the node out of service."""
        self.check("scontrol", "update", f"nodename={node}", "state=drain", f"reason={reason}")

        def resume() -> None:
            self.check("scontrol", "update", f"nodename={node}", "state=resume")
            self.wait_until_idle()

        return Planted(resume)

    def without_slurmd(self, node: str) -> Planted:
        """The node's slurmd has died, and slurmctld has not noticed yet."""
        self.stop_slurmd(node)

        def start() -> None:
            self.start_slurmd(node)
            self.wait_until_idle()

        return Planted(start)

    def stop_slurmd(self, node: str) -> None:
        """End a node's slurmd, not its steps."""
        daemon = self._daemons.pop(node)
        self._in_space(node, ["pkill", "-KILL", "-x", "slurmd"])  # of this host's processes alone
        daemon.wait(10)

    def crash(self, node: str) -> Planted:
        """The node loses power: its cable is dead, and all that ran on it gone; undone, slurmd starts again."""
        host = self.lab[node]
        unplugged = faults.link_down(host)
        kept = {host.space.pid, residue.listener_pid(host.space)}
        for pid in set(host.space.members()) - kept:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._daemons.pop(node).wait(10)

        def power_on() -> None:
            unplugged.undo()
            self.start_slurmd(node)
            self.wait_until_idle()

        return Planted(power_on)

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 120,
        cwd: str | Path = ".",
    ) -> subprocess.CompletedProcess[str]:
        """Run a command where slurmctld runs, with the preflight of this checkout on its PATH."""
        return self.lab.run(argv, env=self.variables(env), timeout_s=timeout_s, cwd=cwd)

    def variables(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """What a user of this cluster has in the environment."""
        path = f"{Path(sys.executable).parent}:{ENVIRONMENT['PATH']}"
        return {**self.environment, "PATH": path, **(more or {})}

    def set_prolog(self, script: Path | None, *, reports: Path | str = "") -> None:
        """What slurmctld runs before a job: a site's script, in the environment that its unit file would give it."""
        variables = {**self.variables(), "PREFLIGHT_PYTHON": sys.executable, "PREFLIGHT_REPORTS": str(reports)}
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
        start = f"exec bash {shlex.quote(str(script))}\n" if script else "exit 0\n"
        path = self.folder / "prolog"
        path.write_text(f"#!/bin/sh\n{exports}{start}")
        path.chmod(0o700)

    def processes(self, node: str) -> list[str]:
        """The command line of every process of a node."""
        return self.lab[node].check(["ps", "-e", "-o", "args"]).splitlines()

    def check(self, *argv: str) -> str:
        """The output of a command of Slurm that must succeed."""
        done = self.run(list(argv), timeout_s=30)
        if done.returncode:
            raise LabError(f"{' '.join(argv)}: {done.returncode}: {done.stderr}{self.log()}")
        return done.stdout

    def job(self, number: str) -> str:
        """All that slurmctld knows of a job, on one line."""
        return self.check("scontrol", "--oneliner", "show", "job", number)

    def state(self, node: str) -> str:
        """A node's state and its reason, as sinfo prints them: ``idle none``."""
        return self.check("sinfo", "--noheader", f"--nodes={node}", "--format=%t %E").strip()

    def wait_until_idle(self, *, patience_s: float = 30) -> None:
        """Wait until every node is free for a job; LabError after a while, with the daemons' logs."""
        end = time.monotonic() + patience_s
        wanted = ["idle"] * len(self.lab.hosts)
        while True:
            done = self.run(["sinfo", "--noheader", "--Node", "--partition=debug", "--format=%t"], timeout_s=30)
            if done.stdout.split() == wanted:
                return
            if time.monotonic() > end:
                raise LabError(f"the nodes are {done.stdout.split()} {done.stderr}{self.log()}")
            time.sleep(0.1)

    def log(self) -> str:
        """The last lines of every daemon."""
        logs = sorted([*self.folder.glob("*.log"), *self.folder.glob("*.out")])
        return "".join(f"\n--- {path.name}\n{path.read_text()[-1200:]}" for path in logs)

    def stop(self) -> None:
        """End the daemons; what still runs on the hosts ends with the lab."""
        for node in list(self._daemons):
            self.stop_slurmd(node)
        for process in (self._controller, self._munged):
            process.terminate()
            process.wait(10)

    def _start_munged(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        files = {"key-file": key, "socket": self.folder / "munge.sock", "seed-file": self.folder / "munge.seed"}
        files |= {"pid-file": self.folder / "munge.pid", "log-file": self.folder / "munge.log"}
        words = [f"--{name}={path}" for name, path in files.items()]
        self._munged = self._daemon(self.lab.command(["munged", "--foreground", "--force", *words]), "munged")
        end = time.monotonic() + 10
        while not (self.folder / "munge.sock").exists():
            if time.monotonic() > end or self._munged.poll() is not None:
                raise LabError(f"munged does not listen{self.log()}")
            time.sleep(0.02)

    def _in_space(self, node: str, argv: Sequence[str]) -> None:
        subprocess.run([*self.lab[node].space.enter(), *argv], env=ENVIRONMENT, timeout=20, check=False)

    def _daemon(self, argv: Sequence[str], name: str) -> "subprocess.Popen[bytes]":
        environment = {**ENVIRONMENT, **self.environment}
        with (self.folder / f"{name}.out").open("wb") as out:
            return subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *argv],  # a test that is killed leaves no daemon behind
                env=environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
