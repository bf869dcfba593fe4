"""Does the loader reach a node's Python as it is, through every shell on the way?"""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import sys
import zlib

import pytest

from preflight.reach.host import Host
from preflight.reach.hosts import parse_hosts
from preflight.reach.transport import LOADER, Reach, command
from preflight.reach.transport.reach import UNREAD_SECONDS

SHELLS = [name for name in ("sh", "dash", "bash", "zsh", "ksh", "fish", "tcsh", "csh") if shutil.which(name)]
HOSTILE_WORDS = ["a b", "$(reboot)", "`reboot`", "a;b", "it's", 'say "x"', "*", "~", "$HOME", "a\\b", "&", "|"]


def test_a_hosts_own_python_wins():
    """python= of a hostfile knows that host better than --python."""
    assert " /opt/own/bin/python3 -I" in " " + command(Host("n", "n", python="/opt/own/bin/python3"), Reach("/x"))[-1]


def test_the_loader_needs_no_quoting():
    """No quote, no history mark, no backslash, no variable and one line: what every shell hands over alike."""
    assert not set(LOADER) & set("'\"`!\\$\n\t~#")
    assert LOADER.isascii()
    assert LOADER.isprintable()
    assert len(LOADER) < 200


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_here_hands_the_loader_over(shell):
    """It runs the program that follows on its input, behind whatever login shell sshd starts."""
    program = zlib.compress(b"print(i.read().decode() + ' arrived')")
    (host,) = parse_hosts("node1")
    line = command(host, Reach(python=sys.executable))[-1]
    done = subprocess.run(
        [shell, "-c", line],
        input=b"%d\n%s%s" % (len(program), program, b"the rest"),
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert done.stdout == b"the rest arrived\n", done.stderr


def test_a_loader_to_which_nothing_comes_ends_itself():
    """Where the link is cut as it begins, nobody closes its input: sshd may keep the connection for hours."""
    program = LOADER.replace(f"alarm({UNREAD_SECONDS})", "alarm(1)")
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", program], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"1000\nhalf of it")
        process.stdin.flush()
        assert process.wait(timeout=20) == -signal.SIGALRM


def tcsh_words(line: str) -> list[str]:
    """A line split as tcsh does it: in single quotes all is literal but "!" and a newline, which it still expands."""
    assert "!" not in line
    assert "\n" not in line
    return shlex.split(line)


def test_tcsh_would_hand_it_over_too():
    """The same words, although tcsh knows neither $'...' nor a backslash in quotes."""
    (host,) = parse_hosts("node1")
    line = command(host, Reach(wrap=("docker", "exec", "-i", "trainer")))[-1]
    assert "\\" not in line
    assert tcsh_words(line) == ["docker", "exec", "-i", "trainer", "python3", "-I", "-S", "-B", "-c", LOADER]


def test_an_old_python_says_which_it_is():
    """Below 3.9 nothing is read; the version and a code of its own come back."""
    program = LOADER.replace("(3,9)", "(99,9)")
    done = subprocess.run([sys.executable, "-c", program], input=b"", capture_output=True, timeout=20, check=False)
    assert done.returncode == 97
    assert done.stdout.decode().startswith(sys.version.split()[0])


@pytest.mark.parametrize("word", HOSTILE_WORDS)
@pytest.mark.parametrize("shell", [name for name in SHELLS if name in {"sh", "dash", "bash"}])
def test_words_of_the_user_reach_the_node_as_they_are(shell, word):
    """--python and --wrap are words, not lines of a shell."""
    (host,) = parse_hosts("node1")
    line = command(host, Reach(wrap=("printf", "%s\\n", word)))[-1]
    done = subprocess.run([shell, "-c", line], capture_output=True, text=True, timeout=10, check=False)
    assert done.stdout.split("\n")[0] == word
