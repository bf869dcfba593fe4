"""Can what a run prints be pasted, read and run by a person, and nothing more?"""

from __future__ import annotations

import re
import subprocess

import msgspec
import pytest

from preflight.judge.ledger.findings import Command, Finding, Verdict
from preflight.report.document import NodeInfo
from preflight.report.formats.commands import UNTRIED, here, lines, script
from preflight.report.formats.markdown import markdown_text
from preflight.report.formats.text import TELLING
from preflight.report.html.page import html_text
from preflight.report.json import json_text
from preflight.report.language import Language
from preflight.report.material import Material

NOW = "sudo ip link set dev eth0 mtu 9000"
MTU = Finding(
    "network.mtu",
    Verdict.FAIL,
    ("node2", "node3"),
    "mtu: 1400 on node[2-3]",
    "`ip link set dev <interface> mtu <n>`",
    commands=(Command("node2", NOW, "# to last: netplan"), Command("node3", NOW, "printf 'a\\n' | tee -a /etc/x")),
)


@pytest.mark.parametrize(
    ("host", "line"),
    [
        ("node3", f"ssh node3 {NOW}"),
        ("me@node3:2222", f"ssh -p 2222 me@node3 {NOW}"),
        ("local", NOW),
        ("what is this", f"# on node3: {NOW}"),
    ],
)
def test_a_line_goes_the_way_that_the_run_went(make_report, host, line):
    """With the user and the port that HOSTS gave; a comment where no way is known."""
    report = make_report(MTU)
    nodes = {**report.nodes, "node3": NodeInfo(host=host, address="10.0.0.3", reached=True)}
    assert here(msgspec.structs.replace(report, nodes=nodes), MTU.commands[1]) == line


@pytest.mark.parametrize("host", ["k8s:train/app=x", "k8s:train/pod/p:trainer@m", "slurm"])
def test_a_stored_report_makes_nobody_look_for_hosts(make_report, tmp_path, monkeypatch, host):
    """What it has in the place of a host may be anybody's words: no kubectl is started to read them."""
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f"#!/bin/sh\n: > {tmp_path}/started\n")
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    report = make_report(MTU)
    nodes = {**report.nodes, "node3": NodeInfo(host=host, address="10.0.0.3", reached=True)}
    told = here(msgspec.structs.replace(report, nodes=nodes), Command("node3", NOW))
    assert (told, (tmp_path / "started").exists()) == (f"# on node3: {NOW}", False)


def test_what_the_shell_would_read_is_quoted_for_ssh(make_report):
    """The node's own shell reads it, not this one."""
    command = Command("node3", "printf 'a\\n' | tee /tmp/x")
    assert here(make_report(MTU), command) == "ssh node3 'printf '\"'\"'a\\n'\"'\"' | tee /tmp/x'"


def test_a_command_with_what_cannot_be_seen_is_no_command(make_report):
    """A name with an escape sequence cannot be pasted; it is shown."""
    assert here(make_report(MTU), Command("node3", "ip link '\x1b[2J'")) == "# node3: ip link '\\x1b[2J'"


def test_a_variable_is_for_the_shell_that_starts_the_job(make_report):
    """One line for all nodes that need it, said so; in the script, which is run elsewhere, it is a comment."""
    exports = tuple(Command(f"node{number}", "export MASTER_ADDR=10.0.0.1", "", True) for number in (1, 2, 3))
    finding = Finding("master.x", Verdict.FAIL, ("node1",), "MASTER_ADDR differs", commands=exports)
    report = make_report(finding)
    line = "export MASTER_ADDR=10.0.0.1  # where the job starts, on {}"
    assert lines(report, [finding], most=4) == [line.format("node[1-3]")]
    assert here(report, exports[1]) == line.format("node2")
    assert script(report).count("\n# where the job starts on it: export MASTER_ADDR=10.0.0.1\n") == 3


def test_the_summary_the_page_and_the_notes_show_the_lines(make_report):
    """Below the fix in general words, and each once."""
    report = make_report(MTU, Finding("a.b", Verdict.PASS, ("node1",), "fine"))
    text = TELLING["summary"](report, directory="r", width=100)
    assert f"  ssh node2 {NOW}\n" in text
    assert f"ssh node3 {NOW}" in markdown_text(Material(report))
    assert f"ssh node3 {NOW}" in html_text(Material(report))
    assert '"now": "sudo ip link' in json_text(report)


def test_of_many_lines_the_first_are_shown_and_where_all_are(make_report):
    """A cluster of hundreds stays readable."""
    many = tuple(Command(f"node{number}", NOW) for number in range(1, 9))
    found = lines(make_report(size=8), [Finding("a.b", Verdict.FAIL, (), "m", commands=many)], most=4)
    assert len(found) == 5
    assert found[-1] == "# and 4 more: preflight report 20300102-030405-abcd --format=fix"


