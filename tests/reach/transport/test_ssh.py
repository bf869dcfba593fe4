"""Is the ssh command that reaches a node exactly what it should be, and can no name turn it into another?"""

from __future__ import annotations

import socket
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.reach.host import Host
from preflight.reach.hosts import parse_hosts
from preflight.reach.transport import LOADER, Reach, command, ssh
from preflight.said.errors import UsageError
from tests.reach.test_hosts import hostile_names

SSH = ssh.Ssh()


def test_ssh_is_called_exactly_so():
    """Every word of it: the user's options first, for ssh keeps the first value, ours next, and the host after --."""
    (host,) = parse_hosts("ada@node1:2222")
    reach = Reach(python="/opt/py", wrap=("docker", "exec", "-i", "my trainer"), ssh_options=("-F", "cfg"))
    assert command(host, reach) == [
        "ssh", "-F", "cfg", "-T", "-oBatchMode=yes", "-oServerAliveInterval=5", "-oServerAliveCountMax=3",
        "-oRemoteCommand=none", "-oRequestTTY=no", "-oControlMaster=no", "-oControlPath=none", "-oForwardAgent=no",
        "-oForwardX11=no", "-oClearAllForwardings=yes", "-oPermitLocalCommand=no", "-oEscapeChar=none",
        "-oLogLevel=ERROR", "-oConnectTimeout=10", "-p", "2222", "-l", "ada", "--", "node1",
        f"docker exec -i 'my trainer' /opt/py -I -S -B -c '{LOADER}'",
    ]  # fmt: skip


def test_a_plain_host_gets_no_user_and_no_port():
    """The user's own ssh configuration decides."""
    (host,) = parse_hosts("node1")
    words = command(host, Reach())
    assert "-p" not in words
    assert "-l" not in words
    assert words[-3:] == ["--", "node1", f"python3 -I -S -B -c '{LOADER}'"]


def test_an_ipv6_host_is_one_word_without_brackets():
    """As ssh wants it beside -p."""
    (host,) = parse_hosts("[fe80::1%eth0]:22")
    assert command(host, Reach())[-4:-1] == ["22", "--", "fe80::1%eth0"]


def test_host_keys_are_checked_as_the_user_says():
    """No word of ours weakens them."""
    told = " ".join(ssh.OPTIONS).lower()
    assert "hostkey" not in told
    assert "knownhosts" not in told


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


@pytest.mark.parametrize(("sign", "cause", "fix"), ssh.CAUSES)
def test_what_ssh_says_is_told_with_what_to_do(sign, cause, fix):
    """Its words stay in the message, for whoever searches for them."""
    reason = SSH.explain("node7", 255, f"Warning: something\nssh: {sign}.\n")
    assert reason.startswith(cause)
    assert sign in reason
    port = ", or give its port as user@host:port"
    assert fix.format(host="node7", login="node7", port=port) in reason


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        (
            (
                "Permissions 0644 for '/h/id' are too open.\nWARNING: UNPROTECTED PRIVATE KEY FILE!\n"
                "me@node7: Permission denied (publickey)."
            ),
            "chmod 600",
        ),
        (
            (
                "sign_and_send_pubkey: signing failed for ED25519 key from agent: agent refused operation\n"
                "me@node7: Permission denied (publickey)."
            ),
            "ssh-add",
        ),
        ("Access denied by pam_slurm_adopt: you have no active jobs on this node", "--hosts=slurm"),
        ("Received disconnect from 10.0.0.7 port 22:2: Too many authentication failures", "IdentitiesOnly=yes"),
        ("/h/.ssh/config: line 3: Bad configuration option: usekeychain\n/h/.ssh/config: terminating", "ssh -G node7"),
    ],
)
def test_the_cause_is_told_before_what_it_ends_in(stderr, words):
    """Of several lines that ssh says, the one that somebody can act on."""
    assert words in SSH.explain("node7", 255, stderr)


@pytest.mark.parametrize(("stderr", "reason"), [("a\n\nlast words \n", "last words"), ("", ssh.SILENT)])
def test_what_we_do_not_know_is_told_as_it_is(stderr, reason):
    """The last line, or that there was none."""
    assert SSH.explain("node1", 255, stderr) == reason


