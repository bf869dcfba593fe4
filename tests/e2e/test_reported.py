"""Reported failures, planted on real hosts as they occurred: is each a fail where it was planted, with its cause?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.test_planted_faults import Judged
from tests.lab import faults
from tests.lab.faults import Planted
from tests.lab.lab import Lab
from tests.lab.network import ip

HOSTS = ("node1", "node2", "node3")
SITE = next(Path(path) for path in sys.path if path.endswith("site-packages"))
FACTS = ("--preflight-profile=quick", "-k", "not mesh")
Plants = Callable[[Lab], Iterator[Planted]]


def package(lab: Lab, name: str, version: str, *hosts: str) -> Iterator[Planted]:
    """A package is installed on some hosts, as its METADATA tells."""
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\n"
    found = [*SITE.glob(f"{name}-*.dist-info"), SITE / f"{name}-{version}.dist-info"]
    for host in hosts:
        yield lab[host].write_file(f"{found[0]}/METADATA", text)


def bridges(lab: Lab) -> Iterator[Planted]:
    """Docker's bridge is on every host, with the address that it has everywhere."""
    yield from package(lab, "horovod", "0.28.1", *HOSTS)
    for space in (lab[host].space for host in HOSTS):
        lines = ["link add docker0 type bridge", "address add 172.17.0.1/16 dev docker0", "link set docker0 up"]
        ip(space, lines)
        yield Planted(lambda space=space: ip(space, ["link del docker0"]))


def renamed(lab: Lab) -> Iterator[Planted]:
    """The interface of one host has another name."""
    yield from package(lab, "horovod", "0.18.2", *HOSTS)
    yield rename(lab, "eth0", "ens5")


def rename(lab: Lab, before: str, after: str) -> Planted:
    """Under the new name it is what it was."""
    lines = [f"link set {before} down", f"link set {before} name {after}", f"link set {after} up"]
    ip(lab["node2"].space, lines)
    return Planted(lambda: rename(lab, after, before) and None)


def old_deepspeed(lab: Lab) -> Iterator[Planted]:
    """The launcher adds to a variable that it takes for set."""
    yield from package(lab, "deepspeed", "0.14.0", *HOSTS)


def held(lab: Lab) -> Iterator[Planted]:
    """Another job has the port that the program sets itself."""
    yield faults.hold_port(lab["node1"], 29500)


def other_ray(lab: Lab) -> Iterator[Planted]:
    """On one host runs a Ray of another environment, and of another version."""
    host, folder = lab["node3"], "/tmp/cluster/site-packages"
    host.check(["mkdir", "-p", f"{folder}/ray/core/src/ray/raylet", f"{folder}/ray-2.9.3.dist-info"])
    program = f"{folder}/ray/core/src/ray/raylet/raylet"
    host.check(["cp", "/usr/bin/sleep", program])
    pid = host.check(["sh", "-c", f"{program} 600 >/dev/null 2>&1 & echo $!"]).strip()
    yield Planted(lambda: host.check(["sh", "-c", f"kill {pid}; rm -r /tmp/cluster"]) and None)


def drifted(lab: Lab) -> Iterator[Planted]:
    """The clock of one host is twenty minutes ahead: its Python is told so, for no namespace has a clock of its own."""
    for host in HOSTS:
        yield faults.python_with_site(lab[host])
    yield faults.python_site(lab["node3"], "import time\nnow = time.time\ntime.time = lambda: now() + 1200\n")


@dataclass(frozen=True)
class Reported:
    """How a row is planted, the check that must fail there, with which words, and what starts the job or the run."""

    plant: Plants
    check: str
    nodes: tuple[str, ...]
    words: str
    files: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()


ROWS = {
    "G026": Reported(
        bridges,
        "network.mpi_takes_no_bridge_of_every_machine",
        HOSTS,
        "docker0 has 172.17.0.1 on each",
        {"run.sh": "mpirun -np 3 -H node1:1,node2:1,node3:1 python train.py\n"},
    ),
    "G028": Reported(
        renamed,
        "network.horovod_finds_an_interface_of_one_name",
        HOSTS,
        "no interface has one name on all nodes",
        {"run.sh": "horovodrun -np 3 -H node1:1,node2:1,node3:1 python train.py\n"},
    ),
    "G040": Reported(
        old_deepspeed,
        "trust.programs_of_the_launch_are_there",
        ("node1",),
        "deepspeed 0.14.0 with --ssh_port needs PDSH_SSH_ARGS_APPEND= set",
        {
            "run.sh": "deepspeed --hostfile hostfile --ssh_port 22 --master_addr node1 train.py\n",
            "hostfile": "".join(f"{host} slots=1\n" for host in HOSTS),
        },
    ),
    "G044": Reported(
        held,
        "launch.master_port_is_free",
        ("node1",),
        "29500",
        {
            "run.sh": "export MASTER_ADDR=node1 MASTER_PORT=29501 WORLD_SIZE=3 RANK=0\npython demo.py\n",
            "demo.py": 'import os\nimport torch.distributed as dist\nos.environ["MASTER_PORT"] = "29500"\n'
            'dist.init_process_group("gloo")\n',
        },
    ),
    "G058": Reported(
        other_ray, "software.ray_that_runs_is_the_one_installed", ("node3",), "Ray 2.9.3 of /tmp/cluster/site-packages"
    ),
    "G068": Reported(drifted, "clock.clocks_agree", ("node3",), "+1200 s", options=(f"--python={faults.WITH_SITE}",)),
}


@pytest.fixture(scope="module")
def lab(lab_is_possible):
    """Three hosts for all rows of this file."""
    with Lab.create(3) as made:
        yield made


@pytest.mark.parametrize("row", ROWS)
def test_the_host_is_named(lab, tmp_path, row):
    """By a fail of its own check, on exactly these hosts, with the cause and a fix."""
    told = ROWS[row]
    for name, text in told.files.items():
        (tmp_path / name).write_text(text)
    words = [f"--launch={tmp_path / name}" for name in told.files]
    with ExitStack() as stack:
        for planted in told.plant(lab):
            stack.enter_context(planted)
        run = Judged(lab, tmp_path / "report", *FACTS, *words, *told.options)
    found = run.finding(told.check, "fail")
    assert found["nodes"] == list(told.nodes), run.told()
    assert told.words in found["message"]
    assert found["fix"]
    assert run.code == 1, run.told()
