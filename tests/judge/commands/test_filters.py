"""Does the command for a packet filter let in what the nodes send each other, once, and nothing else?"""

from __future__ import annotations

import pytest

from preflight.facts.subjects.network import Address, Rule, Unreached
from preflight.testing import FakeRun, healthy
from tests.judge.commands.typed import as_root, typed

NAME = "names.every_node_reaches_itself"
BETWEEN = "10.0.0.0/24"


def stopped(run: FakeRun, *rules: Rule, address: str = "10.0.0.2") -> FakeRun:
    """A node that does not reach itself because of these rules."""
    return as_root(run).broken("node2", "network", unreached=(Unreached(address, "no answer", rules),))


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        (
            Rule("nft", "inet own input", "drop"),
            (
                f"nft list chain inet own input | grep -qF 'ip saddr {BETWEEN} ip daddr {BETWEEN} accept'"
                f" || nft insert rule inet own input ip saddr {BETWEEN} ip daddr {BETWEEN} accept"
            ),
        ),
        (
            Rule("iptables", "INPUT", "-A INPUT -j DROP"),
            (
                f"iptables -C INPUT -s {BETWEEN} -d {BETWEEN} -j ACCEPT 2>/dev/null"
                f" || iptables -I INPUT -s {BETWEEN} -d {BETWEEN} -j ACCEPT"
            ),
        ),
        (
            Rule("iptables", "mangle PREROUTING", "-A PREROUTING -j DROP"),
            (
                f"iptables -t mangle -C PREROUTING -s {BETWEEN} -d {BETWEEN} -j ACCEPT 2>/dev/null"
                f" || iptables -t mangle -I PREROUTING -s {BETWEEN} -d {BETWEEN} -j ACCEPT"
            ),
        ),
        (Rule("ufw", "ufw-user-input", "-A ufw-user-input -j DROP"), f"ufw prepend allow from {BETWEEN}"),
        (
            Rule("firewalld", "inet firewalld filter_IN", "drop"),
            f"firewall-cmd --zone=trusted --add-source={BETWEEN}",
        ),
        (Rule("nft", "ip6 own input", "drop"), None),
        (Rule("nft", "inet own $(reboot)", "drop"), None),
    ],
)
def test_what_nodes_send_each_other_goes_ahead_of_the_rule(rule, command):
    """In the chain that holds it, by the program that owns it; a chain that reads no such address gives none."""
    assert typed(stopped(healthy(), rule), NAME).get("node2") == command


def test_nodes_of_several_subnets_and_other_addresses_get_none():
    """One rule would not serve them."""
    rule = Rule("nft", "inet own input", "drop")
    apart = healthy().broken_interface("node3", addresses=(Address("10.5.0.3", 24, "inet"),))
    assert typed(stopped(apart, rule), NAME) == {}
    assert typed(stopped(healthy(), rule, address="127.0.0.1"), NAME) == {}
