"""How do tests start ranks? As their launcher would, or many spoilt ones with a single import of torch."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROGRAMS = HERE.parents[1] / "preflight" / "workloads"


def environment(**more: str) -> dict[str, str]:
    """The environment of this process without what a launcher would have set."""
    launcher = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
    ours = {name: value for name, value in os.environ.items() if name not in launcher and "PREFLIGHT" not in name}
    return {**ours, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", **more}


def started_by_variables(program: str, *, ranks: int, settings: dict) -> dict[int, list[dict]]:
    """The records of each rank, taken from the socket; every rank is a Python of its own, its program a file."""
    name = f"preflight-test-{uuid.uuid4().hex}"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen(ranks)
        listener.settimeout(30)
        settled = {
            "WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "PREFLIGHT_RECORDS": name,
            "PREFLIGHT_SETTINGS": json.dumps(settings),
        }
        children = [
            subprocess.Popen([sys.executable, PROGRAMS / program], env=environment(RANK=str(rank), **settled))
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


def forked(program: str, scenarios: dict[str, dict]) -> dict[str, dict]:
    """What each scenario's ranks recorded, and their exit codes."""
    whole = {
        name: {"started": list(range(scenario["ranks"])), "settings": {}, "plants": {}, **scenario}
        for name, scenario in scenarios.items()
    }
    done = subprocess.run(
        [sys.executable, HERE / "forked_ranks.py", PROGRAMS / program],
        input=json.dumps(whole),
        capture_output=True,
        text=True,
        # Many ranks one after the other, on a machine that runs other tests too.
        timeout=600,
        check=False,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="session")
def ranks_by_variables():
    """Start a program as separate processes with RANK and the like."""
    return started_by_variables


@pytest.fixture(scope="session")
def forked_scenarios():
    """Play scenarios with ranks that share one import of torch."""
    return forked
