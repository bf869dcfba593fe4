"""What do the shells of a person say, whatever their files do?"""

import os
import pwd
import shlex
import signal
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
    assert list(told) == ["a login over ssh"]
    (login,) = told.values()
    assert (login["NCCL_SOCKET_IFNAME"], login["NCCL_ALGO"]) == ("eth0", "Tree")
    assert login["NCCL_IB_HCA"] == "mlx5_0"
    assert "hunter2" not in str(told)
    assert "a greeting" not in str(told)


@pytest.mark.parametrize("login", ["export NCCL_IB_HCA=mlx5_0\n", "# . ~/.bashrc\n", None])
def test_a_new_window_is_asked_where_a_login_does_not_read_its_file(home, login):
    """A ~/.bash_profile that does not name ~/.bashrc keeps every login from it; ~/.profile is not read beside it."""
    (home / ".bashrc").write_text(RC)
    (home / ".profile").write_text(". ~/.bashrc\n")
    if login is None:
        (home / ".profile").unlink()
    else:
        (home / ".bash_profile").write_text(login)
    told = environment.collect({"environment": []})["shells"]
    assert list(told) == ["a login over ssh", "a new window"]
    assert "NCCL_SOCKET_IFNAME" not in told["a login over ssh"]
    assert told["a new window"]["NCCL_SOCKET_IFNAME"] == "eth0"


def test_no_second_shell_is_asked_where_there_is_no_file_of_a_window(tmp_path):
    """Neither one's own nor the system's; the system's must be named by /etc/profile."""
    window, profile = tmp_path / "bash.bashrc", tmp_path / "profile"
    assert shells.a_login_reads_all({str(window): [str(profile)]})
    window.write_text("export NCCL_DEBUG=INFO\n")
    assert not shells.a_login_reads_all({str(window): [str(profile)]})
    profile.write_text(f"  . {window}\n")
    assert shells.a_login_reads_all({str(window): [str(profile)]})


VALUES = (
    *(
        b"",
        b"plain",
        b"two words",
        b"a=b",
        b'"quoted"',
        b"it's",
        b"back\\slash",
        b"\\",
        b"\\\\",
        b'\\"',
        b"\\'",
        b"$(id)`id`!",
    ),
    *(
        b"line\nline",
        b"\n",
        b"tab\t\x1b[0m\x01\x7f",
        b"\\E\x1b",
        b"\x1b\\\"'$",
        "é✓".encode(),
        b"\xff\xfe",
        b"declare -x FAKE=1",
    ),
    *(b'\ndeclare -x FAKE="1"', b")\n", b"=(1)", b"$'x'"),
)


def test_each_value_is_what_a_program_is_given(home, monkeypatch):
    """Whatever a variable holds, bash's own words for it give the same as an `env` that it starts."""
    for number, value in enumerate(VALUES):
        monkeypatch.setitem(os.environb, b"NCCL_%d" % number, value)
    (home / ".bashrc").write_text(
        "declare -ax AN_ARRAY=(1 $')\\n' 3)\nexport NOT_SET\ndeclare -rx NCCL_OWN=1\nf() { :; }; export -f f\n"
    )
    one = shells.collect()["a new window"]
    monkeypatch.setattr(shells, "PRINT_OF_BASH", shells.PRINT)
    other = shells.collect()["a new window"]
    names = {name for name in other if name not in ("SHLVL", "_") and not name.startswith("BASH_FUNC_")}
    assert {name: one[name] for name in one if name not in ("SHLVL", "_")} == {name: other[name] for name in names}
    assert one["NCCL_OWN"] == "1"


def test_the_end_of_a_shell_is_not_acted_on(home):
    """Neither what a file keeps for the end nor the history is touched: nobody was there."""
    (home / ".bashrc").write_text(f"HISTFILE={home}/history; trap 'touch {home}/ended' EXIT; export NCCL_ALGO=Tree\n")
    (home / ".bash_profile").write_text(". ~/.bashrc\n")
    (home / ".bash_logout").write_text(f"touch {home}/left\n")
    assert [told["NCCL_ALGO"] for told in shells.collect().values()] == ["Tree"]
    assert sorted(path.name for path in home.iterdir()) == [".bash_logout", ".bash_profile", ".bashrc"]


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
    monkeypatch.setattr(shells, "GRACE_SECONDS", 5.0)  # nobody waits for so long where all ends
    script = f"trap 'rm {home}/lock' EXIT; touch {home}/lock; sleep 60"
    (home / ".bashrc").write_text(f"export HELD=$(bash -c {shlex.quote(script)})\n")
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        assert shells.collect()["a new window"] == "its start did not end within 0.3 s"
    finally:
        signal.signal(signal.SIGHUP, ignored)
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
