"""Is the command that reaches a node exactly what it should be, and can no name turn it into another?"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.errors import UsageError
from preflight.hosts import Host, parse_hosts
from preflight.transport import LOADER, TRANSPORTS, Reach, command, forms, ssh, written_for
from tests.test_hosts import hostile_names

SSH = ssh.Ssh()
SHELLS = [name for name in ("sh", "dash", "bash", "zsh", "ksh", "fish", "tcsh", "csh") if shutil.which(name)]


def test_ssh_is_called_exactly_so():
    """Every word of it: the user's options first, for ssh keeps the first value, ours next, and the host after --."""
    (host,) = parse_hosts("ada@node1:2222")
    reach = Reach(python="/opt/py", wrap=("docker", "exec", "-i", "my trainer"), ssh_options=("-F", "cfg"))
    assert command(host, reach) == [
        "ssh", "-F", "cfg", "-T", "-oBatchMode=yes", "-oServerAliveInterval=5", "-oServerAliveCountMax=3",
        "-oRemoteCommand=none", "-oRequestTTY=no", "-oControlMaster=no", "-oControlPath=none", "-oForwardAgent=no",
        "-oForwardX11=no", "-oClearAllForwardings=yes", "-oPermitLocalCommand=no", "-oEscapeChar=none",
        "-oLogLevel=ERROR", "-oConnectTimeout=10", "-p", "2222", "-l", "ada", "--", "node1",
        f"docker exec -i 'my trainer' /opt/py -I -B -c '{LOADER}'",
    ]  # fmt: skip


def test_a_plain_host_gets_no_user_and_no_port():
    """The user's own ssh configuration decides."""
    (host,) = parse_hosts("node1")
    words = command(host, Reach())
    assert "-p" not in words
    assert "-l" not in words
    assert words[-3:] == ["--", "node1", f"python3 -I -B -c '{LOADER}'"]


def test_an_ipv6_host_is_one_word_without_brackets():
    """As ssh wants it beside -p."""
    (host,) = parse_hosts("[fe80::1%eth0]:22")
    assert command(host, Reach())[-4:-1] == ["22", "--", "fe80::1%eth0"]


def test_host_keys_are_checked_as_the_user_says():
    """No word of ours weakens them."""
    told = " ".join(ssh.OPTIONS).lower()
    assert "hostkey" not in told
    assert "knownhosts" not in told


def test_this_machine_is_reached_without_a_shell():
    """The job's interpreter is this one unless another is named; a wrapper stands before it."""
    (local,) = parse_hosts("local")
    assert command(local, Reach()) == [sys.executable, "-I", "-B", "-c", LOADER]
    assert command(local, Reach(python="/opt/py", wrap=("nice",)))[:2] == ["nice", "/opt/py"]


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
    assert tcsh_words(line) == ["docker", "exec", "-i", "trainer", "python3", "-I", "-B", "-c", LOADER]


def test_an_old_python_says_which_it_is():
    """Below 3.9 nothing is read; the version and a code of its own come back."""
    program = LOADER.replace("(3,9)", "(99,9)")
    done = subprocess.run([sys.executable, "-c", program], input=b"", capture_output=True, timeout=20, check=False)
    assert done.returncode == 97
    assert done.stdout.decode().startswith(sys.version.split()[0])


@pytest.mark.parametrize("number", range(5))
def test_hostile_names_never_become_a_command(number):
    """500 of them: not one gives a host, so there is nothing to start."""
    for name in hostile_names()[number::5]:
        with pytest.raises(UsageError):
            [command(host, Reach()) for host in parse_hosts(name)]


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="abz019.-_:@[]%, ;$`'\"\\\n\t*~!|&()<>", max_size=25))
def test_whatever_is_taken_for_a_host_is_one_word_after_the_dashes(text):
    """No accepted name is an option, adds a word or reaches the node's shell."""
    try:
        hosts = parse_hosts(text)
    except UsageError:
        return
    for host in hosts:
        if host.transport == "ssh":
            words = command(host, Reach())
            plain = command(Host("node1", "node1", host.user and "u", host.port and 22), Reach())
            assert len(words) == len(plain)
            assert words[-3:] == ["--", host.address, plain[-1]]
            assert not host.address.startswith("-")
            assert not (host.user or "").startswith("-")


HOSTILE_WORDS = ["a b", "$(reboot)", "`reboot`", "a;b", "it's", 'say "x"', "*", "~", "$HOME", "a\\b", "&", "|"]


@pytest.mark.parametrize("word", HOSTILE_WORDS)
@pytest.mark.parametrize("shell", [name for name in SHELLS if name in {"sh", "dash", "bash"}])
def test_words_of_the_user_reach_the_node_as_they_are(shell, word):
    """--python and --wrap are words, not lines of a shell."""
    (host,) = parse_hosts("node1")
    line = command(host, Reach(wrap=("printf", "%s\\n", word)))[-1]
    done = subprocess.run([shell, "-c", line], capture_output=True, text=True, timeout=10, check=False)
    assert done.stdout.split("\n")[0] == word


@pytest.mark.parametrize(("sign", "cause", "fix"), ssh.CAUSES)
def test_what_ssh_says_is_told_with_what_to_do(sign, cause, fix):
    """Its words stay in the message, for whoever searches for them."""
    reason = SSH.explain("node7", 255, f"Warning: something\nssh: {sign}.\n")
    assert reason.startswith(cause)
    assert sign in reason
    assert fix.format(host="node7") in reason


@pytest.mark.parametrize(
    ("stderr", "reason"), [("a\n\nlast words \n", "last words"), ("", "ssh ended without a message")]
)
def test_what_we_do_not_know_is_told_as_it_is(stderr, reason):
    """The last line, or that there was none."""
    assert SSH.explain("node1", 255, stderr) == reason


@pytest.mark.parametrize("code", [0, 1, 97, 127])
def test_another_exit_code_is_the_commands_own(code):
    """The node was reached; what its Python said is no trouble of ssh."""
    assert SSH.explain("node1", code, "Permission denied") == ""


@pytest.mark.parametrize(
    ("stderr", "is_worth_it"),
    [
        ("kex_exchange_identification: Connection closed by remote host", True),
        ("Connection reset by 10.0.0.7 port 22", True),
        ("Permission denied (publickey).\nConnection closed by 10.0.0.7", False),
        ("ssh: Could not resolve hostname node7", False),
    ],
)
def test_only_a_connection_closed_before_the_login_is_tried_again(stderr, is_worth_it):
    """A full MaxStartups has room a moment later; a refused login has not."""
    assert SSH.is_worth_a_retry(stderr) is is_worth_it


def test_every_transport_says_how_its_hosts_are_written_and_reached():
    """ssh's are written as they are; a node's name can be written in HOSTS again."""
    assert written_for("node1").name == written_for("node1:2222").name == written_for("ssh:22").name == "ssh"
    assert written_for("local").name == "local"
    assert forms() == ("local",)
    for name, transport in TRANSPORTS.items():
        assert transport.name == name
        assert transport.form.partition(":")[0] in ("", name)
        assert transport.log_in_hint("node7")
