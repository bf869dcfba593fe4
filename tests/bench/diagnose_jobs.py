"""Do real jobs that were made to fail lead to what was done to them? ``python -m tests.bench.diagnose_jobs [NAME...]``.

Each fault is planted in a job of two ranks on this machine (torchrun, plain variables, accelerate, DeepSpeed; Gloo), and what the
job printed is diagnosed. As root each job has a network namespace of its own, so that ports and names are its alone.
"""

from __future__ import annotations

import base64
import functools
import os
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from preflight.diagnose import diagnose_files
from preflight.diagnose.found import Diagnosis

SECONDS = 90.0
BEGIN = """
import datetime, os, sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
rank = int(os.environ.get("RANK", 0))
def join(seconds=20):
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=seconds))
x = torch.ones(4)
"""
TORCHRUN = ("{python}", "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=29471", "{script}")
PLAIN = ("{python}", "{script}")
ACCELERATE = (
    "{python}",
    "-m",
    "accelerate.commands.launch",
    "--multi_gpu",
    "--num_processes=2",
    "--num_machines=1",
    "{script}",
)
# What `deepspeed` starts on every node; by itself it would look for GPUs first, or for ssh.
DEEPSPEED = (
    "{python}",
    "-m",
    "deepspeed.launcher.launch",
    "--world_info=" + base64.urlsafe_b64encode(b'{"localhost": [0, 1]}').decode(),
    "--node_rank=0",
    "--master_addr=127.0.0.1",
    "--master_port=29471",
    "{script}",
)
ONE_OF_TWO = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29471"}


@dataclass(frozen=True)
class Fault:
    """A job's program, how it is started, and the causes that are right (the first of those found must be one)."""

    program: str
    causes: tuple[str, ...]
    command: tuple[str, ...] = TORCHRUN
    environment: dict[str, str] = field(default_factory=dict)


