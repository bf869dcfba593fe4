"""Which variables will the job's ranks have on a node, and from which layer?"""

from __future__ import annotations

from preflight.facts.value import Text, Value


class Variable(Value, frozen=True):
    """A variable of the job's environment and the layer it came from."""

    value: Text
    layer: Text  # "node", "--env", "/etc/nccl.conf", "~/.nccl.conf", a launch file


class Environment(Value, frozen=True, kw_only=True):
    """The variables that steer a job, by allow-list; everything else stays on the node."""

    variables: dict[Text, Variable]
