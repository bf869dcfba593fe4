"""On real hosts over ssh: is a gate that is certified not measured again, and is it taken back by a change?"""

import json
import re
import sys

import pytest

from tests.e2e import thresholds
from tests.lab.spaces import call

BENCH = ("--op=sendrecv", "-b", "64K", "--iters=6", "--ranks-per-node=1", "--reuse=6h", "-v")


def test_what_was_measured_is_taken_over_until_something_changes(make_lab, tmp_path):
    """Said for each node with run and time, counted apart; connections are made anew; a variable takes it back."""
    lab = make_lab(2)
    words = [sys.executable, "-m", "preflight", "bench", "--hosts=node[1-2]", f"--python={sys.executable}", *BENCH]
    words.append(thresholds.for_any_bandwidth(tmp_path / "report"))

    def run(name, *more):
        folder = tmp_path / name
        state = {"XDG_STATE_HOME": str(tmp_path / "state")}
        done = lab.run([*words, *more, f"--report-dir={folder}"], timeout_s=120, env=state)
        return done, json.loads((folder / "report.json").read_text())

    done, first = run("first")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "reused" not in first["ledger"]
    assert first["notes"] == [
        "--reuse: measured again: no --reuse run of these hosts with these options is certified yet"
    ]

    done, again = run("again")
    assert done.returncode == 0, done.stdout + done.stderr
    assert again["bench"] == first["bench"]
    assert "bench" not in again["stages"]
    assert again["mesh"]["ok"] == 2
    assert "mesh" in again["stages"]
    proof = {"run": first["run"]["id"], "at": again["nodes"]["node2"]["proof"]["at"], "jobs": ["bench"]}
    assert [node["proof"] for node in again["nodes"].values()] == [proof, proof]
    proved = [finding for finding in again["findings"] if finding["proof"]]
    assert {finding["check"].split(".")[0] for finding in proved} == {"bench"}
    assert {finding["verdict"] for finding in proved} <= {"pass", "warn"}
    assert again["ledger"]["reused"] == sum(len(finding["nodes"]) for finding in proved) > 0
    said = " ".join(done.stdout.split())
    assert f"proved bench: not measured in this run, proved at {proof['at']} by run {proof['run']}" in said

    lab["node2"].write_file("/etc/nccl.conf", "NCCL_SOCKET_IFNAME=none0\n")
    done, changed = run("changed")  # a variable that keeps the bench from starting, so that the test need not wait
    assert done.returncode == 1, done.stdout + done.stderr
    assert "reused" not in changed["ledger"]
    (note,) = [note for note in changed["notes"] if note.startswith("--reuse")]
    assert note.startswith(
        "--reuse: measured again: node2: environment.variables.NCCL_SOCKET_IFNAME.value was not there"
    )


RATE_RULE = """table inet preflight_lab_rate {
  chain input {
    type filter hook input priority 0; policy accept;
    iifname "eth0" meta length > 1000 limit rate over 4 mbytes/second burst 64 kbytes drop
  }
}
"""


def slow_queue(host):
    """What the node sends is held to a twentieth."""
    host.shape(egress="50mbit", ingress="1gbit")


def slow_rule(host):
    """A rule of its packet filter drops what comes above a rate."""
    call([*host.space.enter("net"), "nft", "-f", "-"], text=RATE_RULE)


def slow_switch(host):
    """The switch holds what it gives to the node to a twentieth, which nothing on the node shows."""
    host.shape(egress="1gbit", ingress="50mbit")


@pytest.mark.parametrize(
    ("plant", "why"),
    [
        (slow_queue, r"node2: network\.interfaces\.eth0\.shaping was tbf 1000 Mbit/s, is tbf 50 Mbit/s"),
        (slow_rule, r"node2: network\.rate_limits was , is preflight_lab_rate/input [0-9a-f]{8}"),
        (slow_switch, r"a burst node1 to node2 carries 0\.00\d+ GB/s, it was 0\.1\d+"),
    ],
)
def test_a_path_that_became_slow_is_measured_again(make_lab, tmp_path, plant, why):
    """A queue and a rule of the packet filter are facts; what is neither, a burst over every path shows."""
    lab = make_lab(2)
    words = [sys.executable, "-m", "preflight", "bench", "--hosts=node[1-2]", f"--python={sys.executable}", *BENCH]
    words.append(thresholds.for_any_bandwidth(tmp_path / "report"))

    def run(name):
        state = {"XDG_STATE_HOME": str(tmp_path / "state")}
        done = lab.run([*words, f"--report-dir={tmp_path / name}"], timeout_s=120, env=state)
        return done, json.loads((tmp_path / name / "report.json").read_text())

    done, _ = run("first")
    assert done.returncode == 0, done.stdout + done.stderr
    _, same = run("same")
    assert same["ledger"]["reused"]
    plant(lab["node2"])
    _, changed = run("changed")
    assert "reused" not in changed["ledger"]
    (note,) = [note for note in changed["notes"] if note.startswith("--reuse: measured again")]
    assert re.search(why, note), note
