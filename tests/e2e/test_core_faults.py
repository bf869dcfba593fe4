"""Hosts that let nobody in, each for a reason of its own, and one without room: is each named, and nobody else?"""

from __future__ import annotations

import contextlib
import json
import sys
import time

from tests.bench.fault_plants import firewall, startup
from tests.lab import faults

DEADLINE_SECONDS = 60
FULL = ("/tmp", "/var/tmp", "/root")
# What the first error of each host says, with the others judged beside it.
UNREACHED = {
    "node3": ("timed out",),  # port 22 is dropped
    "node4": ("said nothing for 15 s",),  # the login stalls while it looks for keys
    "node5": ("no Python answered",),  # the login shell's startup file hangs
}


@contextlib.contextmanager
def no_room(host):
    """Folders for temporary files, and the home of the user, in which not a byte has room."""
    for folder in FULL:
        host.check(["mount", "-o", "remount,size=1m", folder])
        host.run(["dd", "if=/dev/zero", f"of={folder}/full", "bs=4k"])
        assert host.run(["sh", "-c", f"echo x > {folder}/more"]).returncode
    try:
        yield
    finally:
        for folder in FULL:
            host.check(["rm", "-f", f"{folder}/full", f"{folder}/more"])
            host.check(["mount", "-o", "remount,size=50%", folder])


def test_hosts_that_let_nobody_in_are_named_and_the_others_are_judged(make_lab, tmp_path):
    """A firewall, a stalled login and a hanging shell cost their host alone, and a full disk nothing: none is used."""
    lab = make_lab(hosts=6)
    report = tmp_path / "report"
    argv = [sys.executable, "-m", "preflight", "run", "--hosts=node[1-6]", f"--python={sys.executable}"]
    words = ["--profile=quick", f"--deadline={DEADLINE_SECONDS}", f"--report-dir={report}"]
    begun = time.monotonic()
    with contextlib.ExitStack() as planted:
        planted.enter_context(firewall(lab["node3"], "drop"))
        planted.enter_context(faults.login_stalls(lab["node4"]))
        planted.enter_context(startup("sleep 300\n")(lab["node5"]))
        planted.enter_context(no_room(lab["node6"]))
        done = lab.run([*argv, *words], timeout_s=DEADLINE_SECONDS + 30)
    document = json.loads((report / "report.json").read_text())
    bad = [finding for finding in document["findings"] if finding["verdict"] in {"fail", "error"}]

    assert time.monotonic() - begun < DEADLINE_SECONDS + 5
    assert done.returncode == document["exit_code"] == 3, done.stdout + done.stderr
    assert {name for finding in bad for name in finding["nodes"]} == UNREACHED.keys(), bad
    for node, words in UNREACHED.items():
        said = [f["message"] for f in bad if f["check"] == "reach.every_node_answers" and node in f["nodes"]]
        assert any(word in message for message in said for word in words), (node, said)
    judged = {name for f in document["findings"] if f["verdict"] == "pass" for name in f["nodes"]}
    assert {"node1", "node2", "node6"} <= judged
