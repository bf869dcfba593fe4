"""Is an address at which a node does not reach itself found, with the rule that stops it?"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from preflight.node.subjects import itself
from tests.lab.fixtures import needs_lab, why_not

RULES = """
ip link set lo up
ip address add 10.9.9.1/32 dev lo
nft -f - <<'RULES'
table inet own {
  chain input {
    type filter hook input priority 0; policy accept;
    iifname != "lo" drop
    iif "lo" ip daddr 10.9.9.1 tcp dport >= 1024 drop
  }
}
RULES
exec "$0" -c "$1"
"""
ASK = """
import json
from preflight.node.subjects import itself
held = [{"address": one, "family": "inet"} for one in ("127.0.0.1", "10.9.9.1")]
print(json.dumps(itself.unreached([{"is_up": True, "addresses": held}], limit_s=0.3)))
"""


def interface(*addresses: str, is_up: bool = True) -> dict[str, object]:
    """An interface as the network's facts have it."""
    held = [{"address": one, "family": "inet6" if ":" in one else "inet"} for one in addresses]
    return {"is_up": is_up, "addresses": held}


def test_this_machine_reaches_itself():
    """By IPv4; an address that it does not have, or whose interface is down, is not asked for."""
    assert (
        itself.unreached([interface("127.0.0.1", "192.0.2.77", "fe80::1"), interface("192.0.2.78", is_up=False)]) == []
    )


def test_the_rule_that_keeps_a_node_from_itself_is_named():
    """In a network of its own: the address that the rule drops, and not the rule about other interfaces."""
    needs_lab(why_not())
    argv = ["unshare", "--net", "sh", "-c", RULES, sys.executable, ASK]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    rule = {"tool": "nft", "place": "inet own input", "rule": 'iif "lo" ip daddr 10.9.9.1 tcp dport >= 1024 drop'}
    expected = [{"address": "10.9.9.1", "why": "no answer", "rules": [rule]}]
    assert json.loads(done.stdout) == expected


@pytest.mark.parametrize("program", ["iptables"])
def test_a_rule_of_iptables_is_named_too(program):
    """Where the program is there."""
    needs_lab(why_not())
    if not shutil.which(program):
        pytest.skip(f"no {program} here")
    planted = "ip link set lo up; ip address add 10.9.9.1/32 dev lo; "
    planted += "iptables -A INPUT -i lo -d 10.9.9.1/32 -j REJECT --reject-with icmp-port-unreachable; "
    argv = ["unshare", "--net", "sh", "-c", f'{planted}exec "$0" -c "$1"', sys.executable, ASK]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert '"tool": "iptables", "place": "INPUT"' in done.stdout, done.stderr
