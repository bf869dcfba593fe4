"""How do tests start ranks? As their launcher would, or many spoilt ones with a single import of torch."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

import pytest

from preflight.job.ranks.rank.limits import Planned
from preflight.job.ranks.rank.records import Records
from preflight.job.ranks.rank.world import World, meet
from preflight.job.ranks.training.data import Data
from preflight.job.ranks.training.place import Place
from preflight.job.ranks.training.settings import Settings
from preflight.job.start.script import script_of
from tests.job.ranks import forked_ranks

HERE = Path(__file__).parent


def environment(**more: str) -> dict[str, str]:
    """The environment of this process without what a launcher would have set, and without its name server.

    c10d asks for the name of every address: a server that loses one of many questions makes a rank wait for 5 s.
    """
    launcher = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
    ours = {name: value for name, value in os.environ.items() if name not in launcher and "PREFLIGHT" not in name}
    alone = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "RES_OPTIONS": "attempts:0"}
    return {**ours, **alone, **more}


@contextmanager
def sent(workload: str) -> Iterator[IO[bytes]]:
    """A file with the program of a workload as a node gets it."""
    with tempfile.NamedTemporaryFile(suffix=".py") as file:
        file.write(script_of(workload))
        file.flush()
        yield file


def started_by_variables(workload: str, *, ranks: int, settings: dict) -> dict[int, list[dict]]:
    """The records of each rank, taken from the socket; every rank is a Python of its own, its program what is sent."""
    name = f"preflight-test-{uuid.uuid4().hex}"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with (
        sent(workload) as program,
        tempfile.TemporaryDirectory() as compiled,  # this may run before any test has its folder for it
        socket.socket(socket.AF_UNIX) as listener,
    ):
        listener.bind("\0" + name)
        listener.listen(ranks)
        listener.settimeout(30)
        settled = {
            "WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "TORCHINDUCTOR_CACHE_DIR": compiled,
            "PREFLIGHT_RECORDS": name,
            "PREFLIGHT_SETTINGS": json.dumps(settings),
        }
        children = [
            subprocess.Popen([sys.executable, program.name], env=environment(RANK=str(rank), **settled))
            for rank in range(ranks)
        ]
        try:
            found = {}
            connections = [listener.accept()[0] for _ in children]
            for connection in connections:
                connection.settimeout(60)
                connection.sendall(b"go\n")
            for connection in connections:
                with connection, connection.makefile() as lines:
                    hello, *records = [json.loads(line) for line in lines]
                found[hello["rank"]] = records
            assert [child.wait(timeout=10) for child in children] == [0] * ranks
        finally:
            for child in children:
                child.kill()
                child.wait()
    return found


def started() -> subprocess.Popen[str]:
    """A Python that plays scenarios."""
    words = [sys.executable, HERE / "forked_ranks.py"]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())


class Fork:
    """The same as a fork of this process, for who has imported torch already."""

    def __init__(self) -> None:
        asked, ask = os.pipe()
        tell, told = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(ask)
            sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
            warnings.resetwarnings()
            given = environment()
            os.environ.clear()
            os.environ.update(given)
            forked_ranks.end_with_parent()
            try:
                with open(asked, encoding="utf-8") as lines, open(told, "w", encoding="utf-8") as answers:
                    forked_ranks.serve(lines, answers)
            finally:
                os._exit(0)
        os.close(asked)
        os.close(told)
        self.stdin, self.stdout = open(ask, "w", encoding="utf-8"), open(tell, encoding="utf-8")  # noqa: SIM115

    def wait(self, *, timeout: float) -> int:
        """Its exit code."""
        with contextlib.suppress(ChildProcessError):
            return os.waitpid(self.pid, 0)[1]
        return 0


def whole_scenario(workload: str, scenario: dict) -> dict:
    """A scenario as `forked_ranks` plays it, with its program and all that it leaves open."""
    usual = {
        "started": list(range(scenario["ranks"])),
        "settings": {},
        "plants": {},
        "variables": {},
        "has_node": False,
    }
    program = script_of(workload).decode()
    for old, new in scenario.get("changed", ()):
        assert repr(old)[1:-1] in program, old
        program = program.replace(repr(old)[1:-1], repr(new)[1:-1])
    return {**usual, "program": program, "cuda": str(HERE.parents[1] / "cuda"), **scenario}


class Ranks:
    """A process that has imported torch once; all ranks of scenarios are forks of it."""

    def __init__(self) -> None:
        # A fork is made at once: later this process may be the rank of a job, and would hand its process group on.
        self.process: subprocess.Popen[str] | Fork | None = Fork() if "RANKS_ARE_FORKS" in os.environ else None

    def play(self, workload: str, scenario: dict) -> dict:
        """What the ranks of one scenario recorded, and their exit codes."""
        if self.process is None:
            self.process = started()
        self.process.stdin.write(json.dumps(whole_scenario(workload, scenario)) + "\n")
        self.process.stdin.flush()
        told = self.process.stdout.readline()
        assert told, f"no scenario can be played: {self.process.wait(timeout=10)}"
        return json.loads(told)

    def close(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait(timeout=60)
            self.process.stdout.close()


class Scenarios(Mapping):
    """Scenarios of one program by their names, each played once, when it is asked for."""

    def __init__(self, ranks: Ranks, workload: str, scenarios: dict[str, dict]) -> None:
        self.ranks, self.workload, self.scenarios = ranks, workload, scenarios
        self.played: dict[str, dict] = {}

    def __getitem__(self, name: str) -> dict:
        if name not in self.played:
            self.played[name] = self.ranks.play(self.workload, self.scenarios[name])
        return self.played[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.scenarios)

    def __len__(self) -> int:
        return len(self.scenarios)


@pytest.fixture(scope="session")
def ranks_by_variables():
    """Start a program as separate processes with RANK and the like."""
    return started_by_variables


@pytest.fixture(scope="session")
def forked_scenarios() -> Iterator[Callable[[str, dict[str, dict]], Scenarios]]:
    """Scenarios that are played with ranks that share one import of torch."""
    ranks = Ranks()
    yield partial(Scenarios, ranks)
    ranks.close()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory) -> Path:
    """A folder for what torch compiles."""
    return tmp_path_factory.mktemp("inductor")


@pytest.fixture(autouse=True)
def _keep_what_is_compiled(compiled, monkeypatch) -> None:
    """Torch's own folder would stand among what tests of the lab take for left behind; so would this variable there."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(compiled))


@pytest.fixture(scope="session")
def world(compiled, forked_scenarios) -> Iterator[World]:
    """A job of one rank in this process, which has made its forks by then: its collectives are real ones."""
    import torch.distributed as dist

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(
            RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
        ).items():
            patch.setenv(name, value)
        patch.delenv("PREFLIGHT_RECORDS", raising=False)
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(compiled))
        # This process is watched from then on, as any rank.
        forever = {"join_seconds": 30, "wait_seconds": 1e6, "import_seconds": 0.0}
        found = meet("gloo", **forever, records=Records(rank=0), planned=Planned())
    yield found
    dist.destroy_process_group()


@pytest.fixture
def data(world) -> Data:
    """The samples of the only rank of a training, three steps of them."""
    place = Place(rank=0, ranks=1, device=world.device, import_seconds=0.0, first_here=0, life=0, store=world.store)
    return Data(settings=Settings(steps=3), place=place)
