"""Are more nodes than can be connected at a time all asked and connected, group by group?"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

import pytest

from preflight.reach.session.connection import HELLO_SECONDS
from preflight.reach.session.fleet import OF_A_COMMAND, OWN_FILES
from preflight.run.turns import groups
from tests import patience
from tests.bench.stub_cluster import cluster

NODES, FILES = 24, 150  # ten connections at a time


@pytest.mark.parametrize(("count", "most"), [(2, 10), (10, 9), (11, 10), (100, 7), (4999, 35)])
def test_every_node_is_in_one_group_and_none_is_alone(count, most):
    """Groups hold nodes from the whole list, and no more than asked for."""
    names = [f"node{number}" for number in range(count)]
    made = groups(names, most)
    assert sorted(name for group in made for name in group) == sorted(names)
    assert all(2 <= len(group) <= max(2, most) for group in made)
    assert all(abs(len(one) - len(made[0])) <= 1 for one in made)


@dataclass
class Done:
    """What one run cost the controller, and what it reported."""

    returncode: int
    output: str
    seconds: float
    deadline: int
    files_at_most: int
    memory_mib: float
    report: dict


def run(folder, *, nodes=NODES, faults=None, files=FILES, deadline=60):
    """One run over more nodes than the process may have connections to."""
    deadline = round(deadline * patience.of_this_machine())
    folder.mkdir(exist_ok=True)
    argv = [sys.executable, "-m", "preflight", "run", f"--hosts=node[1-{nodes}]", "--profile=quick"]
    with cluster(nodes, folder, faults=faults) as environment, (folder / "output").open("w") as output:
        begun = time.monotonic()
        process = subprocess.Popen(
            [*argv, f"--report-dir={folder}/report", f"--deadline={deadline}"],
            env={**os.environ, **environment},
            stdout=output,
            stderr=output,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)),  # noqa: PLW1509
        )
        late = threading.Timer(3 * deadline, process.kill)
        late.start()
        at_most = 0
        while not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            at_most = max(at_most, len(os.listdir(f"/proc/{process.pid}/fd")))
            time.sleep(0.01)
        late.cancel()
        seconds = time.monotonic() - begun
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    report = json.loads((folder / "report" / "report.json").read_text())
    said = (folder / "output").read_text()
    return Done(process.returncode, said, seconds, deadline, at_most, usage.ru_maxrss / 1024, report)


def blamed(report):
    """The nodes with anything but a pass."""
    found = [finding for finding in report["findings"] if finding["verdict"] not in ("pass", "skip")]
    return {name for finding in found for name in finding["nodes"]}


def test_with_few_files_all_nodes_are_judged_and_the_bad_ones_named(tmp_path):
    """Dead and lying ones cost nobody else a verdict; each node is connected with those of its group."""
    done = run(tmp_path, faults={"node5": "dead", "node6": "lying"})
    report = done.report
    assert done.returncode == 3, done.output
    assert blamed(report) == {"node5", "node6"}
    assert report["ledger"]["judged"] == report["ledger"]["expected"]
    assert report["mesh"]["ok"] == report["mesh"]["edges"] > 21
    assert report["mesh"]["rendezvous"]["tried"] == NODES - 3
    assert any("10 were visited at a time" in note for note in report["notes"])
    assert len(list((tmp_path / "report" / "facts").iterdir())) == NODES - 2


def test_files_and_memory_of_the_controller_are_bounded_by_the_fan_out(tmp_path):
    """Four times the nodes open no more files at the same fan-out, and a further node takes little memory."""
    few, many = (run(tmp_path / str(nodes), nodes=nodes) for nodes in (40, 160))
    assert (few.returncode, many.returncode) == (0, 0), few.output + many.output
    assert max(few.files_at_most, many.files_at_most) <= FILES - OWN_FILES + OWN_FILES // 2
    assert many.files_at_most <= few.files_at_most + OF_A_COMMAND * 2
    assert (many.memory_mib - few.memory_mib) / 120 <= few.memory_mib / 400


def test_launch_files_of_more_nodes_than_files_may_be_open_know_every_node(tmp_path):
    """Writing and checking visit as many at a time as they can; none is called unreached for want of a descriptor."""
    folder = tmp_path / "made"
    hosts = f"--hosts=node[1-{NODES}]"
    with cluster(NODES, tmp_path) as environment:

        def launch(*argv):
            return subprocess.run(
                [sys.executable, "-m", "preflight", "launch", *argv, hosts],
                env={**os.environ, **environment},
                capture_output=True,
                text=True,
                timeout=120 * patience.of_this_machine(),
                check=False,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES)),
            )

        wrote = launch("write", "--launcher=torchrun", f"--out={folder}")
        checked = launch("check", *map(str, sorted(folder.iterdir())))
    assert wrote.returncode == 0, wrote.stdout + wrote.stderr
    assert len(list(folder.iterdir())) == NODES
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "not reached" not in wrote.stderr + checked.stderr


def test_a_python_that_never_answered_is_told_as_what_may_be_left(tmp_path):
    """Nobody can say that it has ended; of the nodes that answered it is not said."""
    done = run(tmp_path, nodes=4, faults={"node3": "silent"}, files=1000, deadline=40)
    left = "never answered; what the login started there may still be running"
    assert [note for note in done.report["notes"] if left in note] == [f"node3: {left}"]
    assert blamed(done.report) == {"node3"}


def test_all_nodes_at_once_open_what_was_reckoned(tmp_path):
    """What a session takes of the files that may be open is what it is believed to take: no healthy node lacks them."""
    done = run(tmp_path, nodes=80, files=OWN_FILES + (OF_A_COMMAND + 5) * 80)
    assert done.returncode == 0, done.output
    assert not any("at a time" in note for note in done.report["notes"])
    assert 80 * OF_A_COMMAND <= done.files_at_most <= OWN_FILES + OF_A_COMMAND * 80


def test_three_percent_of_bad_nodes_cost_the_others_neither_verdict_nor_time(tmp_path):
    """Dead, silent, slow and lying ones are named, and nobody else; slow ones keep no group waiting but their own."""
    ways = ("dead", "silent", "slow", "lying", "silent", "slow")
    faults = {f"node{31 * (place + 1)}": way for place, way in enumerate(ways)}
    done = run(tmp_path, nodes=200, files=FILES, faults=faults, deadline=170)
    assert done.returncode == 3, done.output
    assert blamed(done.report) == set(faults)
    assert done.seconds < done.deadline
    assert done.report["ledger"]["judged"] == done.report["ledger"]["expected"]
    told = [path.stem for path in (tmp_path / "report" / "facts").iterdir()]
    assert {f"node{number}" for number in range(1, 201)} - set(told) == {
        name for name in faults if faults[name] != "slow"
    }


def test_the_first_nodes_are_waited_for_no_longer_than_the_others(tmp_path):
    """How soon nodes answer is not known when they are visited; once it is, it counts for them too."""
    done = run(tmp_path, nodes=60, files=FILES, faults={"node2": "silent"}, deadline=170)
    assert blamed(done.report) == {"node2"}
    assert done.report["stages"]["facts"] < HELLO_SECONDS
