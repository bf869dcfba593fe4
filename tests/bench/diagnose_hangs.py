"""Is the rank named that holds a real job up, and is the job unharmed? ``python -m tests.bench.diagnose_hangs``.

Six jobs of three ranks (Gloo) are made to hang, each in another way. ``preflight diagnose --hosts local --match`` looks at
each; afterwards every process must be there as it was, and where the hang can be released the job must end well. As root
three more run on three hosts of a lab, as a user without privileges, who looks at all hosts at once over ssh.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.lab.fixtures import why_not
from tests.lab.host import LabHost
from tests.lab.lab import Lab

BEGIN = """
import os, sys, time
import torch, torch.distributed as dist
rank, gate = int(os.environ["RANK"]), sys.argv[1]
def load_batch():
    while not os.path.exists(gate):
        time.sleep(0.2)
dist.init_process_group("gloo")
x = torch.ones(4)
dist.all_reduce(x)
print("up", flush=True)
"""
END = "\ndist.all_reduce(x)\ntime.sleep(1)\nos._exit(0)  # Gloo may abort a process that is torn down\n"
SECONDS = 60.0


@dataclass(frozen=True)
class Hang:
    """What rank 1 does while the others wait, the ranks that must be named, and whether the gate releases the job."""

    program: str
    guilty: tuple[int, ...] = (1,)
    missing: tuple[int, ...] = ()
    is_released: bool = True
    ranks: int = 3


HANGS = {
    "waits for data": Hang("if rank == 1:\n    load_batch()"),
    "computes for ever": Hang("if rank == 1:\n    while not os.path.exists(gate):\n        sum(range(1000))"),
    "stopped": Hang("if rank == 1:\n    os.kill(os.getpid(), 19)"),
    "reads what nobody writes": Hang(
        "if rank == 1:\n    os.mkfifo(gate + '.fifo'); open(gate + '.fifo').read()", is_released=False
    ),
    "in another collective": Hang("if rank == 1:\n    dist.barrier()", is_released=False),
    "never started": Hang("", guilty=(), missing=(2,), is_released=False, ranks=2),
}


def start(script: Path, gate: Path, hang: Hang) -> list[subprocess.Popen[bytes]]:
    """The ranks, started as plain variables do; one that never starts keeps the others in init_process_group."""
    environment = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29481", "OMP_NUM_THREADS": "1"}
    return [
        subprocess.Popen(
            [sys.executable, str(script), str(gate)],
            env={**os.environ, **environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for rank in range(hang.ranks)
    ]


def look(script: Path) -> dict:
    """What preflight says of the job."""
    words = [sys.executable, "-m", "preflight", "diagnose", "--hosts=local", f"--match={script}", "--json"]
    done = subprocess.run(words, capture_output=True, check=False, timeout=SECONDS)
    assert done.returncode in {0, 1, 3}, done.stderr.decode()
    return json.loads(done.stdout)


def try_one(hang: Hang, folder: Path) -> str:
    """Why the hang was not told right, or the job was harmed; "" where all is well."""
    script, gate = folder / "hanging_job.py", folder / "gate"
    script.write_text(BEGIN + hang.program + END)
    jobs = start(script, gate, hang)
    try:
        if hang.ranks == 3:
            for job in jobs:
                assert job.stdout is not None
                job.stdout.readline()
            time.sleep(1.0)
        else:
            time.sleep(15.0)
        said = look(script)
        if [job.poll() for job in jobs] != [None] * hang.ranks:
            return "a rank ended while it was looked at"
        guilty = tuple(one["rank"] for one in said["guilty"])
        if guilty != hang.guilty or tuple(said["missing_ranks"]) != hang.missing:
            return f"guilty {guilty}, missing {said['missing_ranks']}: {said['verdict']}"
        if hang.is_released:
            gate.touch()
            jobs[1].send_signal(signal.SIGCONT)
            if [job.wait(SECONDS) for job in jobs] != [0] * hang.ranks:
                return "the job did not end well afterwards"
        print(f"      {said['verdict'][:200]}")
        return ""
    finally:
        for job in jobs:
            job.kill()
            job.communicate()


USER, USER_ID = "trainer", 3000
ON_LAB = ("waits for data", "stopped", "in another collective")


def admit(host: LabHost) -> None:
    """Give a host a user without privileges, who logs in as root does."""
    passwd = host.check(["cat", "/etc/passwd"]) + f"{USER}:x:{USER_ID}:{USER_ID}::/tmp:/bin/sh\n"
    host.write_file("/etc/passwd", passwd)
    host.write_file("/etc/shadow", host.check(["cat", "/etc/shadow"]) + f"{USER}:*:19000:0:99999:7:::\n")
    for name in ("", "/authorized_keys"):
        host.space.root(f"{host.scratch}{name}").chmod(0o755)


def start_on(lab: Lab, hang: Hang, folder: Path, python: Path) -> list[subprocess.Popen[bytes]]:
    """One rank a host, each as the user."""
    script, gate = folder / "hanging_job.py", folder / "gate"
    script.write_text(BEGIN + hang.program + END)
    torch = find_spec("torch")
    assert torch is not None
    variables = {
        "WORLD_SIZE": "3",
        "MASTER_ADDR": lab.hosts[0].address,
        "MASTER_PORT": "29481",
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "eth0",
        "PYTHONPATH": str(Path(torch.origin or "").parents[1]),
        "HOME": "/tmp",
    }
    return [
        subprocess.Popen(
            [
                *host.space.enter(),
                *("setpriv", f"--reuid={USER_ID}", f"--regid={USER_ID}", "--clear-groups", "env"),
                *(f"{name}={value}" for name, value in {**variables, "RANK": rank, "LOCAL_RANK": 0}.items()),
                *(str(python), str(script), str(gate)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for rank, host in enumerate(lab.hosts)
    ]


def try_on(lab: Lab, hang: Hang, folder: Path, python: Path) -> str:
    """As try_one, on hosts."""
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    jobs = start_on(lab, hang, folder, python)
    script = folder / "hanging_job.py"
    try:
        for job in jobs:
            assert job.stdout is not None
            job.stdout.readline()
        time.sleep(1.0)
        hosts = f"{USER}@{lab.names}"
        words = [sys.executable, "-m", "preflight", "diagnose", f"--hosts={hosts}", f"--match={script}", "--json"]
        done = lab.run([*words, "--python=/usr/bin/python3"], timeout_s=SECONDS)
        assert done.returncode in {0, 1, 3}, done.stderr
        said = json.loads(done.stdout)
        if [job.poll() for job in jobs] != [None] * len(jobs):
            return "a rank ended while it was looked at"
        if [(one["rank"], one["node"]) for one in said["guilty"]] != [(1, lab.hosts[1].name)]:
            return f"guilty {said['guilty']}: {said['verdict']}: {done.stdout[-2000:]}"
        if hang.is_released:
            (folder / "gate").touch()
            jobs[1].send_signal(signal.SIGCONT)  # nsenter stops with its child, and wakes it
            if [job.wait(SECONDS) for job in jobs] != [0] * len(jobs):
                return "the job did not end well afterwards"
        print(f"      {said['verdict'][:200]}")
        return ""
    finally:
        for host in lab.hosts:
            host.run(["pkill", "-KILL", "-u", str(USER_ID)])
        for job in jobs:
            job.kill()
            job.communicate()


def on_lab() -> int:
    """How many hangs were not told right on three hosts."""
    wrong = 0
    with Lab.create(3) as lab:
        binaries = lab.shared / "bin"
        binaries.mkdir(exist_ok=True)
        (binaries / "python3").symlink_to("/usr/bin/python3")
        spy = shutil.which("py-spy") or str(Path(sys.executable).with_name("py-spy"))
        shutil.copy(spy, binaries / "py-spy")
        for host in lab.hosts:
            admit(host)
        for number, name in enumerate(ON_LAB):
            reason = try_on(lab, HANGS[name], lab.shared / f"job{number}", binaries / "python3")
            wrong += bool(reason)
            print(f"{'WRONG' if reason else 'ok   '} {name}, on three hosts, as {USER} {reason}", flush=True)
    return wrong


def main() -> None:
    """Every hang; exit code 1 where one was not told right."""
    wrong = 0
    if why_not():
        print(f"-     on three hosts: {why_not()}")
    else:
        wrong += on_lab()
    for name, hang in HANGS.items():
        with tempfile.TemporaryDirectory() as folder:
            reason = try_one(hang, Path(folder))
        wrong += bool(reason)
        print(f"{'WRONG' if reason else 'ok   '} {name} {reason}", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