def test_of_several_complaints_the_first_known_cause_is_told():
    """A jump host's banner comes before the reason."""
    stderr = "Warning: Permanently added 'gw'.\nnode7: Permission denied (publickey).\n"
    reason = SSH.explain("node7", 255, stderr)
    assert reason == "login refused (ssh: Permission denied); install your key: ssh-copy-id node7"


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


def test_a_home_in_a_path_is_that_of_the_user_there():
    """No shell here has put it in: bash leaves --python=~/venv/bin/python as it is."""
    line = SSH.argv(Host("node1", "node1"), Reach(python="~/my venv/bin/python"))[-1]
    assert line.startswith("~/'my venv/bin/python' -I -S -B -c ")
    assert SSH.argv(Host("node1", "node1"), Reach(python="~"))[-1].startswith("'~' ")


def test_the_way_in_by_hand_is_named():
    """The same login, which a person can look at."""
    assert "`ssh node7 true`" in SSH.log_in_hint("node7")


@pytest.mark.parametrize(
    ("written", "login"),
    [
        ("me@node3", "me@node3"),
        ("me@node3:2222", "-p 2222 me@node3"),
        ("node3:2222", "-p 2222 node3"),
        ("me@[fe80::1]:22", "-p 22 me@fe80::1"),
        ("fe80::1", "fe80::1"),
    ],
)
def test_user_and_port_are_kept_in_what_to_type(written, login):
    """For a key, a first login and a try."""
    assert SSH.explain(written, 255, "Permission denied (publickey).").endswith(f"ssh-copy-id {login}")
    assert f"`ssh {login} true`" in SSH.log_in_hint(written)


def test_a_port_that_was_given_is_not_asked_for():
    """It is the one that refused."""
    refused = "ssh: connect to host node3 port 2222: Connection refused"
    assert SSH.explain("node3:2222", 255, refused).endswith("start sshd on node3 at port 2222, or give its own port")


def through(jump, *, port):
    """What the ssh of this machine prints of three nodes behind a jump host."""
    words = ["ssh", "-F/dev/null", "-oBatchMode=yes", "-oLogLevel=ERROR", "-oConnectTimeout=5", f"-J{jump}:{port}"]
    return [
        subprocess.run([*words, node, "true"], capture_output=True, text=True, timeout=60, check=False)
        for node in ("node1", "node2", "node3")
    ]


@pytest.mark.process
@pytest.mark.parametrize(
    ("jump", "cause"), [("127.0.0.1", "nothing listens on the ssh port"), ("no-such.invalid", "does not resolve")]
)
def test_a_dead_jump_host_is_said_in_the_same_words_of_every_node_behind_it(jump, cause):
    """So that it is one finding, and names what is to be repaired; no node is tried again."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        ended = through(jump, port=free.getsockname()[1])
    nodes = ("node1", "node2", "node3")
    (told,) = {SSH.explain(node, done.returncode, done.stderr) for node, done in zip(nodes, ended, strict=True)}
    assert told.startswith(f"the jump host {jump}: ")
    assert cause in told
    assert not any(SSH.is_worth_a_retry(done.stderr) for done in ended)


@pytest.mark.parametrize(
    ("stderr", "told"),
    [
        (
            "me@gate: Permission denied (publickey).\nkex_exchange_identification: Connection closed by remote host\n",
            "the jump host me@gate: login refused",
        ),
        (
            "open failed: connect failed: Connection refused\nkex_exchange_identification: Connection closed\n",
            "nothing listens on the ssh port (ssh: Connection refused); start sshd on node3",
        ),
        ("me@node3: Permission denied (publickey).\n", "login refused"),
    ],
    ids=["the jump host refuses us", "the node behind it is down", "the node refuses us"],
)
def test_a_jump_host_is_blamed_for_its_own_faults_alone(stderr, told):
    """What it says of the node behind it is the node's."""
    assert SSH.explain("node3", 255, stderr).startswith(told)
