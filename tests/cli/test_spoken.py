"""Does preflight speak Chinese where it is asked to, and English elsewhere?"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys

import pytest

from preflight.cli import facts
from preflight.cli.main import run
from preflight.cli.spoken import tell
from preflight.report.language import Language
from preflight.report.language.wrap import width_of
from preflight.said import said
from preflight.said.errors import BlockedBy
from preflight.testing import healthy
from tests.house import ROOT
from tests.run.test_stored import written


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


@pytest.mark.parametrize("words", [["--lang", "zh", "--help"], ["launch", "--lang=zh", "--help"]])
def test_the_language_may_stand_before_the_verb(capsys, words: list[str]):
    """And before the part of a verb; one behind it wins."""
    assert run(words) == 0
    assert "检查启动文件" in capsys.readouterr().out
    assert run(["--lang=zh", "explain", "network.mtu_is_the_same_on_every_node"]) == 0
    assert "训练网卡的 MTU" in capsys.readouterr().out
    assert run(["--lang=zh", "explain", "network.mtu_is_the_same_on_every_node", "--lang=en"]) == 0
    assert "has the same MTU" in capsys.readouterr().out


def test_examples_in_help_are_commands_in_every_language(capsys):
    """They are there to be pasted."""
    assert run(["report", "--lang=zh", "--help"]) == 0
    assert "\n  preflight report --list\n" in capsys.readouterr().out


def test_english_wins_over_the_locale(capsys, monkeypatch):
    """--lang en is what a script that reads the text gives."""
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert run(["explain", "network.mtu_is_the_same_on_every_node", "--lang", "en"]) == 0
    assert "has the same MTU" in capsys.readouterr().out
    assert run(["explain", "network.mtu_is_the_same_on_every_node"]) == 0
    assert "训练网卡的 MTU" in capsys.readouterr().out


@pytest.fixture(scope="module")
def spoken_run(tmp_path_factory):
    """A stored run with another MTU on node3, judged again in Chinese: its folder, exit code and summary."""
    stored, folder = tmp_path_factory.mktemp("stored"), tmp_path_factory.mktemp("spoken") / "report"
    written(healthy(3).broken_interface("node3", mtu=1400), stored)
    words = [sys.executable, "-m", "preflight", "run", f"--from={stored}", f"--report-dir={folder}", "--lang=zh"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    return folder, done


def test_the_summary_is_chinese_and_the_exit_code_the_same(spoken_run):
    """Verdict, message and fix; names, commands and figures as they are."""
    _, done = spoken_run
    assert done.returncode == 1, done.stderr
    assert "不可启动 (NO-GO)  3 个节点" in done.stdout
    assert "\n不通过 network.mtu_is_the_same_on_every_node  node3\n" in done.stdout
    assert not re.search(r"^(FAIL|ERROR|WARN|SKIP|PASS) ", done.stdout, re.MULTILINE)
    assert "训练网卡的 MTU（字节）：node[1-2]：9000，node3：1400" in done.stdout
    assert re.search(r"^ {9}.*ip link set dev eth0 mtu 9000", done.stdout, re.MULTILINE)
    assert "ssh node3 sudo ip link set dev eth0 mtu 9000" in done.stdout
    assert "退出码 1" in done.stdout


def test_the_page_is_chinese_and_report_json_is_not(spoken_run):
    """Programs read one language, people theirs."""
    folder, _ = spoken_run
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert '<html lang="zh">' in page
    assert "哪里有问题，怎么办" in page
    assert "1 项检查不通过" in page
    assert "What is wrong, and what to do" not in page
    assert "训练网卡的 MTU" in (folder / "report.md").read_text(encoding="utf-8")
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    told = [finding["message"] for finding in report["findings"] if finding["verdict"] == "fail"]
    assert told == ["mtu of the training interface (bytes): 9000 on node[1-2], 1400 on node3"]
    assert not re.search(r"[\u4e00-\u9fff]", json.dumps(report, ensure_ascii=False).replace("--lang=zh", ""))


def test_a_stored_run_is_shown_in_either_language(spoken_run, capsys):
    """What was judged in Chinese is English by `report`, and the other way round."""
    folder, _ = spoken_run
    assert run(["report", str(folder), "--lang=en"]) == 0
    assert "NO-GO  3 nodes" in capsys.readouterr().out
    assert run(["report", str(folder), "--lang=zh"]) == 0
    assert "不可启动 (NO-GO)" in capsys.readouterr().out
    assert run(["report", str(folder), "--lang=zh", "-v"]) == 0
    assert capsys.readouterr().out.startswith("不通过 network.mtu_is_the_same_on_every_node  node3\n通过   ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "--hots=node1"], "无法识别的参数：--hots=node1；你是否想写 --hosts？"),
        (["launch", "write"], "缺少必需的参数：--launcher, --out"),
        (["run", "--hosts=node1..3"], "'node1..3' 不是主机名；是否想写 'node[1-3]'？"),
        (["run", "node1"], "'node1' 不是文件；是否想写 --hosts=node1？"),
    ],
)
def test_a_wrong_word_is_told_in_chinese(capsys, monkeypatch, words, said):
    """A beginner's first screen, argparse's own sentences included; the exit code is the same."""
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert run(words) == 4
    assert said in capsys.readouterr().err


def test_the_table_of_facts_is_chinese_and_its_columns_stand_in_line():
    """Letters of two columns are counted as two; the values are as the nodes have them."""
    table = facts.spoken_table(healthy(2).cluster, Language("zh"))
    lines = table.partition("\n\n")[0].splitlines()
    starts = {width_of(line[: line.index(value)]) for line, value in ((lines[0], "node1"), (lines[2], "node1"))}
    assert starts == {len(lines[1].partition(" ")[0]) + 2}
    assert lines[2].startswith("主机名 ")
    assert "任何节点都没有报告：" in table


def test_the_share_of_what_was_expected_stays_in_its_brackets_in_chinese():
    """The label of a bar, and the column beside it."""
    shown = Language("zh").say(
        said("{name}: {value} ({percent} % of expected)", "all_reduce, float32, in place", 0.1106, 97)
    )
    assert shown == "all_reduce，float32，原地：0.1106（预期值的 97 %）"
    assert Language("zh").say("of expected (%)") == "占预期 (%)"


def test_a_check_that_is_blocked_says_by_what_in_chinese():
    """The reason belongs to the check that does not hold."""
    found = Language("zh").say(str(BlockedBy("software.torch_is_installed", detail="no torch")))
    assert found == "因 software.torch_is_installed 而无法判定：没有 torch"


def test_help_in_chinese_is_chinese_from_its_first_word_and_lists_as_chinese_does(capsys):
    """Choices and names too; no line begins with what ends a clause."""
    assert run(["run", "--lang=zh", "--help"]) == 0
    assert "\n其他选项（--help-all 有说明）:\n" in capsys.readouterr().out
    assert run(["run", "--lang=zh", "--help-all"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("用法：preflight run ")
    assert "direct、torchrun、accelerate" in said
    assert "local，slurm，k8s:" in said
    assert not re.search(r"^\s*[、，。：；]", said, re.MULTILINE)
    assert max(map(width_of, said.splitlines()[25:-2])) <= 100


@pytest.mark.parametrize("verb", ["run", "facts"])
def test_a_dry_run_in_chinese_has_no_english_word_of_ours(capsys, verb):
    """Nor of pytest's, which is not started for it."""
    assert run([verb, "--hosts=node1", "--dry-run", "--lang=zh"]) == 0
    seen = capsys.readouterr()
    assert "将连接 1 个节点" in seen.out
    assert seen.err == ""
    assert [line for line in seen.out.splitlines() if re.match(r"(would|ports|report|Exit)\b", line)] == []


def test_what_no_node_has_is_told_in_chinese_in_the_table_of_facts():
    """Words of ours between the nodes' values; the columns stay where they are."""
    table = facts.spoken_table(healthy(2).cluster, Language("zh")).partition("\n\n")[0]
    rows = {line.split("  ")[0]: line for line in table.splitlines()}
    assert rows["默认网关"].split() == ["默认网关", "没有", "没有"]
    start = width_of(rows["主机名"][: rows["主机名"].index("node2")])
    assert width_of(rows["默认网关"].rpartition("没有")[0]) == start
    many = facts.spoken_table(healthy(9).cluster, Language("zh"))
    assert "all 9" not in many
