"""What does bash say of a script and of a value, and does it run nothing of either?"""

from __future__ import annotations

import pytest

from preflight.launch.text.bash import Verdict, expanded, name, verdict


@pytest.mark.parametrize(
    ("script", "line", "words"),
    [
        ("if true; then\n  torchrun t.py\n", 3, "syntax error"),
        ("for i in 1 2; do\n  torchrun t.py\ndone done\n", 3, "near unexpected token `done'"),
        ("echo 'a\necho b\n", 1, "while looking for matching `''"),
    ],
)
def test_bash_says_where_it_stops_and_why(script, line, words):
    """In its own words."""
    told = verdict(script)
    assert (told.line, told.unasked) == (line, "")
    assert words in told.words


def test_bash_only_warns_of_a_here_document_without_its_end():
    """It takes the rest of the script for it."""
    assert verdict("echo\ncat <<'E'\nfi\n") == Verdict(open_documents=((2, "E"),))


def test_patterns_that_the_script_switches_on_are_no_errors():
    """`bash -n` runs no shopt."""
    assert verdict("shopt -s extglob\nrm !(a|b)\n") == Verdict()
    assert verdict("rm !(a|b)\n").line == 1


@pytest.mark.parametrize("script", ["touch ran", "x=$(touch ran)", "exec >ran", ">ran", "a[$(touch ran)]=1", "read x"])
def test_a_script_is_read_and_not_run(script, tmp_path, monkeypatch):
    """No command, no redirection; nor what a person has bash read before each script."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "start.sh").write_text("touch started")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "start.sh"))
    monkeypatch.setenv("SHELLOPTS", "errexit")
    assert verdict(f"{script}\n") == Verdict()
    assert [path.name for path in tmp_path.iterdir()] == ["start.sh"]


def test_without_bash_it_is_said_that_nobody_was_asked(monkeypatch):
    """It is no verdict that the script is right."""
    monkeypatch.setenv("PATH", "")
    assert verdict("fi\n") == Verdict(unasked="there is no bash on this machine")


def test_a_bash_that_does_not_end_is_not_waited_for(tmp_path, monkeypatch):
    """And one that cannot be started, or falls over a script, has said nothing of it."""
    (tmp_path / "bash").write_text("#!/bin/sh\nkill -SEGV $$\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "bash").chmod(0o755)
    assert verdict("a\n").unasked == "bash ended with -11"
    (tmp_path / "bash").write_text("")
    assert "does not start" in verdict("b\n").unasked


def test_who_says_it_has_a_version():
    """As `bash --version` tells it."""
    assert name().startswith("bash ")
    assert name().removeprefix("bash ").replace(".", "").isdigit()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("${N%.*}", "n1.rack"),
        ("${N%%.*}", "n1"),
        ("${N#*.}", "rack.lan"),
        ("${N##*.}", "lan"),
        ("${N%.org}", "n1.rack.lan"),
        ("${N%[!x]}", "n1.rack.la"),
        ("${N//./-}", "n1-rack-lan"),
        ("${N^^}", "N1.RACK.LAN"),
        ("${N:0:2}", "n1"),
        ("${N: -3}", "lan"),
    ],
)
def test_what_bash_makes_of_a_value(expression, expected):
    """Prefixes, suffixes, parts and letters."""
    assert expanded(expression, "n1.rack.lan") == expected


@pytest.mark.parametrize(
    "expression",
    [
        "${N%$(touch ran)}",
        "${N%`touch ran`}",
        "${N@P}",
        "${N:a[$(touch ran)]}",
        "${N:N}",
        "${N//a/$HOME}",
        "${N#~/}",
        "${N%x}; touch ran; ${N%x}",
        "${N%\\}",
        '${N%"}',
        "${N:=touch}",
        "${!N}",
        "$N",
        "",
    ],
)
def test_what_may_do_more_is_not_asked_for(expression, tmp_path, monkeypatch):
    """It stays unknown."""
    monkeypatch.chdir(tmp_path)
    assert expanded(expression, "$(touch ran)") is None
    assert list(tmp_path.iterdir()) == []


def test_a_value_is_never_run(tmp_path, monkeypatch):
    """Whatever it holds."""
    monkeypatch.chdir(tmp_path)
    value = "$(touch ran)`touch ran`';touch ran;\"x"
    assert expanded("${N%x}", value) == value[:-1]
    assert list(tmp_path.iterdir()) == []


def test_without_bash_it_stays_unknown(monkeypatch):
    """Another shell knows other expansions."""
    monkeypatch.setenv("PATH", "")
    assert expanded("${N%%q*}", "no bash") is None
