"""Is bash asked for expansions of known values alone, and can nothing that it is handed run anything?"""

from __future__ import annotations

import pytest

from preflight.launch.text import bash


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
    assert bash.expanded(expression, "n1.rack.lan") == expected


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
    assert bash.expanded(expression, "$(touch ran)") is None
    assert list(tmp_path.iterdir()) == []


def test_a_value_is_never_run(tmp_path, monkeypatch):
    """Whatever it holds."""
    monkeypatch.chdir(tmp_path)
    value = "$(touch ran)`touch ran`';touch ran;\"x"
    assert bash.expanded("${N%x}", value) == value[:-1]
    assert list(tmp_path.iterdir()) == []


def test_without_bash_it_stays_unknown(monkeypatch):
    """Another shell knows other expansions."""
    monkeypatch.setenv("PATH", "")
    assert bash.expanded("${N%%q*}", "no bash") is None
