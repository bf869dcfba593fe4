"""Does a pull request show what fails first, as code that cannot act, within GitHub's limit?"""

from __future__ import annotations

import re

import pytest

from preflight.judge.ledger.findings import Finding, Verdict
from preflight.report.formats.markdown import SIZE_LIMIT_BYTES, block, cell, code, markdown_text
from preflight.report.language import Language
from preflight.report.material import Material


def test_failures_come_first_with_node_cause_and_fix(planted):
    """Then what follows, then counts, figures, nodes and the run."""
    text = markdown_text(Material(planted))
    order = [
        "## ❌ preflight: NO-GO",
        "### Fails",
        "**`network.mtu_is_the_same_on_every_node`** on `node3`",
        "9000 on node[1-2], 1500 on node3",
        "Fix:",
        "ip link set dev",
        "### Not measured",
        "6 checks on `all 3 nodes`: `not started: network.mtu_is_the_same_on_every_node on node3`",
        "### All checks",
        "| ✅ pass | 30 |",
        "- ⏭ 12 checks on `all 3 nodes`: `no GPU on any node`",
        "### Measured",
        "busbw",
        "| `node3` | `10.0.0.3` | ❌ fail |",
        "preflight run --hosts 'node[1-3]'",
    ]
    places = [text.index(words) for words in order]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("a", "`a`"),
        ("", "`''`"),
        (" ", "`' '`"),
        ("a`b", "``a`b``"),
        ("`", "`` ` ``"),
        ("``a", "``` ``a ```"),
        (" a", "`  a `"),
        ("a\nb", r"`a\nb`"),
    ],
)
def test_a_code_span_holds_any_text(text, span):
    """The fence is longer than any run of backticks inside."""
    assert code(text) == span


def test_a_bar_does_not_split_a_cell():
    r"""Written \|, with a space between where a backslash would undo it."""
    assert cell("a|b") == "`a\\|b`"
    assert cell("a\\|b") == "`a\\ \\|b`"


def test_a_block_is_fenced_longer_than_what_it_holds():
    """Lines stay lines, fences of the text stay text."""
    assert block("a\n```\nb", indent="  ") == "  ````text\n  a\n  ```\n  b\n  ````\n"


def test_it_stays_below_the_limit_and_says_so(make_report):
    """Half a million words are cut at a whole block, with the failures still first."""
    names = tuple(f"node{number}" for number in range(512))
    findings = [
        Finding(f"a.b{number}", Verdict.FAIL, (name,), f"{name} " + "größer " * 600, "fix it")
        for number, name in enumerate(names)
    ]
    text = markdown_text(Material(make_report(*findings, size=513)))
    assert SIZE_LIMIT_BYTES // 2 < len(text.encode()) <= SIZE_LIMIT_BYTES
    assert text.startswith("## ❌ preflight: NO-GO")
    assert text.endswith("see `report.json`.\n")
    assert text.count("```text") * 2 == text.count("```")


def test_in_chinese_verdicts_counts_and_nodes_are_chinese(planted):
    """In the table of all checks, in the list of what was skipped, and at each node."""
    text = markdown_text(Material(planted, language=Language("zh")))
    assert "| ✅ 通过 | 30 |" in text
    assert "- ⏭ 12 项检查 · `全部 3 个节点`：" in text.replace("`: `", "`：`")
    assert "| `node3` | `10.0.0.3` | ❌ 不通过 |" in text
    few = [line for line in text.splitlines() if re.search(r"all \d+ nodes|\d+ checks?\b", line)]
    assert few == []
