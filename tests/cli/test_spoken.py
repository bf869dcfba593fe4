"""Does --help speak Chinese where it is asked to, and English elsewhere?"""

from __future__ import annotations

import argparse

import pytest

from preflight.cli.main import run
from preflight.cli.spoken import tell
from preflight.report.language import Language


def test_every_heading_and_help_is_said():
    """Those of a verb below as well."""
    parser = argparse.ArgumentParser(description="Show what each node is, as a table or as JSON.")
    verb = parser.add_subparsers().add_parser("facts", help="Show the version.")
    verb.add_argument("--out", help="The folder of the report.")
    tell(parser, Language("zh"))
    assert parser.description == "以表格或 JSON 显示每个节点的配置与状态。"
    assert "报告目录。" in verb.format_help()


@pytest.mark.parametrize(("words", "locale"), [(["--lang", "zh"], "C"), (["--lang=zh"], "C"), ([], "zh_CN.UTF-8")])
def test_help_speaks_the_language_asked_for(capsys, monkeypatch, words: list[str], locale: str):
    """By the option, or by the locale."""
    monkeypatch.setenv("LC_ALL", locale)
    assert run(["facts", *words, "--help"]) == 0
    said = capsys.readouterr().out
    assert "以表格或 JSON 显示每个节点的配置与状态。" in said
    assert "preflight facts --hosts=node3 --json=node3.json" in said


def test_english_wins_over_the_locale(capsys, monkeypatch):
    """--lang en is what a script that reads the text gives."""
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert run(["explain", "network.mtu_is_the_same_on_every_node", "--lang", "en"]) == 0
    assert "has the same MTU" in capsys.readouterr().out
    assert run(["explain", "network.mtu_is_the_same_on_every_node"]) == 0
    assert "训练网卡的 MTU" in capsys.readouterr().out
