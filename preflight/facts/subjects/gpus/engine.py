"""What does the engine that runs jobs on a node's GPUs say of them: how many has it given away, and to whom?"""

from __future__ import annotations

from preflight.facts.value import Missing, Text, Value

NOT_TOLD = Missing("no engine that counts GPUs led to the node (--hosts=ray does)", "absent")


class Group(Value, frozen=True, kw_only=True):
    """GPUs of one node that are reserved together, by a placement group; nothing needs to run on them."""

    name: Text  # "" where nobody gave it one
    id: Text  # as `ray list placement-groups` has it
    job: Text  # that made it
    state: Text  # "CREATED"
    gpus: float
    is_own: bool  # of the job within which we run


class Engine(Value, frozen=True, kw_only=True):
    """GPUs as the engine counts them, which may be more or fewer than the node has."""

    name: Text  # "Ray"
    gpus: float
    groups: tuple[Group, ...] | Missing
    taken: float | Missing  # by groups, and by whatever runs without one
