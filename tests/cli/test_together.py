"""When does a command speak for all ranks of a job?"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import pytest

from preflight import __version__
from preflight.cli.together import is_asked, join_seconds, rank_variables, words_of_rank
from preflight.said.errors import UsageError

RANK = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


@pytest.mark.parametrize(("environment", "words"), [(RANK, ["run", "--hosts=torchrun"]), ({"RANK": "0"}, []), ({}, [])])
def test_no_word_on_a_rank_means_a_run_of_the_job(environment, words):
    """Elsewhere it means the help."""
    assert words_of_rank(environment) == words


@pytest.mark.parametrize(
    ("hosts", "environment", "asked"),
    [("torchrun", RANK, True), ("local", RANK, False), (None, RANK, False), ("torchrun", {}, False)],
)
def test_only_the_word_makes_a_rank_of_a_command(hosts, environment, asked):
    """And once the nodes have met, the same words are those of a plain run."""
    assert is_asked(hosts, environment) is asked
    assert not is_asked(hosts, {**environment, "PREFLIGHT_MEETING": "{}"})


STEP = {
    "SLURM_JOB_ID": "731",
    "SLURM_STEP_ID": "2",
    "SLURM_NODEID": "1",
    "SLURM_LOCALID": "0",
    "SLURM_STEP_NUM_NODES": "3",
    "SLURM_STEP_TASKS_PER_NODE": "1(x3)",
    "SLURM_STEP_NODELIST": "gpu[07-08],login",
}


def short(environment):
    """RANK, LOCAL_WORLD_SIZE, WORLD_SIZE, and where rank 0 is."""
    found = rank_variables(environment)
    return tuple(found[name] for name in ("RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({}, ("1", "1", "3", "gpu07", "20733")),
        ({"SLURM_STEP_TASKS_PER_NODE": "8(x3)", "SLURM_LOCALID": "5"}, ("13", "8", "24", "gpu07", "20733")),
        ({"MASTER_ADDR": "10.0.0.7", "MASTER_PORT": "29500"}, ("1", "1", "3", "10.0.0.7", "29500")),
    ],
    ids=["one task a node", "eight tasks a node", "a script's own address"],
)
def test_a_task_of_srun_is_a_rank(more, wanted):
    """Of the step it is in, which may be a part of the job; its first node is where the nodes meet."""
    assert short({**STEP, **more}) == wanted
    assert is_asked("torchrun", {**STEP, **more})


@pytest.mark.parametrize("more", [{"SLURM_STEP_ID": "4294967291"}, {"SLURM_STEP_NODELIST": ""}, {"SLURM_NODEID": "x"}])
def test_what_is_no_step_of_srun_is_no_rank(more):
    """A batch script, an interactive shell, and what cannot be read."""
    assert rank_variables({**STEP, **more}) == {}


OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "3",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
    "PMIX_NAMESPACE": "1372913665",
    "OMPI_MCA_orte_hnp_uri": "1372913664.0;tcp://192.0.2.2,10.0.0.2:45457;tcp6://[fd00::2]:45197",
}
HYDRA = {"PMI_RANK": "9", "PMI_SIZE": "16", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "8", "MASTER_ADDR": "10.0.0.7"}


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        (OPEN_MPI, ("1", "1", "3", "192.0.2.2", "23665")),
        ({**OPEN_MPI, "MASTER_ADDR": "node1", "MASTER_PORT": "29500"}, ("1", "1", "3", "node1", "29500")),
        (HYDRA, ("9", "8", "16", "10.0.0.7", "20000")),
        ({**STEP, **OPEN_MPI}, ("1", "1", "3", "192.0.2.2", "23665")),  # mpirun in an allocation starts by srun
    ],
    ids=["Open MPI", "an address handed on", "Hydra", "Open MPI in Slurm"],
)
def test_a_rank_of_mpirun_is_a_rank(environment, wanted):
    """Without a word of preflight's, too."""
    assert short(environment) == wanted
    assert words_of_rank(environment) == ["run", "--hosts=torchrun"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_MCA_orte_local_daemon_uri": "other"}, "-x MASTER_ADDR="),
        ({"OMPI_MCA_orte_hnp_uri": ""}, "-x MASTER_ADDR="),  # Open MPI 5
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, "--map-by ppr:1:node"),
    ],
    ids=["mpirun elsewhere", "no address told", "ranks go round the nodes"],
)
def test_what_mpirun_does_not_tell_is_asked_for(more, said):
    """Before anything waits for a rank that cannot come."""
    with pytest.raises(UsageError, match=said):
        rank_variables({**OPEN_MPI, **more})


@pytest.mark.process
def test_a_rank_without_a_first_one_ends_in_time_and_says_where_it_looked(tmp_path):
    """Its own code is 3: nothing was measured."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = {**os.environ, **RANK, "RANK": "1", "MASTER_PORT": port, "PREFLIGHT_JOIN_SECONDS": "1"}
    argv = [sys.executable, "-m", "preflight", "run", "--hosts=torchrun"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert done.returncode == 3
    assert f"rank 1 found no store at 127.0.0.1:{port}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.process
def test_a_first_rank_whose_port_is_taken_says_whose_fault_that_may_be(tmp_path):
    """Two nodes were given rank 0, or another program listens there; nothing was measured."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        environment = {**os.environ, **RANK, "RANK": "0", "MASTER_PORT": port, "PREFLIGHT_JOIN_SECONDS": "1"}
        argv = [sys.executable, "-m", "preflight", "run", "--hosts=torchrun"]
        done = subprocess.run(
            argv, env=environment, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False
        )
    assert done.returncode == 3
    assert f"port {port} is in use on this node, by another rank 0 or another program" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"RANK": "4", "WORLD_SIZE": "4"}, "RANK=4 with WORLD_SIZE=4: ranks are 0 to 3"),
        ({"RANK": "first"}, "RANK=first: wanted a number"),
        ({"MASTER_PORT": "http"}, "MASTER_PORT=http: wanted a number"),
    ],
)
def test_what_is_no_rank_is_told_before_anything_waits(wrong, said):
    """It would be rank 0 of its own, or wait for nobody."""
    with pytest.raises(UsageError, match=said):
        rank_variables({**RANK, **wrong})


