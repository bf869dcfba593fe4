"""A value of a launch file: known with its line, unknown with its expression, or not given."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from preflight.judge.ledger.findings import Where

T = TypeVar("T", covariant=True)  # noqa: PLC0105 -- the short name reads better in Field[T]

# "environment": the default in ${NAME:-value}, which whoever starts the script may replace.
Origin = Literal["written", "tool", "environment"]


COUNT = re.compile(r"[0-9]{1,9}")


def whole(text: str) -> int | None:
    """The number that a text is; None of any other, and of one so long that it counts nothing."""
    return int(text) if COUNT.fullmatch(text) else None


def words(text: str) -> tuple[str, ...]:
    """The words of a table written as one text."""
    return tuple(text.split())


@dataclass(frozen=True)
class Sourced(Generic[T]):
    """A value that a file tells, and the line that tells it."""

    value: T
    file: str
    line: int
    origin: Origin = "written"

    @property
    def where(self) -> Where:
        """File and line."""
        return Where(self.file, self.line)


@dataclass(frozen=True)
class Unknown:
    """A value that only running the script would tell: a command substitution, an argument, a foreign variable.

    ``varies`` says that it is worked out on every node and comes out different there: ``$RANDOM``, ``$(hostname)``;
    ``in_container`` that this happens inside a container; ``per_node`` that every node works it out for itself;
    ``hidden`` names a variable in it that the script sets and does not export to the shell that asks for it.
    """

    expression: str
    file: str
    line: int
    varies: bool = False
    in_container: bool = False
    per_node: bool = True
    hidden: str = ""

    @property
    def where(self) -> Where:
        """File and line."""
        return Where(self.file, self.line)


# None: the file does not say.
Field = Sourced[T] | Unknown | None


def value_of(value: Field[T]) -> T | None:
    """The value where the file tells one, a default that the environment may replace included."""
    return value.value if isinstance(value, Sourced) else None


def firm(value: Field[T]) -> T | None:
    """The value where nothing but an edit of the file can change it, or it is the tool's own default."""
    return value.value if isinstance(value, Sourced) and value.origin != "environment" else None


def written(value: Field[T]) -> bool:
    """Whether the file says anything about it, even if its value is unknown."""
    return isinstance(value, Unknown) or (isinstance(value, Sourced) and value.origin != "tool")


def shown(value: Field[Any]) -> str:
    """A field as a message says it."""
    if value is None:
        return "not set"
    return value.expression if isinstance(value, Unknown) else str(value.value)
