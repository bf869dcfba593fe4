"""Do the nodes judge themselves, without anybody who logs in, when every rank of a job runs preflight?"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from pathlib import Path
from shutil import which

import pytest
import yaml

from preflight.cli.clouds import CLOUDS
from preflight.launch.write import write_files
from tests.cli.test_clouds import variables
from tests.lab import faults, together
from tests.lab.lab import Lab
from tests.lab.spaces import ENVIRONMENT
from tests.launch.nodes import cluster as nodes

REACH = Path(__file__).parents[2] / "checks" / "test_reach.py"
RUN = ["run", "--hosts=torchrun", "--profile=quick"]


@pytest.fixture(scope="module")
def lab(lab_is_possible):
    """Three hosts."""
    with Lab.create(3) as made:
        yield made


def found(report):
    """What is not well: (check, verdict, nodes)."""
    told = json.loads((report / "report.json").read_text())["findings"]
    return {
        (each["check"], each["verdict"], tuple(each["nodes"]))
        for each in told
        if each["verdict"] not in ("pass", "skip") and not each["blocked_by"]
    }


def test_under_torchrun_a_fault_is_found_and_every_rank_leaves_with_the_verdict(lab):
    """torchrun makes 1 of every code but 0; nothing is left on a host."""
    report = lab.shared / "torchrun"
    before = lab.residue()
    with faults.mtu(lab["node2"], 1400):
        left = together.run(lab, [*RUN, f"--report-dir={report}"], by_torchrun=True)
    assert [each.code for each in left] == [1, 1, 1], left
    assert ("network.mtu_is_the_same_on_every_node", "fail", ("node2",)) in found(report)
    assert all("exit code 1; rank 0 has the report" in each.output for each in left[1:])
    assert ours(lab.left_since(before)) == []


@pytest.mark.skipif(not which("mpirun"), reason="needs Debian's openmpi-bin")
def test_the_ranks_of_mpirun_judge_their_nodes(lab):
    """One a node, nobody told where rank 0 is: mpirun's machine; it leaves with the code of its ranks."""
    report = lab.shared / "mpirun"
    before = lab.residue()
    words = ["mpirun", "--allow-run-as-root", "--host=node1,node2,node3", "--map-by=ppr:1:node"]
    words = [word for each in words for word in each.split("=")]
    with faults.mtu(lab["node2"], 1400):
        argv = [*words, sys.executable, "-m", "preflight", *RUN, f"--report-dir={report}"]
        (left,) = together.end([together.run_words(lab.hosts[0], argv)])
    assert left.code == 1, left
    assert ("network.mtu_is_the_same_on_every_node", "fail", ("node2",)) in found(report)
    assert ours(lab.left_since(before)) == []


@pytest.mark.parametrize(
    "cloud", [name if name == "AWS Batch" else pytest.param(name, marks=pytest.mark.long) for name in CLOUDS]
)
def test_the_nodes_of_a_cloud_judge_themselves_by_what_it_tells_each(lab, cloud):
    """One container a node, with the cloud's own variables and nothing of a launcher."""
    report = lab.shared / cloud.replace(" ", "-")
    argv = [sys.executable, "-m", "preflight", *RUN, f"--report-dir={report}"]
    usual = {**ENVIRONMENT, "PATH": together.PATH}
    with faults.mtu(lab["node2"], 1400):
        left = together.end(
            [
                together.run_words(host, argv, {**usual, **variables(cloud, place, [each.name for each in lab.hosts])})
                for place, host in enumerate(lab.hosts)
            ]
        )
    assert [each.code for each in left] == [1, 1, 1], left
    assert ("network.mtu_is_the_same_on_every_node", "fail", ("node2",)) in found(report)


def test_a_node_that_never_comes_is_named_and_the_others_are_judged(lab):
    """Within the time for it; the code is the same everywhere."""
    report = lab.shared / "absent"
    left = together.run(lab, [*RUN, f"--report-dir={report}"], absent=["node3"], join_seconds=6)
    assert [each.code for each in left] == [3, 3], left
    assert found(report) == {("reach.every_node_answers", "error", ("rank2",))}
    assert "rank 2 did not join" in (report / "report.md").read_text()


NOT_MET = "is not in this meeting: it came when the others had met, or another process came as the same rank"


WAITS = '''
import os, time
def test_waits(cluster):
    """Somebody comes.

    Fix: come.
    """
    open("{begun}", "w").close()
    while not os.path.exists("{go_on}"):
        time.sleep(0.05)
'''
COMES_LATE = """
import os, sys, time
if "serve" in sys.orig_argv:
    import torch.distributed
    open("{ready}", "w").close()
    while not os.path.exists("{come}"):
        time.sleep(0.05)
"""


