"""What do the shells of a person say, whatever their files do?"""

import os
import pwd
import shlex
import time
from types import SimpleNamespace

import pytest

from preflight.node.sources import shells
from preflight.node.subjects import environment

RC = """
echo a greeting that is no variable
export NCCL_ALGO=early
case $- in *i*) ;; *) return;; esac
export NCCL_SOCKET_IFNAME=eth0 NCCL_ALGO=Tree
export MY_TOKEN=hunter2 HTTPS_PROXY=http://me:hunter2@proxy:3128
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home of its own, for an account whose shell is bash."""
    monkeypatch.setenv("HOME", str(tmp_path))
    account(monkeypatch, "/bin/bash")
    return tmp_path


def account(monkeypatch, shell):
    """The user's account has this shell."""
    monkeypatch.setattr(pwd, "getpwuid", lambda _: SimpleNamespace(pw_shell=shell, pw_dir="/nonexistent"))


def test_what_stands_behind_the_guard_is_seen_and_secrets_are_not(home):
    """As Ubuntu's ~/.bashrc and ~/.profile have it; of what may leave the node, without credentials."""
    (home / ".bashrc").write_text(RC)
    (home / ".profile").write_text(". ~/.bashrc\nexport NCCL_IB_HCA=mlx5_0\n")
    told = environment.collect({"environment": []})["shells"]
    assert list(told) == ["a login over ssh", "a new window"]
    login, window = told.values()
    assert (window["NCCL_SOCKET_IFNAME"], window["NCCL_ALGO"]) == ("eth0", "Tree")
    assert "NCCL_IB_HCA" not in window
    assert login["NCCL_IB_HCA"] == "mlx5_0"
    assert "hunter2" not in str(told)
    assert "a greeting" not in str(told)


def test_a_file_that_waits_is_given_up_and_ended(home, monkeypatch):
    """For input, for a lock: three seconds at most, and nothing of it stays behind."""
    monkeypatch.setattr(shells, "SECONDS", 0.3)
    (home / ".bashrc").write_text(f"sleep 60 & echo $! > {home}/pid; sleep 60\n")
    (home / ".profile").write_text("read answer; exit 3\n")
    told = shells.collect()
    assert told["a new window"] == "its start did not end within 0.3 s"
    assert told["a login over ssh"] == "it said nothing"
    deadline = time.monotonic() + 10
    while _runs(int((home / "pid").read_text())) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _runs(int((home / "pid").read_text()))


def test_a_file_that_is_given_up_removes_its_lock(home, monkeypatch):
    """As pyenv's does, for which every later shell of the account would wait."""
    monkeypatch.setattr(shells, "SECONDS", 0.3)
    script = f"trap 'rm {home}/lock' EXIT; touch {home}/lock; sleep 60"
    (home / ".bashrc").write_text(f"export HELD=$(bash -c {shlex.quote(script)})\n")
    assert shells.collect()["a new window"] == "its start did not end within 0.3 s"
    assert not (home / "lock").exists()


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("shell", ["/usr/sbin/nologin", "/bin/tcsh", ""])
def test_an_account_without_such_a_shell_says_so(monkeypatch, shell):
    """A service account, a shell of other rules."""
    account(monkeypatch, shell)
    told = shells.collect()["a new window"]
    assert told == f"the account's shell is {shell or 'not known'}"


def test_a_shell_that_is_not_there_says_so_too(monkeypatch):
    """An account from another machine's list."""
    account(monkeypatch, "/nonexistent/zsh")
    assert shells.collect()["a new window"] == f"/nonexistent/zsh: {os.strerror(2)}"
