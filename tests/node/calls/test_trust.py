"""Tests of preflight.node.calls.trust."""

import os

import msgspec
import pytest

from preflight.facts.subjects.trust import Trust
from preflight.node.calls import trust

SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
case "$2" in
good) sh -c "$3" ;;
banner) printf 'Now using\n  node v12'; echo to be seen >&2; sh -c "$3" ;;
flood) head -c 300000 /dev/zero | tr '\\0' x; sh -c "$3" ;;
closed) echo "ssh: connect to host closed port 22: Connection refused" >&2; exit 255 ;;
silent) exec sleep 30 ;;
esac
"""


@pytest.fixture
def ssh(tmp_path, monkeypatch):
    """An ssh of our own, first on PATH."""
    (tmp_path / "ssh").write_text(SSH)
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def ask(*peers, python="sh", seconds=10.0):
    facts = trust.run({"peers": list(peers), "python": python, "seconds": seconds}, None)
    return msgspec.convert(facts, type=Trust, strict=True).logins


@pytest.mark.usefixtures("ssh")
def test_a_login_tells_where_the_interpreter_is():
    """What the peer's own PATH finds; nothing where it finds none."""
    (good,) = ask("good")
    assert (good.trouble, good.python.endswith("/sh")) == ("", True)
    (bare,) = ask("good", python="no-such-python")
    assert (bare.trouble, bare.python) == ("", "")


@pytest.mark.usefixtures("ssh")
def test_every_peer_has_its_outcome_in_the_order_asked():
    """One that refuses says why in ssh's last words; one that hangs costs the limit, and the others nothing."""
    closed, good, silent = ask("closed", "good", "silent", seconds=1.0)
    assert closed.trouble == "ssh: connect to host closed port 22: Connection refused"
    assert good.trouble == ""
    assert silent.trouble == "no answer in time"


@pytest.mark.usefixtures("ssh")
def test_what_start_files_print_is_told_apart_from_the_command_and_from_errors():
    """Though its last line has no end; only what a program that reads the output would take."""
    banner, good = ask("banner", "good")
    assert (banner.trouble, banner.printed) == ("", "Now using node v12")
    assert banner.python.endswith("/sh")
    assert good.printed == ""


@pytest.mark.usefixtures("ssh")
def test_a_peer_that_prints_without_end_costs_bounded_memory():
    """Its login has no outcome then; the others have theirs."""
    flood, good = ask("flood", "good")
    assert flood.trouble.startswith("x")
    assert len(flood.trouble) <= 400
    assert good.trouble == ""
