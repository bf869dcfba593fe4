"""Which commands let the nodes log in to each other?"""

from __future__ import annotations

import shlex

from preflight.judge.commands.words import Case, Remedy, Row
from preflight.said.errors import FactMissing

KNOWN_HOSTS = (
    "mkdir -p -m 700 ~/.ssh && touch ~/.ssh/known_hosts && "
    "ssh-keyscan -- {} | sort -u -o ~/.ssh/known_hosts - ~/.ssh/known_hosts"
)
UNKNOWN = ("Host key verification failed", "host key")


def _logins(case: Case) -> Remedy:
    """The key, or the line of known_hosts, that each peer lacks; the job's user types its password once."""
    refused = [login for login in case.node.trust.logins if login.trouble]
    keys = [one.peer for one in refused if any(words in one.trouble for words in UNKNOWN)]
    closed = [one.peer for one in refused if one.peer not in keys and "denied" in one.trouble.lower()]
    commands = [KNOWN_HOSTS.format(shlex.join(keys))] if keys else []
    if closed:
        commands.append("{ test -f ~/.ssh/id_ed25519 || ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519; }")
        commands += [shlex.join(["ssh-copy-id", "--", peer]) for peer in closed]
    if not commands:
        raise FactMissing("login", "neither a key nor a line of known_hosts is what lacks")
    return Remedy(" && ".join(commands))


ROWS: dict[str, Row] = {"trust.every_node_logs_in_to_the_others": _logins}
