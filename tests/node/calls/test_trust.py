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
