"""Has each thing one name in Chinese, in messages, pages and README alike?"""

from __future__ import annotations

import re

import pytest

from preflight.report.language.catalogue import catalogue
from tests.house import ROOT

ROW = re.compile(r"^\| ([A-Za-z ]+) \| ([^|]+) \| ([^|]*) ?\|$", re.MULTILINE)
CODE = re.compile(r"`[^`]*`|\"[^\"]*\"|\{\w+\}|--[\w-]+")
LEAST = 0.9  # some sentences say the thing without its name, and some words of English mean other things too
TERMS = [
    (english, chinese, tuple(filter(None, others.strip().split("、"))))
    for english, chinese, others in ROW.findall((ROOT / "docs/words.md").read_text(encoding="utf-8"))
    if english != "English"
]
OF_SEVERAL_MEANINGS = {"facts", "verdict", "mesh", "network interface", "RDMA adapter"}


def test_the_table_is_there():
    """With the words that a beginner meets first."""
    assert len(TERMS) >= 20
    assert {"rank", "node", "backend", "tensor", "collective", "bandwidth"} <= {english for english, _, _ in TERMS}


@pytest.mark.parametrize(
    ("english", "chinese", "others"), TERMS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_thing_has_one_name(english, chinese, others):
    """Nowhere another one, and in its sentences its own."""
    said = catalogue("zh")
    pages = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs/zh").glob("*.md")}
    pages["README.zh-CN.md"] = (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")
    assert [(msgid, told) for msgid, told in said.items() if any(other in told for other in others)] == []
    assert [(name, other) for name, text in pages.items() for other in others if other in text] == []
    if english in OF_SEVERAL_MEANINGS:
        return
    word = re.compile(rf"\b{english}s?\b")
    held = [told for msgid, told in said.items() if word.search(CODE.sub("", msgid))]
    lacking = [told for told in held if chinese not in told]
    assert len(lacking) <= (1 - LEAST) * len(held), lacking
