"""Are devices, rights and networks named that keep a pod from what its programs need?"""

from __future__ import annotations

import pytest

from preflight.launch.rules.check import check_texts
from tests.launch import truth

CASES = {
    case.name: case.texts["job.yaml"]
    for case in truth.cases()
    if case.source == "programs.txt" and "job.yaml" in case.texts
}
ADAPTERS = "the host's adapters beside the plugin's"
RULES = ("devices_come_from_their_plugin", "launcher_reaches_every_host", "containers_share_the_network")


def told(text):
    """Which of the rules are broken."""
    return [one.check.partition(".")[2] for one in check_texts({"job.yaml": text})[0] if one.check[7:] in RULES]


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        (ADAPTERS, "image: r/x:1\n", "image: r/x:1\n            securityContext: {privileged: true}\n"),
        (ADAPTERS, "path: /dev/infiniband", "path: /data"),
        ("sshd in pods whose rights are dropped", "drop: [ALL]", "drop: [NET_RAW]"),
        ("sshd in pods whose rights are dropped", "runAsUser: 0", "runAsUser: 1000"),
        ("the daemon of TCPXO in the network of the pod", "gpudirect-tcpxo/tcpgpudmarxd-dev", "other/daemon"),
    ],
)  # fmt: skip
def test_one_right_thing_makes_it_good(name, before, after):
    """Each case is told, and is not where this one thing is otherwise."""
    assert before in CASES[name]
    assert len(told(CASES[name])) == 1
    assert told(CASES[name].replace(before, after)) == []