def test_the_ranks_wait_no_longer_for_each_other_than_the_run_may_take():
    """A minute where nothing is said; what is said for pods that are scaled up holds."""
    assert [join_seconds({}, 300.0), join_seconds({}, 20.0)] == [60.0, 20.0]
    assert join_seconds({"PREFLIGHT_JOIN_SECONDS": "900"}, 45.0) == 900.0
    with pytest.raises(UsageError, match="PREFLIGHT_JOIN_SECONDS=soon: wanted a number of seconds"):
        join_seconds({"PREFLIGHT_JOIN_SECONDS": "soon"}, 45.0)


def started(rank, port, *words, **more):
    """A rank of a job on this machine."""
    environment = {**os.environ, **RANK, "RANK": str(rank), "MASTER_PORT": str(port), **more}
    argv = [sys.executable, "-m", "preflight", "run", "--hosts=torchrun", *words]
    return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.process
def test_a_rank_that_meets_a_stranger_ends_with_the_deadline_or_a_signal():
    """One that accepts and says nothing: torch waits for its answer, and cannot be interrupted."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        patient, stopped = started(1, port, "--deadline=8"), started(1, port)
        stranger.settimeout(60)
        held = [stranger.accept() for _ in range(2)]
        stopped.terminate()
        stopped.communicate(timeout=5)
        said, _ = patient.communicate(timeout=20)
        for wire, _ in held:
            wire.close()
    assert (patient.returncode, stopped.returncode) == (3, 143)
    assert "what listens there is not a store of torch" in said
    assert "Traceback" not in said


@pytest.mark.process
def test_two_sizes_of_one_world_are_told_with_the_nodes_that_have_them():
    """By both, at once, and nobody is judged."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [started(0, port, WORLD_SIZE="2"), started(1, port, WORLD_SIZE="3")]
    said = [rank.communicate(timeout=60)[0] for rank in ranks]
    name = socket.gethostname()
    assert [rank.returncode for rank in ranks] == [3, 3], said
    assert f"the ranks did not meet: world size: 2 on {name}, 3 on {name}; give every rank the same" in said[0]
    assert f"rank 1 did not join: world size: 2 on {name}, 3 on {name}" in said[1]
    assert "Traceback" not in "".join(said)


@pytest.mark.process
def test_a_signal_ends_the_first_rank_and_its_store_while_others_are_awaited():
    """The port is free again."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    rank = started(0, port, WORLD_SIZE="2")
    end = time.monotonic() + 60
    while not listens(port) and time.monotonic() < end:
        time.sleep(0.05)
    rank.terminate()
    said, _ = rank.communicate(timeout=10)
    assert rank.returncode == 143, said
    assert not listens(port)


def listens(port):
    """Whether somebody does."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@pytest.fixture
def port():
    """One that is free."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.mark.process
def test_a_rank_that_comes_when_the_others_have_gone_says_so(port, tmp_path):
    """Rank 0 named it and ended; it waits no longer than it may, and neither has a verdict of it."""
    words = ("--profile=quick", f"--report-dir={tmp_path / 'run'}")
    first = started(0, port, *words, PREFLIGHT_JOIN_SECONDS="2")
    said = [first.communicate(timeout=90)[0]]
    late = started(1, port, PREFLIGHT_JOIN_SECONDS="2")
    said.append(late.communicate(timeout=60)[0])
    assert [first.returncode, late.returncode] == [3, 3], said
    assert "rank 1 did not join within the time for it" in " ".join(said[0].split())
    assert "nothing listens: rank 0 did not start, has ended, or runs on another node" in said[1]
    assert "Traceback" not in "".join(said)


OLDER = """
import json, sys
from preflight.job.ranks import meeting
def come(store, node):
    told = {"name": node.name, "address": node.address, "rank": node.rank, "world": node.world, "version": node.version}
    store.set(f"came/{store.add('came', 1)}", json.dumps(told))
meeting.come = come
sys.argv[1:] = ["serve", "0.0.9", "20", "60"]
meeting.main()
"""


@pytest.mark.process
def test_a_preflight_of_another_version_is_told_with_the_node_that_has_it(port, tmp_path):
    """By both: its rank said what this version does not understand, and nobody waits for it to come."""
    environment = {**os.environ, **RANK, "RANK": "1", "MASTER_PORT": str(port)}
    older = subprocess.Popen(
        [sys.executable, "-c", OLDER], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    first = started(0, port, f"--report-dir={tmp_path / 'run'}", PREFLIGHT_JOIN_SECONDS="30")
    said = [rank.communicate(timeout=60)[0] for rank in (first, older)]
    assert [first.returncode, older.returncode] == [3, 3], said
    name = socket.gethostname()
    for each in said:
        assert f"preflight: {__version__} on {name}, 0.0.9 on {name}, and they do not understand each other" in each
    assert "Traceback" not in "".join(said)