def test_the_script_is_read_node_by_node_and_is_a_shell_script(make_report, tmp_path):
    """What has no command is listed with its fix, and how to see that it holds stands last."""
    other = Finding("gpu.ecc", Verdict.FAIL, ("node1",), "ECC\nerror; reboot", "`nvidia-smi -r`")
    blocked = Finding("bench.x", Verdict.ERROR, ("node1",), "not started", blocked_by="network.mtu")
    text = script(make_report(MTU, other, blocked))
    assert text.index("# ---- node2") < text.index("# ---- node3") < text.index("# node1: gpu.ecc: ECC error; reboot")
    assert f"\nssh node2 {NOW}\n# no command for this, do it by hand: to last: netplan\n" in text
    assert "| tee -a /etc/x'  # lasts\n" in text
    assert text.endswith("# Then see that it holds: preflight run --hosts 'node[1-3]'\n")
    typed = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert all(line.startswith("ssh node") for line in typed)
    (tmp_path / "fix.sh").write_text(text)
    subprocess.run(["sh", "-n", tmp_path / "fix.sh"], check=True)


def test_what_another_line_sets_too_is_said_once(make_report):
    """Two checks want the same variable, one of them another as well; elsewhere both lines stay."""
    one = Command("node2", "export NCCL_SOCKET_IFNAME==eth0", is_for_job=True)
    both = Command("node2", "export NCCL_SOCKET_IFNAME==eth0 GLOO_SOCKET_IFNAME=eth0", is_for_job=True)
    report = make_report(MTU)

    def told(*commands):
        return lines(report, [Finding("a.b", Verdict.FAIL, ("node2",), "x", "", commands=commands)], most=9)

    assert told(one, both) == [f"{both.now}  # where the job starts, on node2"]
    assert len(told(Command("node3", one.now, is_for_job=True), both)) == 2


@pytest.mark.parametrize(
    ("given", "again"),
    [
        (["run", "--hosts=node1", "--report-dir=out"], "preflight run --hosts=node1"),
        (["run", "--report-dir", "out", "--hosts=node1", "--lang=zh"], "preflight run --hosts=node1 --lang=zh"),
        (["run", "--from", "reports/x", "-v"], "preflight run -v --hosts=node1,node2,node3"),
        (["run", "--from=reports/x"], "preflight run --hosts=node1,node2,node3"),
    ],
)
def test_the_proof_asks_the_nodes_again(make_report, given, again):
    """With a report of its own; a stored run that is judged again would say the same as before."""
    report = make_report(MTU)
    run = msgspec.structs.replace(report.run, command=("preflight", *given))
    assert script(msgspec.structs.replace(report, run=run)).endswith(f"# Then see that it holds: {again}\n")


def test_the_script_in_chinese_has_the_same_commands(make_report, tmp_path):
    """What is said of them is Chinese, and stays a comment."""
    for_job = Finding("m.x", Verdict.FAIL, ("node1",), "x", commands=(Command("node1", "export A=1", "", True),))
    other = Finding("gpu.ecc", Verdict.FAIL, ("node1",), "ECC error", "`nvidia-smi -r`")
    report = make_report(MTU, for_job, other)
    text = script(report, Language("zh"))

    def typed(script):
        return [line.partition("  # ")[0] for line in script.splitlines() if not line.startswith("#")]

    assert typed(text) == typed(script(report))
    assert "修复 preflight 在运行" in text
    assert "# 在该节点上启动任务的地方设置: export A=1" in text
    assert "# ---- 配置与状态给不出命令的问题" in text
    assert "  # 重启后仍有效" in text
    assert not re.search(r"# (?:What|Read|Lines|Then|where|---- What)\b", text)
    (tmp_path / "fix.sh").write_text(text, encoding="utf-8")
    subprocess.run(["sh", "-n", tmp_path / "fix.sh"], check=True)
    (line,) = lines(report, [for_job], most=4, language=Language("zh"))
    assert line == "export A=1  # 在启动任务的地方设置，用于 node1"


def test_a_command_for_this_machine_needs_no_login(make_report):
    """A run without hosts is of the node `local`, at 127.0.0.1, where perhaps no sshd listens."""
    report = make_report(MTU)
    report = msgspec.structs.replace(
        report, nodes={"local": msgspec.structs.replace(report.nodes["node1"], host="127.0.0.1")}
    )
    assert here(report, Command("local", NOW)) == NOW


def test_a_command_that_was_never_tried_says_so(make_report):
    """The whole line is a comment, which nobody pastes unread."""
    report = make_report(MTU)
    untried = Command("node3", NOW, row="network.mtu", is_tried=False)
    assert here(report, untried) == f"# {UNTRIED}: {here(report, Command('node3', NOW))}"
    exported = Command("node3", "export A=1", is_for_job=True, is_tried=False)
    assert here(report, exported) == f"# {UNTRIED}: export A=1  # where the job starts, on node3"
