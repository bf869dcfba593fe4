"""Real hosts: the user's own start, rehearsed. Are healthy ones let go, and is a fault named at its node and line?"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.lab import faults
from tests.lab.lab import Lab

BIN = Path(sys.executable).parent
NUMBER = "$(($(hostname | tr -d a-z) - 1))"
TORCHRUN = f"""#!/bin/bash
set -e
cd {{folder}}
export PATH={BIN}:$PATH
torchrun --nnodes=2 --nproc_per_node=1 --node_rank={NUMBER} --master_addr=node1 --master_port=29500 train.py --epochs 3
"""
PLAIN = f"""export PATH={BIN}:$PATH
export MASTER_ADDR=node1
export MASTER_PORT=29500
export WORLD_SIZE=2
export RANK={NUMBER}
export LOCAL_RANK=0
python train.py --ddp --batch_size 48
"""
REAL = "raise SystemExit('the real program was run')\n"


@pytest.fixture(scope="module")
def lab(lab_is_possible):
    """Two hosts for all tests of this file."""
    with Lab.create(2) as made:
        yield made


class Rehearsed:
    """One finished `preflight rehearse`."""

    def __init__(self, lab, folder, *words, name="report", env=None, timeout_s=200):
        self.folder = folder / name
        argv = [sys.executable, "-m", "preflight", "rehearse", f"--python={sys.executable}"]
        root = str(Path(__file__).parents[2])
        argv += [f"--report-dir={self.folder}", *words]
        if not any(word.startswith("--hosts") for word in words):
            argv.append("--hosts=node[1-2]")
        self.done = lab.run(argv, cwd=folder, env={"PYTHONPATH": root, **(env or {})}, timeout_s=timeout_s)
        self.code = self.done.returncode
        path = self.folder / "report.json"
        self.report = json.loads(path.read_text()) if path.is_file() else {}

    def bad(self):
        """(check, verdict, nodes, message) of every finding that is not good and no consequence."""
        return [
            (f["check"].removeprefix("rehearse."), f["verdict"], tuple(f["nodes"]), f["message"])
            for f in self.report.get("findings", ())
            if f["verdict"] in ("fail", "warn", "error") and not f.get("blocked_by")
        ]

    def __repr__(self):
        logs = "".join(f"--- {path.name}\n{path.read_text()[-1500:]}" for path in sorted(self.folder.glob("logs/*")))
        return f"{self.code}\n{self.done.stdout}\n{self.done.stderr}\n{logs}"


@pytest.fixture
def folder(lab, request):
    """A folder that all hosts and the controller share, with a program that must never run."""
    made = lab.shared / ("rehearse-" + re.sub("[^a-z0-9]+", "-", request.node.name)[:80])
    made.mkdir()
    (made / "train.py").write_text(REAL)
    return made


def write(folder, text, name="run.sh"):
    """A script of the user's, in the shared folder."""
    (folder / name).write_text(text.format(folder=folder) if "{folder}" in text else text)
    return name


def ranks_of(rehearsed):
    """(rank, node, stage) of every rank that came."""
    return [(rank["rank"], rank["node"], rank["stage"]) for rank in rehearsed.report["rehearsal"]["ranks"]]


BOTH = [(0, "node1", "done"), (1, "node2", "done")]


@pytest.mark.parametrize("text", [TORCHRUN, PLAIN], ids=["torchrun", "plain"])
def test_a_healthy_start_goes(lab, folder, text):
    """Every rank is the reference trainee, at its own place, and the real program never runs."""
    before = lab.residue()
    rehearsed = Rehearsed(lab, folder, write(folder, text))
    assert rehearsed.code == 0, rehearsed
    assert ranks_of(rehearsed) == BOTH
    assert rehearsed.bad() == []
    assert lab.left_since(before, patience_s=5) == {}


class Fault(NamedTuple):
    """A fault: the script, what is planted on the hosts, and the finding that is wanted."""

    script: str
    wanted: tuple[str, str, tuple[str, ...]]  # check, verdict, nodes
    words: tuple[str, ...]  # in its message
    plant: Callable[[Lab, Path], contextlib.AbstractContextManager[object]] = lambda _lab, _folder: (
        contextlib.nullcontext()
    )
    code: int = 1


