"""How is a Python on a node reached over ssh? By the user's own OpenSSH with the user's own configuration."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from preflight.reach.transport.reach import Found, last_line
from preflight.said import said

if TYPE_CHECKING:
    from preflight.reach.host import Host
    from preflight.reach.transport.reach import Reach

# At its level ERROR ssh says neither "Connection closed" nor "timed out" of a connection that had been made.
SILENT = (
    "ssh ended without a message: sshd closed the connection or said nothing for 15 s (LDAP or sssd, which it asks for "
    "users and keys, does not answer; PAM lets nobody in: no Slurm job there, /run/nologin; large packets are lost on "
    "the way: `ping -M do -s 1472`), or it opens no session (MaxSessions 0), or a signal ended the Python there (try "
    "`python3 -V` by hand)"
)
FAILED = 255  # ssh's own exit code; any other one is that of the command

# Nothing that asks, forwards, multiplexes or weakens. Host keys are checked as the user's configuration says.
OPTIONS = (
    "-T",
    "-oBatchMode=yes",
    "-oServerAliveInterval=5",
    "-oServerAliveCountMax=3",
    "-oRemoteCommand=none",
    "-oRequestTTY=no",
    "-oControlMaster=no",
    "-oControlPath=none",
    "-oForwardAgent=no",
    "-oForwardX11=no",
    "-oClearAllForwardings=yes",
    "-oPermitLocalCommand=no",
    "-oEscapeChar=none",
    "-oLogLevel=ERROR",
)

# What ssh prints when the connection was closed before authentication.
CLOSED_EARLY = ("kex_exchange_identification", "Connection closed by", "Connection reset by")

NO_PROCESS = "sshd takes the login and starts nothing for it"
# ssh's own words -> what is wrong, and what to do. The first that fits: a refused key ends in "Permission denied" too.
CAUSES = (
    ("UNPROTECTED PRIVATE KEY FILE", "ssh leaves out a private key that others may read", "chmod 600 <the key>"),
    ("agent refused operation", "the ssh agent did not sign with the key", "unlock it: ssh-add -l, ssh-add"),
    (
        "Too many authentication failures",
        "the ssh agent offered more keys than sshd tries",
        "give {host} its IdentityFile and IdentitiesOnly=yes in ~/.ssh/config",
    ),
    ("Bad owner or permissions on", "ssh does not read a file of yours that others may write", "chmod 600 <the file>"),
    ("ad configuration option", "ssh does not know an option of its configuration", "correct it: ssh -G {host}"),
    (
        "Unable to negotiate",
        "ssh and sshd have no algorithm in common",
        "update sshd on {host}, or allow what it offers in ~/.ssh/config (ssh -v {login} names it)",
    ),
    (
        "pam_slurm_adopt",
        "Slurm lets nobody in who has no job on the node",
        "run inside an allocation with --hosts=slurm, or allocate {host} first",
    ),
    ("pam_nologin", "the node is starting or shutting down", "wait, or remove /run/nologin on {host}"),
    ("account has expired", "the account has expired", "chage -l <user> on {host}"),
    ("by PAM account configuration", "PAM does not let this account in", "check /etc/security/access.conf on {host}"),
    ("request failed on channel", NO_PROCESS, "end processes on {host}, or raise its limit of them (TasksMax, nproc)"),
    ("administratively prohibited", NO_PROCESS, "raise MaxSessions in sshd_config on {host}"),
    ("Session open refused by peer", NO_PROCESS, "raise MaxSessions in sshd_config on {host}"),
    (
        "message authentication code incorrect",
        "bytes change on the way",
        "check the cable, the adapter and its firmware on {host}",
    ),
    ("UNKNOWN port 65535", "the ProxyCommand or jump host ended", "try it alone: ssh -v {login}"),
    ("Host key verification failed", "the host key is unknown or has changed", "log in once by hand: ssh {login}"),
    ("Permission denied", "login refused", "install your key: ssh-copy-id {login}"),
    ("Could not resolve hostname", "the name does not resolve", "check the spelling, DNS or /etc/hosts"),
    ("Connection refused", "nothing listens on the ssh port", "start sshd on {host}{port}"),
    (
        "banner exchange",
        "sshd accepts but does not answer",
        "restart sshd on {host}",
    ),  # "Connection timed out during" it
    ("Connection timed out", "no answer on the ssh port", "check that {host} is up and its firewall lets ssh in"),
    ("No route to host", "no route, or a firewall prohibits it", "check that {host} is up and its firewall"),
    ("Network is unreachable", "no route to its network", "check the routes of this machine"),
    ("not responding", "the connection went silent", "check that {host} is up"),
)
# A host on the way failed, and the connection through it was closed before the node was asked for its key.
AT_JUMP = re.compile(
    r"(?m)^(?:ssh: connect to host (?P<silent>\S+) port \d+|ssh: Could not resolve hostname (?P<unknown>[^\s:]+)"
    r"|(?P<refusing>\S+): Permission denied \().*\n(?:.*\n)*?kex_exchange_identification: "
)


class Ssh:
    """The user's own ssh."""

    name = "ssh"
    form = ""
    starting_seconds = 0.0

    def named(self, rest: str) -> tuple[Found, ...]:
        """The host itself."""
        return (Found(rest, rest),)

    def argv(self, host: Host, reach: Reach) -> list[str]:
        """``ssh OPTIONS -- HOST COMMAND``; the ``--`` keeps a host's name from being an option."""
        # ssh keeps the first value it sees of an option: what the user wrote out wins over our defaults.
        words = ["ssh", *reach.ssh_options, *OPTIONS, f"-oConnectTimeout={reach.connect_seconds}"]
        if host.port is not None:
            words += ["-p", str(host.port)]
        if host.user is not None:
            words += ["-l", host.user]
        return [*words, "--", host.address, " ".join(map(_quoted, reach.loader(host)))]

    def explain(self, node: str, code: int, stderr: str) -> str:
        """ssh's error in our words, with what to do; its last line where we know no better."""
        if code != FAILED:
            return ""
        found = AT_JUMP.search(stderr)
        jump = next(filter(None, found.groups()), "") if found else ""
        for sign, cause, fix in CAUSES:
            if jump and sign in stderr:
                return said(
                    "the jump host {jump}: {cause} (ssh: {sign}); {format}",
                    jump,
                    cause,
                    sign,
                    fix.format(**_words(jump)),
                )
            if sign in stderr:
                return said("{cause} (ssh: {sign}); {format}", cause, sign, fix.format(**_words(node)))
        return last_line(stderr, SILENT)

    def is_worth_a_retry(self, stderr: str) -> bool:
        """Whether the connection was closed before authentication: a full MaxStartups."""
        closed = any(sign in stderr for sign in CLOSED_EARLY)
        return closed and "Permission" not in stderr and not AT_JUMP.search(stderr)

    def log_in_hint(self, node: str) -> str:
        """The same login, by hand."""
        return said("log in by hand the same way (`ssh {words} true`), then run again", _words(node)["login"])


def _quoted(word: str) -> str:
    """A word for the shell there, which is to put its user's home for a leading ~, as a shell here would have done."""
    return f"~/{shlex.quote(word[2:])}" if word.startswith("~/") and word[2:] else shlex.quote(word)


def login_of(node: str) -> str:
    """The words after `ssh` that log in to a host as HOSTS has it."""
    return _words(node)["login"]


def _words(node: str) -> dict[str, str]:
    """What ssh's own tools call a host that is written as in HOSTS ("me@node3:2222"): its login, name and port."""
    user, at, rest = node.rpartition("@")
    address, _, port = rest.rpartition(":")
    if not address or not port.isdecimal() or (":" in address and not address.endswith("]")):
        address, port = rest, ""
    if not port:
        return {"login": f"{user}{at}{address}", "host": address, "port": ", or give its port as user@host:port"}
    login = f"-p {port} {user}{at}{address.strip('[]')}"
    return {"login": login, "host": address, "port": said(" at port {port}, or give its own port", port)}