ON_1 = "join()\nif rank == 1:\n    {}\ndist.all_reduce(x)\ntime.sleep(1)\ndist.all_reduce(x)\n"
FAULTS: dict[str, Fault] = {
    "exception": Fault(ON_1.format("raise LookupError('odd sample')"), ("program-error",)),
    "exception under accelerate": Fault(
        "from accelerate import Accelerator\na = Accelerator(cpu=True)\nif rank == 1:\n    raise LookupError('odd')\na.wait_for_everyone()",
        ("program-error",),
        ACCELERATE,
        {"ACCELERATE_USE_CPU": "true"},
    ),
    "node without ssh under DeepSpeed": Fault(
        "join()",
        ("ssh-login",),
        ("{python}", "-m", "deepspeed.launcher.runner", "--hostfile={folder}/hostfile", "{script}"),
    ),
    "batches under DeepSpeed": Fault(
        "join()\nfrom deepspeed.runtime.config import DeepSpeedConfig\n"
        "DeepSpeedConfig({'train_batch_size': 7, 'train_micro_batch_size_per_gpu': 2, 'gradient_accumulation_steps': 1})",
        ("deepspeed-batch",),
        DEEPSPEED,
    ),
    "killed under DeepSpeed": Fault(ON_1.format("os.kill(os.getpid(), 9)"), ("killed-by-signal-9",), DEEPSPEED),
    "healthy under DeepSpeed": Fault(
        "join()\ndist.all_reduce(x)\nprint('loss', 2.5)\ndist.destroy_process_group()", (), DEEPSPEED
    ),
    "killed": Fault(ON_1.format("os.kill(os.getpid(), 9)"), ("killed-by-signal-9",)),
    "crashed": Fault(ON_1.format("import ctypes; ctypes.string_at(0)"), ("segmentation-fault",)),
    "aborted by a library": Fault(ON_1.format("os.abort()"), ("aborted",)),
    "module missing": Fault(ON_1.format("import no_such_module"), ("module-missing",)),
    "name missing": Fault(ON_1.format("from torch.nn import NoSuchLayer"), ("import-failed",)),
    "library missing": Fault(ON_1.format("import ctypes; ctypes.CDLL('libcusparse.so.99')"), ("library-missing",)),
    "disk full": Fault(ON_1.format("torch.save(x, open('/dev/full', 'wb', buffering=0))"), ("disk-full",)),
    "file missing": Fault(ON_1.format("open('/data/train/part-0.jsonl')"), ("file-missing",)),
    "not permitted": Fault(ON_1.format("os.setuid(65534); open('/root/x', 'w')"), ("permission-denied",)),
    "read-only": Fault(ON_1.format("raise OSError(30, os.strerror(30), '/ckpt')"), ("permission-denied",)),
    "open files": Fault(
        ON_1.format(
            "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)); [open('/dev/null') for _ in range(99)].sort()"
        ),
        ("too-many-open-files",),
    ),
    "memory": Fault(ON_1.format("torch.empty(1 << 50)"), ("cannot-allocate-memory",)),
    "no CUDA": Fault(ON_1.format("torch.cuda.set_device(0)"), ("no-gpu-visible",)),
    "NCCL without GPUs": Fault("dist.init_process_group('nccl')\ndist.barrier()", ("no-gpu-visible",)),
    "interface": Fault("join()", ("interface-not-found",), environment={"GLOO_SOCKET_IFNAME": "eth9"}),
    "port in use": Fault(
        "import socket; s = socket.socket(); s.bind(('', 29472)); s.listen()\nif rank == 0:\n    time.sleep(3)\ndist.TCPStore('127.0.0.1', 29472, 2, True)",
        ("port-in-use",),
    ),
    "name unknown": Fault(
        "join(8)", ("name-not-resolved",), PLAIN, {**ONE_OF_TWO, "RANK": "1", "MASTER_ADDR": "no-such-host.invalid"}
    ),
    "variable missing": Fault("join()", ("variable-missing",), PLAIN),
    "nobody else came": Fault("join(6)", ("not-all-joined",), PLAIN, ONE_OF_TWO),
    "first node absent": Fault(
        "join(6)", ("loopback-master", "rendezvous-connection", "connect-timed-out"), PLAIN, {**ONE_OF_TWO, "RANK": "1"}
    ),
    "second node absent": Fault(
        "join()",
        ("not-all-joined", "rendezvous-connection"),
        (
            *TORCHRUN[:3],
            "--nnodes=2",
            "--nproc-per-node=1",
            "--rdzv-backend=c10d",
            "--rdzv-endpoint=127.0.0.1:29471",
            "--rdzv-conf=join_timeout=5",
            "{script}",
        ),
    ),
    "other model": Fault("join()\nm = DDP(torch.nn.Linear(4, 4 + rank))", ("uneven-parameters",)),
    "unused parameters": Fault(
        "join()\nm = DDP(torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)]))\n"
        "class N(torch.nn.Module):\n    def __init__(s):\n        super().__init__(); s.a = torch.nn.Linear(4, 4); s.b = torch.nn.Linear(4, 4)\n    def forward(s, x):\n        return s.a(x)\n"
        "m = DDP(N())\nfor _ in range(3):\n    m(x).sum().backward()",
        ("unused-parameters",),
    ),
    "other collective": Fault(
        "join()\ndist.all_reduce(x) if rank == 0 else dist.broadcast(x, 0)\n",
        ("nccl-mismatched-call",),
        environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"},
    ),
    "late for a barrier": Fault(
        "join()\nif rank == 1:\n    time.sleep(12)\ndist.monitored_barrier(timeout=datetime.timedelta(seconds=4))",
        ("monitored-barrier",),
    ),
    "never came to the collective": Fault(
        "join(5)\nif rank == 1:\n    time.sleep(30)\ndist.all_reduce(x)", ("collective-timeout",)
    ),
    "checkpoint cut short": Fault(
        ON_1.format(
            "torch.save(torch.ones(999), '{scratch}/c.pt'); os.truncate('{scratch}/c.pt', 500); torch.load('{scratch}/c.pt')"
        ),
        ("checkpoint-corrupt",),
    ),
    "checkpoint of another model": Fault(
        ON_1.format("torch.nn.Linear(4, 4).load_state_dict(torch.nn.Linear(8, 4).state_dict())"), ("checkpoint-shapes",)
    ),
    "loader worker killed": Fault(
        "class D(torch.utils.data.Dataset):\n    def __len__(s):\n        return 9\n    def __getitem__(s, i):\n        os.kill(os.getpid(), 9)\n"
        "join()\nif rank == 1:\n    list(torch.utils.data.DataLoader(D(), num_workers=1))\ndist.all_reduce(x)",
        ("loader-worker-died",),
    ),
    "shapes": Fault(ON_1.format("torch.ones(2, 3) @ torch.ones(4, 5)"), ("wrong-shape",)),
    "not a number": Fault(
        "torch.autograd.set_detect_anomaly(True)\n"
        + ON_1.format("y = torch.zeros(1, requires_grad=True); (y.sqrt() * 0).sum().backward()"),
        ("nan",),
    ),
    "script missing": Fault("", ("path-missing-on-node",), (*TORCHRUN[:-1], "/job/no_such_script.py")),
    "unknown option": Fault(
        "import argparse\nargparse.ArgumentParser().parse_args()", ("usage-error",), (*TORCHRUN, "--local-rank=0")
    ),
    "configuration": Fault(ON_1.format("import json; json.loads('{{lr: 1}}')"), ("config-file",)),
    "ended from outside": Fault(
        "join()\nif rank == 1:\n    os.kill(os.getppid(), 15)\ntime.sleep(20)", ("ended-from-outside",)
    ),
    "terminal closed": Fault(
        "join()\nif rank == 1:\n    os.kill(os.getppid(), 1)\ntime.sleep(20)", ("session-hangup", "ended-from-outside")
    ),
    "healthy": Fault(
        "join()\nfor step in range(9):\n    dist.all_reduce(x); print('step', step, 'loss', 2.5)\ndist.destroy_process_group()",
        (),
    ),
}