def on_node2(command):
    """A line that only node2 runs."""
    return f'if [ "$(hostname)" = node2 ]; then {command}; fi\n'


SCRIPTS, RANKS, ALIKE = "every_script_comes_to_its_ranks", "every_rank_comes_once", "every_rank_is_given_the_same"
LIMITS, TRAINING = "limits_hold_inside_the_job", "all_ranks_meet_and_train"
HEAD = "#!/bin/bash\nset -e\ncd {folder}\n"
REST = TORCHRUN.removeprefix(HEAD)
FAULTS = {
    "conda missing on one node": Fault(
        HEAD + on_node2("conda activate train") + REST,
        (SCRIPTS, "fail", ("node2",)),
        ("run.sh:4", "127", "conda: command not found"),
    ),
    "module missing, and the script goes on": Fault(
        HEAD.replace("set -e\n", "") + on_node2("module load cuda/12.1") + on_node2("exit 3") + REST,
        (SCRIPTS, "fail", ("node2",)),
        ("run.sh:3", "module: command not found"),
    ),
    "a folder that one node lacks": Fault(
        HEAD + on_node2("cd /data/project") + REST,
        (SCRIPTS, "fail", ("node2",)),
        ("run.sh:4", "/data/project: No such file or directory"),
    ),
    "cd goes wrong without set -e": Fault(
        PLAIN.replace("python train", on_node2("cd /tmp") + "python train"),
        (TRAINING, "fail", ("node2",)),
        ("can't open file train.py in /tmp",),
    ),
    "a file to source that is not there": Fault(
        HEAD + on_node2(". ./env.of.cluster") + REST,
        (SCRIPTS, "fail", ("node2",)),
        ("run.sh:4", "env.of.cluster: No such file"),
    ),
    "a rank file of another node": Fault(
        PLAIN.replace(f"RANK={NUMBER}", "RANK=0"),
        (RANKS, "fail", ("node1", "node2")),
        ("rank 0 of 2", "node1", "node2"),
    ),
    "a number of nodes that is never reached": Fault(
        PLAIN.replace("WORLD_SIZE=2", "WORLD_SIZE=3"),
        (RANKS, "fail", ("node1", "node2")),
        ("2 of 3 ranks came", "rank 2 did not"),
    ),
    "MASTER_ADDR is not exported": Fault(
        PLAIN.replace("export MASTER_ADDR=node1\n", "MASTER_ADDR=node1\n"),
        (TRAINING, "fail", ("node1", "node2")),
        ("MASTER_ADDR is not set in this rank",),
    ),
    "no variable is exported": Fault(
        PLAIN.replace("export RANK", "RANK"),
        (RANKS, "fail", ("node1", "node2")),
        ("train.py on node[1-2] would train alone",),
    ),
    "NCCL's variable is lost on one node": Fault(
        PLAIN.replace(
            "export MASTER_ADDR",
            "export NCCL_SOCKET_IFNAME=eth0\n" + on_node2("unset NCCL_SOCKET_IFNAME") + "export MASTER_ADDR",
        ),
        (ALIKE, "fail", ("node2",)),
        ("NCCL_SOCKET_IFNAME is set on node1 and not on node2",),
    ),
    "the rendezvous has an id of its own on each node": Fault(
        HEAD + f"export PATH={BIN}:$PATH\ntorchrun --nnodes 2 --nproc_per_node 1 --rdzv_id $RANDOM"
        " --rdzv_backend c10d --rdzv_endpoint node1:29500 train.py\n",
        (RANKS, "fail", ("node1", "node2")),
        ("rdzv_id",),
    ),
    "a wrapper that loses an argument": Fault(
        HEAD
        + f"export PATH={BIN}:$PATH\nlaunch() {{{{ torchrun --nnodes=2 --node_rank=${{{{2:-0}}}} --master_addr=node1"
        f" --master_port=29500 train.py; }}}}\nlaunch {NUMBER}\n",
        (RANKS, "fail", ("node1", "node2")),
        ("--node_rank 0 on node1, node2",),
    ),
    "a launcher older than the file": Fault(
        REST.replace("--nnodes=2", "--nnodes=2 --of-tomorrow=1"),
        (SCRIPTS, "fail", ("node1", "node2")),
        ("run.sh:2",),
    ),
    "an interpreter without torch on one node": Fault(
        PLAIN.replace("python train", on_node2("PATH=/usr/bin:/bin") + "python3 train"),
        (TRAINING, "fail", ("node2",)),
        ("No module named 'torch'",),
    ),
    "the environment is emptied": Fault(
        PLAIN.replace("python train.py", "env -i PATH=$PATH python -c pass"),
        (RANKS, "error", ("node1", "node2")),
        ("hook does not reach", "run.sh:7", "PYTHONPATH"),
        code=3,
    ),
    "Python without the environment": Fault(
        PLAIN.replace("python train.py", "python -I other.py"),
        (RANKS, "error", ("node1", "node2")),
        ("hook does not reach", "run.sh:7", "no -I"),
        plant=lambda _lab, folder: contextlib.nullcontext((folder / "other.py").write_text("")),
        code=3,
    ),
    "a limit in the script": Fault(
        PLAIN.replace("python train", on_node2("ulimit -n 512") + "python train"),
        (LIMITS, "fail", ("node2",)),
        ("open files: 512 inside the job on node2", "(run.sh:7)"),
    ),
    "a lock that was left in a cache": Fault(
        PLAIN,
        (LIMITS, "fail", ("node2",)),
        ("torch_extensions", "lock", "node2"),
        plant=lambda lab, _folder: left_lock(lab["node2"]),
    ),
    "a port that is held": Fault(
        PLAIN,
        (TRAINING, "fail", ("node1",)),
        ("EADDRINUSE",),
        plant=lambda lab, _folder: faults.hold_port(lab["node1"], 29500),
    ),
    "an address that no node has": Fault(
        PLAIN.replace("MASTER_ADDR=node1", "MASTER_ADDR=10.255.255.1"),
        (TRAINING, "fail", ("node1", "node2")),
        ("10.255.255.1",),
    ),
    "a network of its own on one node": Fault(
        PLAIN.replace("python train", on_node2("exec unshare -n python train.py") + "python train"),
        (TRAINING, "fail", ("node2",)),
        ("the ranks on node2 are in a network of their own", "there is no way to"),
    ),
    "a module that one node lacks": Fault(
        PLAIN.replace("python train", "python -m trainer.main #"),
        (TRAINING, "fail", ("node1", "node2")),
        ("No module named trainer.main",),
    ),
    "a script that ends early": Fault(
        HEAD + on_node2("exit 0") + REST,
        (SCRIPTS, "fail", ("node2",)),
        ("run.sh:4", "ended with 0"),
    ),
    "--standalone on two nodes": Fault(
        HEAD + f"export PATH={BIN}:$PATH\ntorchrun --standalone --nproc_per_node=1 train.py\n",
        (RANKS, "fail", ("node1", "node2")),
        ("--standalone on node1, node2",),
    ),
    "a login that ends before the script": Fault(
        PLAIN,
        (SCRIPTS, "fail", ("node2",)),
        ("the login shell on node2 ended with 3 before the script began", "license expired"),
        plant=lambda lab, _folder: lab["node2"].write_file("/root/.bash_profile", "echo license expired; exit 3\n"),
    ),
    "a login that prints": Fault(
        HEAD + on_node2("conda activate x") + REST,
        (SCRIPTS, "fail", ("node2",)),
        ("run.sh:4",),
        plant=lambda lab, _folder: lab["node2"].write_file("/root/.bash_profile", "echo welcome; echo news >&2\n"),
    ),
    "a program in PATH that cannot be run": Fault(
        HEAD + on_node2("./prepare.sh") + REST,
        (SCRIPTS, "fail", ("node2",)),
        ("run.sh:4", "126", "Permission denied"),
        plant=lambda _lab, folder: contextlib.nullcontext((folder / "prepare.sh").write_text("echo\n")),
    ),
    "an unset variable under set -u": Fault(
        HEAD.replace("set -e", "set -eu") + on_node2('echo "$CLUSTER_NAME"') + REST,
        (SCRIPTS, "fail", ("node2",)),
        ("run.sh:4", "CLUSTER_NAME: unbound variable"),
    ),
    "a script that reads what nobody types": Fault(
        HEAD + on_node2("read -r answer") + REST,
        (SCRIPTS, "fail", ("node2",)),
        ("run.sh:4",),
    ),
    "an interface that one node does not have": Fault(
        PLAIN.replace(
            "export MASTER_ADDR",
            "export GLOO_SOCKET_IFNAME=eth0\n" + on_node2("export GLOO_SOCKET_IFNAME=ib0") + "export MASTER_ADDR",
        ),
        (TRAINING, "fail", ("node2",)),
        ("ib0",),
    ),
    "a package that one node lacks": Fault(
        PLAIN.replace("python train", on_node2("cd other") + "python train"),
        (TRAINING, "fail", ("node2",)),
        ("No module named helpers, which train.py imports",),
        plant=lambda _lab, folder: with_package(folder),
    ),
    "a firewall in front of rank 0": Fault(
        PLAIN,
        (TRAINING, "fail", ("node1", "node2")),
        ("on node2 calls", ":29500, and nobody answers"),
        plant=lambda lab, _folder: faults.drop_incoming_high_ports(lab["node1"]),
    ),
    "CRLF line ends": Fault(
        PLAIN.replace("\n", "\r\n"),
        (RANKS, "fail", ("node1", "node2")),
        ("which is no number",),
    ),
    "another torch on one node": Fault(
        PLAIN,
        (ALIKE, "fail", ("node1", "node2")),
        ("torch: ", "2.1.0 on node2"),
        plant=lambda lab, _folder: faults.torch_version(lab["node2"], "2.1.0"),
    ),
    "a step that fails on one node in the background": Fault(
        HEAD + on_node2("(sleep 1; exit 9) & wait $!") + REST,
        (SCRIPTS, "fail", ("node2",)),
        ("run.sh:4", "with 9"),
    ),
    "a sitecustomize of the node's own": Fault(
        PLAIN,
        (TRAINING, "fail", ("node2",)),
        ("node2",),
        plant=lambda lab, _folder: faults.python_site(lab["node2"], "import os\nos.environ.pop('MASTER_PORT', None)\n"),
    ),
}


