"""Is a change told in one line, with what is noise called noise?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.judge.ledger.findings import Verdict
from preflight.report.changes import Changes, Drift, FactChange, FindingChange, change_lines, drift_text, heading
from preflight.report.language import Language
from preflight.said import joined, said

DRIFT = Drift("all_reduce", 1 << 20, "float32", "blocking", True, 1.0, 0.98, 1.02, 0.8, 0.79, 0.81)
BROKEN = FindingChange(("a.b",), ("node1", "node2"), Verdict.PASS, Verdict.FAIL, "it is off")


@pytest.mark.parametrize(
    ("low", "now", "high", "words"),
    [(0.79, 0.8, 0.81, "slower"), (0.9, 0.95, 0.98, "within the noise"), (1.1, 1.2, 1.3, "faster")],
)
def test_a_drift_counts_only_where_the_intervals_do_not_meet(low, now, high, words):
    """Touching ones are the noise of one run or the other."""
    drift = msgspec.structs.replace(DRIFT, now_low_gbytes_per_s=low, now_gbytes_per_s=now, now_high_gbytes_per_s=high)
    assert drift.trend == words
    assert drift_text(drift).endswith(words)
    assert f"1 (0.98 to 1.02) -> {now:.4g} ({low:.4g} to {high:.4g}) GB/s" in drift_text(drift)


def test_the_heading_counts_each_kind():
    """The earlier run by its id and verdict; nothing is said of what there is none of."""
    changes = Changes("r1", "2030", Verdict.PASS, new=(BROKEN,), facts=(FactChange("MTU", ("node1",), "1", "2"),))
    assert heading(changes) == "since run r1 (pass): 1 new, 1 fact changed"
    assert heading(Changes("r1", "2030", Verdict.WARN)) == "since run r1 (warn): nothing has changed"
    slower = Changes("r1", "2030", Verdict.WARN, bandwidth=(DRIFT,))
    assert heading(slower) == "since run r1 (warn): bandwidth slower"


def test_lines_are_cut_and_counted():
    """Each kind has so many lines at most; node names are folded, control characters shown as such."""
    facts = tuple(FactChange(f"f\x1b{number}", ("node1",), "1", "2") for number in range(5))
    changes = Changes("r1", "2030", Verdict.PASS, new=(BROKEN,), facts=facts, nodes_removed=("node9",))
    lines = list(change_lines(changes, most=2))
    assert lines[0] == "new       pass -> fail  a.b on node[1-2]: it is off"
    assert lines[1] == "fact      f\\x1b0 on node1: 1 -> 2"
    assert lines[3].strip() == "and 3 more: see report.json"
    assert lines[4:] == ["nodes     removed: node9"]


def test_changes_are_told_in_chinese():
    """Labels, verdicts, titles of facts and messages; each kind of line."""
    facts = (FactChange("driver", ("node1",), "1", "2"),)
    told = msgspec.structs.replace(
        BROKEN,
        message=said(
            "{what}: {message}",
            "mtu of the training interface (bytes)",
            joined([said("{value} on {names}", 9000, "node1"), said("{value} on {names}", 1400, "node2")], ", "),
        ),
    )
    changes = Changes("r1", "2030", Verdict.PASS, new=(told,), facts=facts, bandwidth=(DRIFT,), nodes_added=("n8",))
    chinese = Language("zh")
    assert list(change_lines(changes, most=2, language=chinese)) == [
        "新出现    通过 -> 不通过  a.b，node[1-2]：训练网卡的 MTU（字节）：node1：9000，node2：1400",
        "项目      node1 上的驱动: 1 -> 2",
        "busbw     all_reduce，1048576 字节：1（0.98 至 1.02） -> 0.8（0.79 至 0.81）GB/s，-20.0%，变慢",
        "节点      新增: n8",
    ]
    assert (
        chinese.say(heading(changes, chinese.verdict))
        == "与运行 r1（通过）相比：新出现 1 项，1 项配置或状态有变化，带宽变慢"
    )
