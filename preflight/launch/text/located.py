"""What does a YAML file say, as PyYAML's safe loader reads it, and in which line is each value?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from preflight.judge.ledger.findings import Where
from preflight.said import said
from preflight.said.errors import UsageError

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DEPTH_LIMIT = 60
NODES_LIMIT = 50_000


class Broken(UsageError):
    """A file that the reader of its format stops at: alone it leaves nothing to judge, among others it is a finding."""

    def __init__(self, form: str, reason: str, where: Where):
        super().__init__(said("{file}:{line}: not {form}: {reason}", where.file, where.line, form, reason))
        self.form, self.reason, self.where = form, reason, where


@dataclass(frozen=True)
class Located:
    """A value with its line and the text it was written as; a mapping's values and a list's items are Located too.

    ``duplicates`` are keys of a mapping that are given more than once: key, first line, last line.
    """

    value: Any
    line: int
    text: str = ""
    duplicates: tuple[tuple[str, int, int], ...] = ()
    is_quoted: bool = False

    def get(self, *path: str | int) -> Located | None:
        """The value at a path of keys and indices, None where there is none such."""
        found: Located | None = self
        for key in path:
            if found is None:
                return None
            if isinstance(found.value, dict):
                found = found.value.get(key)
            elif isinstance(found.value, list) and isinstance(key, int) and key < len(found.value):
                found = found.value[key]
            else:
                return None
        return found

    def items(self) -> Iterator[tuple[str, Located]]:
        """The entries of a mapping, none of anything else."""
        if isinstance(self.value, dict):
            yield from self.value.items()

    def each(self) -> list[Located]:
        """The items of a list, none of anything else."""
        return self.value if isinstance(self.value, list) else []

    def mapping(self) -> dict[str, Located]:
        """The entries as a dict, empty for anything else."""
        return self.value if isinstance(self.value, dict) else {}

    def plain(self) -> Any:
        """The value as PyYAML would give it."""
        if isinstance(self.value, dict):
            return {key: held.plain() for key, held in self.value.items()}
        return [held.plain() for held in self.value] if isinstance(self.value, list) else self.value


def load(text: str, file: str) -> list[Located]:
    """The documents of a YAML file; a broken one is a UsageError of one line that names the place."""
    try:
        constructor = Loader("")
        try:
            _refuse_depth(text, file)
            budget = [NODES_LIMIT]
            return [
                _located(node, constructor, file, 0, budget)
                for node in yaml.compose_all(text, Loader=Loader)
                if node is not None
            ]
        finally:
            constructor.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = " ".join(str(error.problem or error.context).split())
        raise Broken("YAML", reason, Where(file, mark.line + 1 if mark else 1)) from None
    except yaml.YAMLError as error:
        raise UsageError(said("{file}: not YAML: {split}", file, " ".join(str(error).split())[:200])) from None
    except RecursionError:
        raise UsageError(said("{file}: nested too deep", file)) from None


def _refuse_depth(text: str, file: str) -> None:
    """UsageError for a file nested too deep: libyaml's composer, unlike its parser, would recurse until it crashes."""
    depth = 0
    event: Any
    for event in yaml.parse(text, Loader=Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH_LIMIT:
            raise UsageError(said("{file}:{line}: nested too deep", file, event.start_mark.line + 1))


def _located(node: Any, constructor: Any, file: str, depth: int, budget: list[int]) -> Located:
    line = node.start_mark.line + 1
    budget[0] -= 1
    if depth > DEPTH_LIMIT or budget[0] < 0:
        raise UsageError(
            said("{file}:{line}: nested too deep, or too large once its aliases are filled in", file, line)
        )
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, constructor, file, depth, budget)
    if isinstance(node, yaml.SequenceNode):
        return Located([_located(child, constructor, file, depth + 1, budget) for child in node.value], line)
    try:
        value = constructor.construct_object(node)
    except (yaml.YAMLError, ValueError, OverflowError, TypeError, AttributeError, KeyError):
        value = str(node.value)  # a tag or date that PyYAML itself refuses
    if not isinstance(value, (str, int, float, bool, type(None))):
        value = str(node.value)
    return Located(value, line, str(node.value), (), node.style in ("'", '"', "|", ">"))


def _mapping(node: Any, constructor: Any, file: str, depth: int, budget: list[int]) -> Located:
    entries: dict[str, Located] = {}
    lines: dict[str, int] = {}
    duplicates: list[tuple[str, int, int]] = []
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            continue
        key, line = str(key_node.value), key_node.start_mark.line + 1
        found = _located(value_node, constructor, file, depth + 1, budget)
        if key == "<<":
            for merged in found.each() or [found]:  # of several the first that has a key gives it
                entries = {**merged.mapping(), **entries}
            continue
        if key in lines:
            duplicates.append((key, lines[key], line))
        lines[key] = line
        # a block's value begins below its key: the key's line is where people look
        entries[key] = Located(found.value, line, found.text, found.duplicates, found.is_quoted)
    return Located(entries, node.start_mark.line + 1, "", tuple(duplicates))