@contextlib.contextmanager
def with_package(folder):
    """The program imports a package that lies beside it in one folder, and not in the other."""
    (folder / "other").mkdir()
    for place in (folder, folder / "other"):
        (place / "train.py").write_text("import helpers\n" + REAL)
    (folder / "helpers.py").write_text("")
    yield


@contextlib.contextmanager
def left_lock(host):
    """A build of an extension was killed an hour ago."""
    path = "/root/.cache/torch_extensions/py311_cpu/fused_adam"
    host.check(["mkdir", "-p", path])
    host.check(["touch", "-d", "1 hour ago", f"{path}/lock"])
    try:
        yield
    finally:
        host.check(["rm", "-r", path])


# One of each kind is tried in every run, the others with the long ones.
ALWAYS = {
    "MASTER_ADDR is not exported", "conda missing on one node", "a port that is held", "a script that ends early",
    "a lock that was left in a cache",
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name not in ALWAYS)) for name in FAULTS]
)
def test_a_fault_is_named_at_its_node_and_line(lab, folder, name):
    """What no reading of the files tells: it is found where it happens, once, and nothing else is."""
    fault = FAULTS[name]
    with fault.plant(lab, folder):
        rehearsed = Rehearsed(lab, folder, write(folder, fault.script), "--deadline=100")
    found = [row for row in rehearsed.bad() if row[:3] == fault.wanted and all(word in row[3] for word in fault.words)]
    assert found, f"{rehearsed.bad()}\n{rehearsed}"
    assert rehearsed.code == fault.code, rehearsed
    others = {row[0] for row in rehearsed.bad()} - {fault.wanted[0]}
    assert not others, f"{rehearsed.bad()}\n{rehearsed}"


def test_an_own_name_that_does_not_resolve_with_standalone(lab, folder):
    """torch's agent calls its own node by its name, again and again."""
    script = write(folder, HEAD + f"export PATH={BIN}:$PATH\ntorchrun --standalone --nproc_per_node=2 train.py\n")
    with lab["node2"].write_file("/etc/hosts", "127.0.0.1 localhost\n"):
        rehearsed = Rehearsed(lab, folder, script, "--hosts=node2", "--deadline=100")
    ((check, verdict, nodes, message),) = rehearsed.bad()
    assert (rehearsed.code, check, verdict, nodes) == (1, TRAINING, "fail", ("node2",)), rehearsed
    assert "node2" in message
    assert "cannot be retrieved" in message
    assert "run.sh:5" in message
