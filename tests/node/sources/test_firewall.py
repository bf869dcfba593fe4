"""Which rule of a packet filter is told for a port, from what nft and iptables-save print?"""

from __future__ import annotations

import pytest

from preflight.node.sources import firewall

NFT = """table inet filter {
	chain input {
		type filter hook input priority filter; policy %s;
		iif "lo" accept
		ct state established,related accept
		%s
	}

	chain output {
		type filter hook output priority filter; policy accept;
	}
}
"""
SAVED = """*filter
:INPUT %s [0:0]
:OUTPUT ACCEPT [0:0]
-A INPUT -i lo -j ACCEPT
-A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT
%s
COMMIT
"""


@pytest.mark.parametrize(
    ("policy", "rule", "told"),
    [
        ("accept", "tcp dport 29500 counter packets 3 bytes 180 drop # handle 4", ["tcp dport 29500 drop"]),
        ("accept", "tcp dport { 22, 29400-29600 } reject with tcp reset", None),
        ("accept", "ip saddr 10.0.0.0/8 tcp dport 29500 drop", None),
        ("accept", "udp dport 29500 drop", []),
        ("accept", "tcp dport 29501 drop", []),
        ("accept", "tcp dport > 1024 drop", None),
        ("accept", "tcp dport >= 29500 reject", None),
        ("accept", "tcp dport > 29500 drop", []),
        ("accept", "tcp dport <= 29500 drop", None),
        ("accept", "tcp dport < 1024 drop", []),
        ("accept", "tcp dport != 29500 drop", []),
        ("accept", "tcp dport != 22 drop", None),
        ("drop", "tcp dport 22 accept", ["policy drop"]),
        ("drop", "tcp dport { 22, 29500 } accept", []),
        ("accept", "reject with icmpx admin-prohibited", None),
    ],
)
def test_the_rule_of_nft_is_told(policy, rule, told):
    """A rule that names the port, else one for all, else the policy; what lets the port in ends the search."""
    found = firewall.of_nft(NFT % (policy, rule), 29500, "input")
    assert [one["rule"] for one in found] == ([rule] if told is None else told)
    assert all((one["tool"], one["place"]) == ("nft", "inet filter input") for one in found)


@pytest.mark.parametrize(
    ("policy", "rule", "told"),
    [
        ("ACCEPT", "-A INPUT -p tcp -m tcp --dport 29500 -j DROP", None),
        ("ACCEPT", "-A INPUT -p tcp -m multiport --dports 22,29400:29600 -j REJECT", None),
        ("ACCEPT", "-A INPUT -p tcp -m tcp --dport 22 -j DROP", []),
        ("ACCEPT", "-A OUTPUT -p tcp -m tcp --dport 29500 -j DROP", []),
        ("DROP", "-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT", ["policy DROP"]),
        ("DROP", "-A INPUT -p tcp -m tcp --dport 29500 -j ACCEPT", []),
        ("ACCEPT", "-A INPUT -j REJECT --reject-with icmp-host-prohibited", None),
    ],
)
def test_the_rule_of_iptables_is_told(policy, rule, told):
    """The same of iptables-save."""
    found = firewall.of_iptables(SAVED % (policy, rule), 29500, "input")
    assert [one["rule"] for one in found] == ([rule] if told is None else told)


def test_a_rule_on_the_way_out_is_told_where_the_node_connects():
    """A chain of the other direction is not looked at."""
    text = NFT.replace(
        "priority filter; policy accept;\n\t}", "priority filter; policy accept;\n\t\ttcp dport 29500 drop\n\t}"
    )
    assert [one["rule"] for one in firewall.of_nft(text % ("accept", "accept"), 29500, "output")] == [
        "tcp dport 29500 drop"
    ]
    assert firewall.of_nft(text % ("accept", "accept"), 29500, "input") == []


def test_the_program_that_wrote_a_rule_is_named():
    """ufw and firewalld are known by their chains: their own commands undo it."""
    ufw = ":INPUT DROP [0:0]\n-A ufw-user-input -p tcp -m tcp --dport 29500 -j DROP\n"
    assert firewall.of_iptables(ufw, 29500, "input")[0]["tool"] == "ufw"
    text = NFT % ("accept", "reject with icmpx admin-prohibited")
    firewalld = text.replace("inet filter", "inet firewalld").replace("chain input", "chain filter_INPUT")
    assert firewall.of_nft(firewalld, 29500, "input")[0]["tool"] == "firewalld"