def run(fault: Fault, folder: Path) -> Diagnosis:
    """Start the job, and diagnose what it printed."""
    script, log = folder / "job.py", folder / "job.log"
    program = BEGIN + textwrap.dedent(fault.program).replace("{scratch}", str(folder))
    script.write_text(program)
    (folder / "hostfile").write_text("localhost slots=2\n")
    given = {"{python}": sys.executable, "{script}": str(script), "{folder}": str(folder)}
    words = [
        functools.reduce(lambda word, name: word.replace(name, given[name]), given, word) for word in fault.command
    ]
    if os.geteuid() == 0:
        words = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(folder), **fault.environment}
    with log.open("wb") as output:
        done = subprocess.Popen(
            words, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=folder, start_new_session=True
        )
        try:
            done.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(done.pid, 9)
            done.wait()
    return diagnose_files([str(log)])


def is_right(fault: Fault, diagnosis: Diagnosis) -> bool:
    """Whether the first thing that is said is what was done."""
    found = [one.cause.name for one in (*diagnosis.causes, *diagnosis.consequences)]
    return found[0] in fault.causes if found and fault.causes else not found and not fault.causes


def main() -> None:
    """Every fault, or those named; exit code 1 where one was taken for another."""
    wrong = 0
    for name in sys.argv[1:] or FAULTS:
        with tempfile.TemporaryDirectory() as folder:
            fault = FAULTS[name]
            if any("deepspeed" in word for word in fault.command) and not find_spec("deepspeed"):
                print(f"-     {name}: DeepSpeed is not installed here", flush=True)
                continue
            diagnosis = run(fault, Path(folder))
            is_ok = is_right(fault, diagnosis)
            wrong += not is_ok
            found = [one.cause.name for one in diagnosis.causes], [one.cause.name for one in diagnosis.consequences]
            print(f"{'ok   ' if is_ok else 'WRONG'} {name}: {found[0]} then {found[1]}", flush=True)
            if not is_ok:
                print(textwrap.indent(Path(folder, "job.log").read_text(errors="replace")[-6000:], "    "), flush=True)
    print(f"{wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
