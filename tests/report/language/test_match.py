"""Is a finished message found again in the catalogue, whatever stands in its places?"""

from __future__ import annotations

import pytest

from preflight.report.language.catalogue import catalogue
from preflight.report.language.match import Matcher

CATALOGUE = {
    "{value} on {nodes}": "{nodes}：{value}",
    "mtu of the interface": "网卡的 MTU",
    "{count} check{s} passed": "{count} 项检查通过",
    "rank {rank} on {node} was killed": "{node} 上的 rank {rank} 被杀死",
    "MASTER_ADDR {given} is {addresses} on {name}{whose}": "{name} 上 MASTER_ADDR {given} 为 {addresses}{whose}",
    ", an address of {owners}": "，它是 {owners} 的地址",
    "the cable is broken": "线缆坏了",
    "proxies leave out neither name nor address of {node}": "代理设置中没有 {node} 的名字和地址",
    "{message}; wanted ACTIVE": "{message}；应为 ACTIVE",
    "The cables. Two of them.": "线缆。两根。",
    "{{}} in {place}": "{place} 中的 {{}}",
    "write device_map={{'': LOCAL_RANK}} there": "在那里写 device_map={{'': LOCAL_RANK}}",
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
        (
            "proxies leave out neither name nor address of node3; wanted ACTIVE",
            "代理设置中没有 node3 的名字和地址；应为 ACTIVE",
        ),
        ("1 check passed", "1 项检查通过"),
        ("21 checks passed", "21 项检查通过"),
        ("MASTER_ADDR a is 10.0.0.1 on node1", "node1 上 MASTER_ADDR a 为 10.0.0.1"),
        ("MASTER_ADDR a is b on node1, an address of node2", "node1 上 MASTER_ADDR a 为 b，它是 node2 的地址"),
        ("the cable\n  is broken", "线缆坏了"),
        ("write device_map={'': LOCAL_RANK} there", "在那里写 device_map={'': LOCAL_RANK}"),
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


@pytest.mark.parametrize(
    ("msgid", "text"),
    [
        ("{a} on {b}, {c} on {d}, {e} on {f} of it", "x on x, " * 400),
        ("said {first}{second} and ended", "said " + "a-" * 1900),
        ("said {first} and {second}; it ended", "said a" + " and b" * 600),
        ("{a} at {b} at {c} at all", "x" + " " * 3000 + "at x"),
    ],
)
def test_a_text_that_almost_fits_is_given_up_at_once(msgid: str, text: str):
    """A node may write what fits a sentence of ours but for its end: trying every way to divide it takes for ever."""
    assert Matcher({msgid: "{a}" if "{a}" in msgid else "{first}"}).say(text) == text


def test_a_text_longer_than_any_message_is_left_alone(matcher: Matcher):
    """Nobody waits for what a node wrote to be looked up word by word."""
    text = "the cable is broken; " * 400
    assert matcher.say(text) == text


@pytest.mark.parametrize("joint", [", ", " (", "; "])
def test_a_text_that_can_be_divided_in_too_many_ways_stays_as_it_is(joint: str):
    """Nine hundred letters of our own sentences, as a node may write them, would be looked at for ever."""
    known = catalogue("zh")
    text = joint.join(sorted(msgid for msgid in known if "{" not in msgid)[::151])
    assert Matcher(known).say(text) == text


def test_a_value_may_stand_in_two_places(matcher: Matcher):
    """Both places hold the same; a message where they differ is another one."""
    both = Matcher({"`describe {{pod}}` and `logs {{pod}}` show why": "见 `describe {{pod}}` 和 `logs {{pod}}`"})
    assert both.say("`describe n1` and `logs n1` show why") == "见 `describe n1` 和 `logs n1`"
    assert both.say("`describe n1` and `logs n2` show why") == "`describe n1` and `logs n2` show why"


@pytest.mark.parametrize("value", ["{{x}}", "{nodes}", "{0.__class__}", "%s", "\\g<0>", "\0" + "9" * 20 + "\0. xx"])
def test_a_value_is_never_a_template(matcher: Matcher, value: str):
    """Braces and references in what a node says are letters like all others."""
    assert matcher.say(f"MASTER_ADDR {value} is b on node1") == f"node1 上 MASTER_ADDR {value} 为 b"


def test_chinese_words_stand_without_a_space_between_them():
    """The spaces of a translation are for names and numbers of Latin letters."""
    matcher = Matcher({"{what} of {whole}": "{whole} 的 {what}", "the driver": "驱动", "the node": "节点"})
    assert matcher.say("the driver of the node") == "节点的驱动"
    assert matcher.say("mtu of eth0") == "eth0 的 mtu"
