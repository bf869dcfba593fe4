"""Is a finished message found again in the catalogue, whatever stands in its places?"""

from __future__ import annotations

import pytest

from preflight.report.language.match import Matcher

CATALOGUE = {
    "{value} on {nodes}": "{nodes}：{value}",
    "mtu of the interface": "网卡的 MTU",
    "{count} check{s} passed": "{count} 项检查通过",
    "rank {rank} on {node} was killed": "{node} 上的 rank {rank} 被杀死",
    "MASTER_ADDR {given} is {addresses} on {name}{whose}": "{name} 上 MASTER_ADDR {given} 为 {addresses}{whose}",
    ", an address of {owners}": "，它是 {owners} 的地址",
    "the cable is broken": "线缆坏了",
    "The cables. Two of them.": "线缆。两根。",
    "{{}} in {place}": "{place} 中的 {{}}",
}


@pytest.fixture(scope="module")
def matcher() -> Matcher:
    """One over a few sentences."""
    return Matcher(CATALOGUE)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("rank 3 on node2 was killed", "node2 上的 rank 3 被杀死"),
        ("mtu of the interface: 9000 on node[1-2], 1500 on node3", "网卡的 MTU：node[1-2]：9000，node3：1500"),
        ("1 check passed", "1 项检查通过"),
        ("21 checks passed", "21 项检查通过"),
        ("MASTER_ADDR a is 10.0.0.1 on node1", "node1 上 MASTER_ADDR a 为 10.0.0.1"),
        ("MASTER_ADDR a is b on node1, an address of node2", "node1 上 MASTER_ADDR a 为 b，它是 node2 的地址"),
        ("the cable\n  is broken", "线缆坏了"),
        ("the cable is broken.", "线缆坏了。"),
        ("The cables. Two of them. the cable is broken.", "线缆。两根。线缆坏了。"),
        ("{} in a.py", "a.py 中的 {}"),
        ("node7 said nothing", "node7 said nothing"),
        ("run `the cable is broken; x`", "run `the cable is broken; x`"),
        ("  the cable is broken ", "  线缆坏了 "),
    ],
)
def test_a_message_is_said_with_its_values(matcher: Matcher, message: str, told: str):
    """Values stand where the translation has them; what no sentence fits stays as it is."""
    assert matcher.say(message) == told


def test_text_of_a_node_is_no_sentence_of_ours(matcher: Matcher):
    """A msgid of one word does not swallow a paragraph that holds this word."""
    text = "sshd said, at length: this and that on every day, which nobody reads; really"
    assert matcher.say(text) == text
