"""Does a collector that is asked about a tree of files leave the machine alone that it runs on?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from preflight.node.agent import roots
from preflight.node.calls.collect import COLLECTORS
from tests.twins import node
from tests.twins.platforms import BY_NAME

PLATFORMS = ("dgx-h100", "mi355x-pollara", "gb200-nvl72", "25gbe")
# What no file tells: the answers of a kernel that runs, and of the interpreter that the job gets.
OF_A_MACHINE = ("identity", "limits", "network", "software", "peers")


def tree(platform: str, under: Path) -> str:
    """The folder of a node of a platform; its links and its programs lead into the folder too."""
    root = os.fspath(node.make(BY_NAME[platform], 3, under)[0].root)
    for path in Path(root).rglob("*"):
        if path.is_symlink() and os.readlink(path).startswith("/sys/"):
            to = os.readlink(path)
            path.unlink()
            path.symlink_to(f"{root}{to}")
        elif path.parent.name == "bin" and path.is_file():
            path.write_text(path.read_text().replace("/opt/twin", f"{root}/opt/twin").replace("cat ", "/bin/cat "))
    (Path(root) / "proc/net/tcp").write_text("  sl  local_address rem_address   st\n")
    (Path(root) / "etc/nccl.conf").write_text("NCCL_ALGO=Ring\n")
    return root


@pytest.mark.parametrize(
    ("proc", "root"), [("/proc", ""), ("/a/proc", "/a"), ("/a", "/a"), ("/a/proc/proc", "/a/proc")]
)
def test_a_tree_is_what_its_proc_lies_in(proc, root):
    """Nobody can give the one and forget the other."""
    assert roots.root_of({"proc": proc}) == root


@pytest.fixture(scope="module", params=PLATFORMS)
def asked(request, tmp_path_factory):
    """What every collector said of a tree, and what of this machine it touched."""
    root = tree(request.param, tmp_path_factory.mktemp("tree"))
    layers = [["launch.sh", {"NCCL_TOPO_FILE": "/etc/hosts", "PATH": f"{root}/usr/local/bin"}]]
    order = {"proc": f"{root}/proc", "sysfs": f"{root}/sys", "environment": layers}
    script = Path(__file__).parents[1] / "tree.py"
    done = subprocess.run(
        [sys.executable, "-I", script, root, json.dumps(order)], capture_output=True, text=True, timeout=120, check=True
    )
    return json.loads(done.stdout)


def test_no_source_of_this_machine_is_touched(asked):
    """Neither a file, nor a system call, nor a program, nor a variable of the process that asks."""
    assert {name: said["touched"] for name, said in asked.items() if said["touched"]} == {}
    assert "of-this-machine" not in json.dumps(asked)
    assert asked.keys() >= set(COLLECTORS)


def test_what_no_file_tells_is_said_to_be_unknown(asked):
    """The rest is read: a collector that gave up at once would touch nothing either."""
    assert {name for name, said in asked.items() if "missing" in said} == set(OF_A_MACHINE)
    assert all("tree of files" in asked[name]["missing"] for name in OF_A_MACHINE)


def test_the_files_of_the_tree_are_read(asked):
    """Its processor, its NCCL configuration, its GPUs where it has some."""
    assert asked["machine"]["facts"]["cpu_model"]
    variables = asked["environment"]["facts"]["variables"]
    assert variables["NCCL_ALGO"] == {"value": "Ring", "layer": "/etc/nccl.conf"}
    assert "NCCL_DEBUG" not in variables
    assert asked["environment"]["facts"]["unread_files"] == []
    devices = asked["gpu"]["facts"]["devices"]
    assert isinstance(devices, list)
    assert asked["own"]["facts"] is True
