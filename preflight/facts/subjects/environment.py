"""Which variables will the job's ranks have on a node, and from which layer?"""

from __future__ import annotations

import msgspec

from preflight.facts.value import Missing, Text, Value

GIVEN = ("launch files", "--env")


class Variable(Value, frozen=True):
    """A variable of the job's environment and the layer it came from."""

    value: Text
    layer: Text  # "node", "--env", "/etc/nccl.conf", "~/.nccl.conf", a launch file

    def source(self) -> str:
        """The layer, as a person understands it in a message."""
        return "the node's own environment" if self.layer == "node" else self.layer


class Environment(Value, frozen=True, kw_only=True):
    """The variables that steer a job, by allow-list; everything else stays on the node."""

    variables: dict[Text, Variable]
    # Kind of shell ("a login over ssh", "a new window") -> what a person's own has there. A new window is asked for
    # only where it may read files that a login does not.
    shells: dict[Text, dict[Text, Text]] = msgspec.field(default_factory=dict)
    shells_unread: dict[Text, Text] = msgspec.field(default_factory=dict)  # kind of shell -> why that is not known
    # Variables that name a file which cannot be read there -> why.
    unread_files: tuple[tuple[Text, Text], ...] | Missing = Missing("not reported", "absent")

    preloaded: tuple[Text, ...] = ()  # the libraries of /etc/ld.so.preload

    def only_typed(self, name: str) -> dict[str, str]:
        """What a variable is in the shells of people, where that is not what the job's environment has.

        Nothing where the launch files or --env set it: they do for every way to start.
        """
        held = self.variables.get(name)
        if held is not None and held.layer in GIVEN:
            return {}
        own = "" if held is None else held.value
        found = {kind: shell.get(name, "") for kind, shell in self.shells.items()}
        return {kind: value for kind, value in found.items() if value not in ("", own)}
