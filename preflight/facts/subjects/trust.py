"""Which nodes can a node log in to?"""

from __future__ import annotations

import msgspec

from preflight.facts.value import Text, Value


class Login(Value, frozen=True):
    """One attempt to log in to a peer without being asked anything."""

    peer: Text
    trouble: Text  # "" where it worked
    seconds: float
    python: Text  # where the peer's non-interactive PATH finds the job's interpreter; "" where it does not
    printed: Text = ""  # by the shell's start files, before the output of the command


class Trust(Value, frozen=True, kw_only=True):
    """The logins that were tried from this node."""

    logins: tuple[Login, ...]
    # What the launch calls on this node -> where PATH finds it, "" where it does not; asked of the first node.
    programs: dict[Text, Text] = msgspec.field(default_factory=dict)
    unset: tuple[Text, ...] = ()  # variables that the launch takes for set
    launchers: tuple[Text, ...] = ()  # what starts the other nodes over ssh, from the first node
