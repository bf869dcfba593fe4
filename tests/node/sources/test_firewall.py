"""Which rule of a packet filter is told for a port, from what nft and iptables-save print?"""

from __future__ import annotations

import pytest

from preflight.node.sources import firewall
from preflight.node.sources.firewall import Packet

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
        ("accept", "ip saddr 10.0.0.3 tcp dport >= 1024 reject with icmp admin-prohibited", None),
        ("accept", "tcp dport >= 1024 tcp dport != 29000-30000 drop", []),
        ("accept", "tcp flags syn / fin,syn,rst,ack tcp dport 29500 drop", None),
        ("accept", "tcp flags & (fin | syn | rst | ack) == syn tcp dport 29500 drop", None),
        ("accept", "tcp flags syn,ack / syn,ack tcp dport 29500 drop", []),
        ("accept", "tcp flags != syn / fin,syn,rst,ack ct state new drop", []),
        ("accept", "tcp flags { syn | ack, fin } drop", []),
        ("accept", "ct state vmap { invalid : drop, established : accept }", []),
        ("accept", "ct state invalid drop", []),
    ],
)
def test_the_rule_of_nft_is_told(policy, rule, told):
    """A rule that names the port, else one for all, else the policy; what lets the port in ends the search."""
    found = firewall.of_nft(NFT % (policy, rule), Packet("request", "input", 29500))
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
    found = firewall.of_iptables(SAVED % (policy, rule), Packet("request", "input", 29500))
    assert [one["rule"] for one in found] == ([rule] if told is None else told)


def test_a_rule_on_the_way_out_is_told_where_the_node_connects():
    """A chain of the other direction is not looked at."""
    text = NFT.replace(
        "priority filter; policy accept;\n\t}", "priority filter; policy accept;\n\t\ttcp dport 29500 drop\n\t}"
    )
    assert [
        one["rule"] for one in firewall.of_nft(text % ("accept", "accept"), Packet("request", "output", 29500))
    ] == ["tcp dport 29500 drop"]
    assert firewall.of_nft(text % ("accept", "accept"), Packet("request", "input", 29500)) == []


def test_the_program_that_wrote_a_rule_is_named():
    """ufw and firewalld are known by their chains: their own commands undo it."""
    ufw = ":INPUT DROP [0:0]\n-A ufw-user-input -p tcp -m tcp --dport 29500 -j DROP\n"
    assert firewall.of_iptables(ufw, Packet("request", "input", 29500))[0]["tool"] == "ufw"
    text = NFT % ("accept", "reject with icmpx admin-prohibited")
    firewalld = text.replace("inet filter", "inet firewalld").replace("chain input", "chain filter_INPUT")
    assert firewall.of_nft(firewalld, Packet("request", "input", 29500))[0]["tool"] == "firewalld"


ANSWERS = [
    ("accept", "tcp flags syn,ack / syn,ack tcp sport >= 1024 drop", True),
    ("accept", "tcp flags & (syn | ack) == (syn | ack) drop", True),
    ("accept", "tcp sport 29500 drop", True),
    ("accept", "ct state established drop", True),
    ("accept", "ct direction reply drop", True),
    ("accept", "tcp dport >= 1024 reject with icmp port-unreachable", True),
    ("accept", "tcp dport 40000 drop", False),  # the other end has port 41000
    ("accept", "tcp flags syn / fin,syn,rst,ack drop", False),
    ("accept", "ct state new drop", False),
    ("accept", "ct state invalid drop", False),
    ("accept", "tcp sport 22 drop", False),
    ("drop", "tcp dport 22 accept", True),
]


@pytest.mark.parametrize(("policy", "rule", "is_told"), ANSWERS)
def test_what_drops_the_answers_is_told(policy, rule, is_told):
    """Of the answer to a request the listening port is the one that it comes from."""
    text = NFT.replace("\t\tct state established,related accept\n", "") % (policy, rule)
    found = firewall.of_nft(text, Packet("answer", "input", 29500, 41000))
    assert [one["rule"] for one in found] == ([] if not is_told else ["policy drop" if policy == "drop" else rule])


@pytest.mark.parametrize(("policy", "rule", "_is_told"), ANSWERS)
def test_a_filter_that_lets_its_own_connections_in_drops_no_answer(policy, rule, _is_told):
    """What stands behind the line for established connections is of others."""
    assert firewall.of_nft(NFT % (policy, rule), Packet("answer", "input", 29500, 41000)) == []
    mapped = NFT.replace(
        "ct state established,related accept", "ct state vmap { invalid : drop, established : accept }"
    )
    assert firewall.of_nft(mapped % (policy, rule), Packet("answer", "input", 29500, 41000)) == []


def test_rules_before_the_filter_are_told():
    """Raw tables and a card's own hook see a packet first."""
    for kind, family in (("prerouting", "inet"), ("ingress", "netdev")):
        text = f"table {family} site {{\n\tchain first {{\n\t\ttype filter hook {kind} priority -300; policy accept;\n"
        text += "\t\ttcp dport >= 1024 drop\n\t}\n}\n"
        assert [one["place"] for one in firewall.of_nft(text, Packet("request", "input", 29500))] == [
            f"{family} site first"
        ]
        assert firewall.of_nft(text, Packet("request", "output", 29500)) == []
    raw = "*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -p tcp -m tcp --dport 29500 -j DROP\nCOMMIT\n"
    assert len(firewall.of_iptables(raw + SAVED % ("ACCEPT", ""), Packet("request", "input", 29500))) == 1


@pytest.mark.parametrize(
    ("rule", "kinds"),
    [
        ("-A OUTPUT -p tcp -m tcp --sport 1024:65535 --tcp-flags SYN,ACK SYN,ACK -j DROP", ["answer"]),
        ("-A OUTPUT -p tcp -m tcp --dport 29500 --tcp-flags FIN,SYN,RST,ACK SYN -j REJECT", ["request"]),
        ("-A OUTPUT -p tcp -m tcp ! --dport 22 -m conntrack --ctstate ESTABLISHED -j DROP", ["data"]),
        ("-A OUTPUT -p tcp -m tcp ! --tcp-flags FIN,SYN,RST,ACK SYN -m state --state NEW -j DROP", []),
        ("-A OUTPUT -p tcp -m tcp --tcp-flags FIN,SYN,RST,PSH,ACK,URG NONE -j DROP", []),
    ],
)
def test_a_line_of_iptables_is_of_the_packets_that_it_names(rule, kinds):
    """By flags, state and either port."""
    text = SAVED % ("ACCEPT", rule)
    assert [
        kind for kind in ("request", "answer", "data") if firewall.of_iptables(text, Packet(kind, "output", 29500))
    ] == kinds