def test_a_node_that_comes_when_the_others_have_met_is_told_and_runs_nothing(lab, patience):
    """They were not made to wait: it is named as absent there, and has no verdict itself."""
    report, check = lab.shared / "late", lab.shared / "test_waits.py"
    ready, begun, come, go_on = (lab.shared / name for name in ("ready", "begun", "come", "go-on"))
    check.write_text(WAITS.format(begun=begun, go_on=go_on))
    before = lab.residue()
    words = [*RUN, f"--report-dir={report}", f"--deadline={100 * patience:.0f}"]
    # It has imported torch before: nobody waits for that while the others are kept in their run.
    with faults.python_site(lab["node3"], COMES_LATE.format(ready=ready, come=come)):
        late = together.start(lab, lab["node3"], words, join_seconds=6)
        assert within(60 * patience, ready.exists)
        met = [
            together.start(lab, host, [*words, "--", str(REACH), str(check)], join_seconds=6) for host in lab.hosts[:2]
        ]
        assert within(60 * patience, begun.exists)
        come.touch()
        said = next((line for line in late.stdout if NOT_MET in line), "")
        go_on.touch()
        left = together.end([*met, late])
    assert said.startswith("preflight: rank 2 on node3 is not in"), left
    assert [each.code for each in left] == [3, 3, 3], left
    assert found(report) == {("reach.every_node_answers", "error", ("rank2",))}
    assert ours(lab.left_since(before)) == []


def within(seconds, holds):
    """Whether it comes to hold in this time."""
    until = time.monotonic() + seconds
    while not holds() and time.monotonic() < until:
        time.sleep(0.05)
    return holds()


def test_a_rank_that_comes_twice_is_judged_once(lab):
    """As where a launcher started it again: one of its processes is met, the other one ends without a verdict."""
    before = lab.residue()
    words = [*RUN, f"--report-dir={lab.shared / 'twice'}"]
    twice = [together.start(lab, lab["node2"], words) for _ in range(2)]
    left = together.end([*twice, *(together.start(lab, lab[name], words) for name in ("node1", "node3"))])
    assert [each.code for each in left[2:]] == [0, 0], left
    assert sorted(each.code for each in left[:2]) == [0, 3], left
    (other,) = (each for each in left[:2] if each.code == 3)
    assert f"rank 1 on node2 {NOT_MET}" in other.output
    assert ours(lab.left_since(before)) == []


def test_a_node_that_is_lost_in_mid_run_costs_its_own_verdicts(lab):
    """Its agent ends with its rank, and the others leave with the code that this gives."""
    report = lab.shared / "lost"
    before = lab.residue()
    words = ["run", "--hosts=torchrun", f"--report-dir={report}", "--deadline=100"]
    started = [together.start(lab, host, words) for host in lab.hosts]
    lost = lab["node3"].space
    deadline = time.monotonic() + 60
    while len(agents := [pid for pid in lost.members() if b"TASK" in _words(pid)]) < 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert agents
    time.sleep(1.5)
    for pid in lost.members():
        if b"meeting" in _words(pid):
            lab["node3"].signal(pid, signal.SIGKILL)
    left = together.end(started)
    assert left[0].code == left[1].code == 3, left
    assert any("node3" in nodes for _, _, nodes in found(report))
    assert ours(lab.left_since(before)) == []


def test_the_pods_of_a_written_manifest_judge_together(lab):
    """By the very words of their init containers, with the index that Kubernetes puts in, and pod 0 found by name."""
    manifest = write_files("k8s", nodes(3, gpus=0), folder="/x", program=("train.py",))["train.yaml"]
    job = next(document for document in yaml.safe_load_all(manifest) if document["kind"] == "Job")
    command = job["spec"]["template"]["spec"]["initContainers"][0]["command"]
    with contextlib.ExitStack() as planted:
        for host in lab.hosts:
            named = host.space.root("/etc/hosts").read_text() + f"{lab.hosts[0].address} train-0.train\n"
            planted.enter_context(host.write_file("/etc/hosts", named))
        planted.enter_context(faults.mtu(lab["node2"], 1400))
        left = together.end(
            [
                together.run_words(host, [word.replace("$(JOB_COMPLETION_INDEX)", str(index)) for word in command])
                for index, host in enumerate(lab.hosts)
            ]
        )
    assert [each.code for each in left] == [1, 1, 1], left
    assert "network.mtu_is_the_same_on_every_node" in left[0].output


def ours(left):
    """What preflight left on the hosts, beside its report and what torchrun leaves even when all is well."""
    paths = [path for paths in left.values() for path in paths]
    return [path for path in paths if "torchelastic" not in path and "/shared/" not in path]


def _words(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""
