"""Is a rule about other addresses known not to be about these?"""

from __future__ import annotations

import pytest

from preflight.judge.tables.network.filters import may_match


@pytest.mark.parametrize(
    ("rule", "is_about"),
    [
        ("tcp dport 29500 drop", True),
        ("ip saddr 10.0.0.0/8 drop", True),
        ("ip saddr 10.0.0.0/8 ip daddr 192.168.0.0/16 drop", False),
        ("ip saddr != 10.0.0.0/8 drop", False),
        ("ip daddr { 10.0.0.2, 10.0.0.9 } drop", True),
        ("ip daddr {10.0.0.8,10.0.0.9} drop", False),
        ("ip saddr { 10.0.0.9 } drop", False),
        ("ip daddr { 10.0.0.0/31, 10.0.0.3-10.0.0.4 } drop", False),
        ("ip6 daddr fd00::/8 drop", False),
        ("ip daddr 10.0.0.3-10.0.0.9 drop", False),
        ("ip daddr 10.0.0.2-10.0.0.2 drop", True),
        ("ip saddr @blocked drop", True),
        ("-A INPUT -s 10.0.0.9/32 -j DROP", False),
        ("-A INPUT ! -d 10.0.0.2/32 -j DROP", False),
    ],
)
def test_a_rule_is_about_packets_between_two_addresses(rule, is_about):
    """From 10.0.0.1 to 10.0.0.2; a set whose members are not known may be."""
    assert may_match(rule, "10.0.0.1", "10.0.0.2") is is_about
