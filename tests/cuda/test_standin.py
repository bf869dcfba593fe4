"""Does the stand-in fail and write as NCCL and torch do, and do the ranks end where NCCL would wait for ever?"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from preflight.job.measure.nccl_log import parse_nccl_log
from preflight.job.start import words
from preflight.job.start.symptoms import symptom
from preflight.node.sources import rank_files
from tests import cuda

SMALL = {"backend": "nccl", "sizes": [65536], "min_iterations": 6, "max_iterations": 6, "wait_seconds": 2.0}
# Rank 1 stops where its communicator is made: no time-out of torch looks at that.
STOP = """
import os, signal, torch.distributed as dist
start = dist.init_process_group
def init_process_group(*words, **named):
    if os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGSTOP)
    start(*words, **named)
dist.init_process_group = init_process_group
"""


# Tells to which GPU a rank ties its process group.
TELL = """
import functools, os, torch.distributed as dist
start = dist.init_process_group
@functools.wraps(start)
def init_process_group(*words, **named):
    os.write(1, ('{"record": "bound", "device": "' + str(named.get("device_id")) + '"}\\n').encode())
    return start(*words, **named)
dist.init_process_group = init_process_group
"""
# A call of the GPU's library that never comes back, where no other rank is that could be at fault.
HANG = """
import time, torch.distributed as dist
dist.all_reduce = dist.all_gather = lambda *words, **named: time.sleep(600)
"""


def two(
    folder: Path,
    *,
    plant: str = "",
    described: dict | None = None,
    workload: str = "collectives",
    settings: dict = SMALL,
    ranks: int = 2,
    **variables: str,
) -> dict[int, list[dict]]:
    """The records of two ranks, each on a GPU of a host of its own, as its NCCL_HOSTID says; or of one alone."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    given = {
        **{name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")},
        **cuda.environment(**{"gpus": 1, "wait_seconds": 2, **(described or {})}),
        "STAND_IN_PLANT": plant,
        "PREFLIGHT_SETTINGS": json.dumps(settings),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(ranks),
        "LOCAL_RANK": "0",
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,NET,TUNING",
        "OMP_NUM_THREADS": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),  # else it stands in /tmp when the test is over
        **variables,
    }
    started = []
    for rank in range(ranks):
        own = {"RANK": str(rank), "NCCL_DEBUG_FILE": str(folder / f"preflight-nccl-rank{rank}")}
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", f"preflight.job.ranks.{workload}"],
                env={"NCCL_HOSTID": f"host{rank}", **given, **own},
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        )
    try:
        found = {0: told(started[0])}
        started[-1].send_signal(signal.SIGKILL) if plant else None
        return {**found, ranks - 1: told(started[-1])} if ranks > 1 else found
    finally:
        for one in started:
            one.kill()
            one.wait()


def told(rank: subprocess.Popen[str]) -> list[dict]:
    return [json.loads(line) for line in rank.communicate(timeout=200)[0].splitlines() if line.startswith("{")]


def test_its_log_is_read_as_ncclls_and_names_adapters_and_gpudirect(tmp_path):
    """Over InfiniBand adapters that are described as a node would list them."""
    ports = ["mlx5_0:1/IB", "mlx5_1:1/IB"]
    found = two(tmp_path, described={"network": "IB", "ports": ports})
    assert [record["wrong"] for record in found[0] if record["record"] == "result"] == [0]
    use = parse_nccl_log((tmp_path / "preflight-nccl-rank0").read_text().splitlines())
    assert (use.network, use.ports) == ("IB", tuple(ports))
    assert use.between_nodes == ("NET/IB/GDRDMA",)


@pytest.mark.parametrize(
    ("variables", "cause"),
    [
        ({"NCCL_SOCKET_IFNAME": "nope"}, "is not there or has no address"),
        ({"NCCL_HOSTID": "same"}, "two ranks use the same GPU"),
    ],
)
def test_what_it_raises_is_read_as_its_cause(tmp_path, variables, cause):
    """The text is torch's, with what NCCL said last."""
    found = two(tmp_path, **variables)
    (failed,) = [record for record in found[0] if record["record"] == "failed"]
    assert cause in symptom(text=words.particular(failed["error"]), exited="1").cause
    assert not words.speaks_of_a_peer(failed["error"])


TRAINING = {"backend": "nccl", "model": "tiny", "wait_seconds": 2.0}


@pytest.mark.parametrize(("workload", "settings"), [("collectives", SMALL), ("train", TRAINING)])
def test_no_rank_leaves_while_another_still_receives(tmp_path, workload, settings):
    """NCCL sends on when its kernel has ended: who is done waits for the others, in the store."""
    found = two(tmp_path, described={"late": {"1": 0.2}, "wait_seconds": 20}, workload=workload, settings=settings)
    assert [record["record"] for record in found[1]][-1] == "done"
    assert [record["record"] for record in found[0]][-1] == "done"


def test_a_rank_that_stops_while_the_communicator_is_made_holds_up_nobody_for_ever(tmp_path):
    """No watchdog looks at that; the rank that waits ends by itself and says that it waited."""
    began = time.monotonic()
    found = two(tmp_path, plant=STOP)
    (failed,) = [record for record in found[0] if record["record"] == "failed"]
    assert re.match(r"TimeoutError: Timed out waiting \d+ s at stage communicator", failed["error"])
    assert words.speaks_of_a_peer(failed["error"])
    assert time.monotonic() - began < 150  # most of it is the import of torch
    assert [event["rank"] for event in rank_files.kept(str(tmp_path), 4000)] == [0]


@pytest.mark.parametrize(
    ("workload", "settings"),
    [("collectives", SMALL), ("train", TRAINING)],
)
def test_a_rank_alone_blames_no_other(tmp_path, workload, settings):
    """A call that hangs in a world of one: the rank says so as its own failure, and of nobody else."""
    found = two(tmp_path, plant=HANG, workload=workload, settings=settings, ranks=1)
    (failed,) = [record for record in found[0] if record["record"] == "failed"]
    assert re.match(r"TimeoutError: nothing moved for \d+ s at stage communicator", failed["error"])
    assert not words.speaks_of_a_peer(failed["error"])


@pytest.mark.parametrize(("workload", "settings"), [("collectives", SMALL), ("train", TRAINING)])
def test_a_process_group_is_tied_to_its_gpu(tmp_path, workload, settings):
    """Its communicator is then made at once, and a barrier guesses no other GPU."""
    found = two(tmp_path, plant=TELL, workload=workload, settings=settings, ranks=1)
    assert [record["device"] for record in found[0] if record["record"] == "bound"] == ["cuda:0"]
