"""Real hosts: a script that starts the ranks of other nodes by pdsh or ssh. What keeps it from them, and where?"""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import pytest

from tests.e2e.test_rehearse import BOTH, RANKS, REAL, SCRIPTS, TRAINING, Rehearsed, ranks_of, write
from tests.lab.lab import Lab

BIN = Path(sys.executable).parent
HEAD = f"#!/bin/bash\nset -e\ncd {{folder}}\nexport PATH={BIN}:$PATH\n"
DEEPSPEED = "export DS_ACCELERATOR=cpu\ndeepspeed --launcher pdsh --hostfile hosts --master_addr node1 train.py\n"
# What a session over ssh does not hand on stands in the command for the other node.
ENTER = "cd {folder} && PYTHONPATH=$PYTHONPATH PATH=$PATH"
NUMBER = r"\$((\$(hostname | tr -d a-z) - 1))"
PDSH = (
    f'pdsh -S -R ssh -w node1,node2 "{ENTER} torchrun --nnodes=2 --nproc_per_node=1 --node_rank={NUMBER}'
    ' --master_addr=node1 train.py"\n'
)
LOOP = f"""for number in 0 1; do
  ssh node$((number + 1)) "{ENTER} \\
    RANK=$number WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=node1 MASTER_PORT=29500 python train.py" &
done
wait
"""
STARTS = {"deepspeed": DEEPSPEED, "pdsh": PDSH, "ssh": LOOP}
NEEDS = {"deepspeed": find_spec("deepspeed") and which("pdsh"), "pdsh": which("pdsh"), "ssh": True}
starts = pytest.mark.parametrize(
    "how",
    [pytest.param(how, marks=pytest.mark.skipif(not NEEDS[how], reason=f"needs {how} and pdsh")) for how in STARTS],
)


@pytest.fixture(scope="module")
def lab(lab_is_possible):
    """Two hosts that log in to each other and to themselves."""
    with Lab.create(2) as made:
        yield made


@pytest.fixture
def folder(lab, request):
    """A shared folder with a program that must never run."""
    made = lab.shared / re.sub("[^a-z0-9]+", "-", request.node.name.lower())[-60:]
    made.mkdir()
    (made / "train.py").write_text(REAL)
    (made / "hosts").write_text("node1 slots=1\nnode2 slots=1\n")
    return made


def rehearsed(lab, folder, how):
    """The rehearsal of a script that node1 alone runs."""
    return Rehearsed(lab, folder, write(folder, HEAD + STARTS[how]), "--deadline=100")


def only(found):
    """The one thing that is bad, with the lines of the script."""
    ((check, verdict, nodes, message),) = found.bad()
    lines = [w["line"] for f in found.report["findings"] if f["verdict"] == "fail" for w in f["where"]]
    assert (found.code, verdict, nodes) == (1, "fail", ("node1",)), found
    return check, message, lines


def without_itself(host):
    """The node does not know its own key, as where nobody has ever logged in from it to itself."""
    path = f"{host.scratch}/known_hosts"
    lines = host.space.root(path).read_text().splitlines(keepends=True)
    return host.write_file(path, "".join(line for line in lines if not line.startswith(f"{host.name},")))


@starts
def test_a_start_over_ssh_goes(lab, folder, how):
    """The hook is handed on by the words in the command, and the script is run on its own node alone."""
    before = lab.residue()
    found = rehearsed(lab, folder, how)
    assert (found.code, found.bad()) == (0, []), found
    assert sorted(ranks_of(found)) == BOTH
    assert lab.left_since(before, patience_s=5) == {}


@starts
def test_a_node_that_cannot_log_in_to_itself(lab, folder, how):
    """The others are reached, and wait for the ranks of the node that the script is on."""
    with without_itself(lab["node1"]):
        check, message, lines = only(rehearsed(lab, folder, how))
    wanted = {
        "deepspeed": (SCRIPTS, "host=node1 was not reachable via ssh", 6),
        "pdsh": (TRAINING, "the launcher on node2 waits, for node1", 5),
        "ssh": (RANKS, "none from node1", 6),
    }[how]
    assert check == wanted[0]
    assert wanted[1] in message
    assert how == "deepspeed" or "ssh to node1: the host key is unknown or has changed" in message
    assert wanted[2] in lines


@pytest.mark.parametrize("how", ["deepspeed", "pdsh"])
def test_pdsh_that_is_missing_on_the_first_node(lab, folder, how):
    """Only the node that starts the others needs it."""
    if not NEEDS[how]:
        pytest.skip(f"needs {how} and pdsh")
    with lab["node1"].write_file(which("pdsh"), "not for this machine\n"):  # it cannot be run
        check, message, lines = only(rehearsed(lab, folder, how))
    assert check == SCRIPTS
    wanted = "launcher 'pdsh' not installed" if how == "deepspeed" else "pdsh: Permission denied"
    assert wanted in message
    assert lines == [6 if how == "deepspeed" else 5]
