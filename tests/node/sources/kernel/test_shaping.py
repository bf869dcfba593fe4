"""Does what the kernel holds packets to show as a fact, and does nothing of it move by itself?"""

import struct

import pytest

from preflight.node.sources.kernel import shaping
from tests.lab.spaces import call


def attribute(kind, data):
    """A struct rtattr."""
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def expression(name, *parts):
    """An expression of a rule."""
    data = b"".join(attribute(kind, value) for kind, value in parts)
    return attribute(1, attribute(1, name.encode() + b"\0") + attribute(2, data))


def rule(*expressions):
    """A rule of table t, chain c."""
    return attribute(1, b"t\0") + attribute(2, b"c\0") + attribute(4, b"".join(expressions))


PORT = expression("cmp", (1, b"port"))


def counted(packets):
    """What a rule has counted."""
    return expression("counter", (1, struct.pack("=Q", packets)))


@pytest.mark.parametrize(
    "limit",
    [
        expression("limit", (1, b"rate")),
        expression("numgen", (2, b"mod")),
        expression("match", (1, b"statistic\0"), (3, bytes(16))),
    ],
    ids=["limit", "numgen", "iptables"],
)
def test_a_rule_that_limits_is_a_fact_and_its_counters_are_not(limit):
    """Every other word of it counts."""
    said = shaping.limiting(rule(PORT, counted(1), limit))
    assert said.startswith("t/c ")
    assert shaping.limiting(rule(PORT, counted(2), limit)) == said
    assert shaping.limiting(rule(expression("cmp", (1, b"else")), counted(1), limit)) != said
    assert shaping.limiting(rule(PORT, counted(1))) == ""


def test_what_a_match_of_iptables_has_left_is_no_change():
    """Its rate is."""

    def match(rate, credit):
        held = struct.pack("=IIQ", rate, 5, credit)
        return shaping.limiting(rule(expression("match", (1, b"limit\0"), (3, held))))

    assert match(10, 1) == match(10, 2) != match(20, 2)


def test_a_rate_of_more_than_32_bits_is_read_from_its_own_attribute():
    """100 Gbit/s are more bytes a second than the older field holds."""
    parameters = attribute(1, struct.pack("=8xI24x", 0xFFFFFFFF))
    assert shaping.discipline("tbf", parameters) == "tbf 34359.7 Mbit/s"
    assert (
        shaping.discipline("tbf", parameters + attribute(4, struct.pack("=Q", 12_500_000_000))) == "tbf 100000 Mbit/s"
    )
    assert shaping.discipline("mq", b"") == "mq"


def test_many_queues_of_one_kind_are_one_word():
    """An adapter with 64 queues has 64 of them."""
    assert shaping.folded(["mq", *["fq_codel 00ff"] * 64]) == "64 x fq_codel 00ff, mq"
    assert len(shaping.folded([f"class {number}" for number in range(500)])) < 450


def test_a_kernel_without_the_module_is_not_asked(tmp_path):
    """Asking would load it, and leave it there."""
    (tmp_path / "modules").write_text("nf_conntrack 1 0 - Live 0x0\n")
    assert shaping.rate_limits(str(tmp_path)) == ""


@pytest.mark.lab
def test_the_kernel_of_a_lab_host_says_what_tc_and_nft_set(make_lab):
    """A queue with its rate, HTB's classes with theirs, and a rule that limits."""
    host = make_lab(1)["node1"]
    host.shape(egress="50mbit", ingress=None)
    code = "from preflight.node.sources.kernel import shaping as s\nprint(s.by_interface(), s.rate_limits('/proc'))"
    program = [*host.space.enter("net"), "python3", "-c", code]
    assert "'tbf 50 Mbit/s'" in call(program)
    tc = [*host.space.enter("net"), "tc"]
    call([*tc, "qdisc", "replace", "dev", "eth0", "root", "handle", "1:", "htb", "default", "1"])
    call(
        [
            *tc,
            "class",
            "add",
            "dev",
            "eth0",
            "parent",
            "1:",
            "classid",
            "1:1",
            "htb",
            "rate",
            "10mbit",
            "ceil",
            "30mbit",
        ]
    )
    text = "table inet t { chain c { type filter hook input priority 0; tcp dport 1 limit rate 5/second drop; }; }\n"
    call([*host.space.enter("net"), "nft", "-f", "-"], text=text)
    said = call(program)
    assert "class 10 Mbit/s to 30 Mbit/s, htb" in said
    assert " t/c " in said
