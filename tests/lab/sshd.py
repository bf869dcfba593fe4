"""How do lab hosts let each other in: keys, sshd's settings, and a client that needs no option?"""

from collections.abc import Mapping
from pathlib import Path

from .spaces import LabError, call

SSHD = "/usr/sbin/sshd"
PID_FILE = "/run/sshd.pid"
CLIENT_CONFIG = "/etc/ssh/ssh_config.d/preflight-lab.conf"


def make_key(path: Path) -> tuple[str, str]:
    """Make a key -> its private and its public text."""
    call(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)])
    return path.read_text(), path.with_name(path.name + ".pub").read_text()


def server_config(address: str, *, scratch: str, environment: Mapping[str, str]) -> str:
    """sshd_config of a host; `environment` is what every session on it starts with."""
    if any('"' in value or "\n" in value for value in environment.values()):
        raise LabError("a session's variable can hold neither a double quote nor a newline: SetEnv has no escape")
    # Only the first SetEnv line counts.
    variables = " ".join(f'"{name}={value}"' for name, value in environment.items())
    return f"""\
ListenAddress {address}
HostKey {scratch}/host_key
AuthorizedKeysFile {scratch}/authorized_keys
PidFile {PID_FILE}
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PermitUserEnvironment no
UseDNS no
PrintMotd no
PrintLastLog no
MaxStartups 500:30:1000
MaxSessions 100
LogLevel VERBOSE
{"SetEnv " + variables if variables else ""}
"""


def client_config(addresses: Mapping[str, str], *, scratch: str) -> str:
    """ssh_config with which `ssh node1 true` works, strictly checked."""
    return f"""\
Host {" ".join([*addresses, *addresses.values()])}
  User root
  IdentityFile {scratch}/key
  IdentitiesOnly yes
  GlobalKnownHostsFile {scratch}/known_hosts
  UserKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  UpdateHostKeys no
"""


def start_command(scratch: str) -> list[str]:
    """The argv that starts a host's sshd; it goes to the background before it listens."""
    return [SSHD, "-f", f"{scratch}/sshd_config", "-E", f"{scratch}/sshd.log"]


def unlocked(shadow: str) -> str:
    """/etc/shadow with which root may log in by key: without PAM, sshd refuses an account locked by '!'."""
    lines = shadow.splitlines(keepends=True)
    return "".join(line.replace(":!", ":*", 1) if line.startswith("root:!") else line for line in lines)


def known_hosts(public_keys: Mapping[str, str], addresses: Mapping[str, str]) -> str:
    """known_hosts of all hosts, by name and by address."""
    lines = (f"{name},{addresses[name]} {' '.join(key.split()[:2])}\n" for name, key in public_keys.items())
    return "".join(lines)
