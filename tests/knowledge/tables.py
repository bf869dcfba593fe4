"""Which tables of plain rows are there, and what does each say of the examples of its rows?

A table that stands in TABLES is tested by tests/knowledge/test_rows.py, each of its rows by its own examples.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from preflight.facts.subjects.kernel import LogEvent
from preflight.knowledge import data_sheets, gpu_models, interfaces, packages, xids
from preflight.knowledge.variables import judged, leftovers
from preflight.knowledge.variables.kinds import TEXT
from preflight.knowledge.variables.names import ROWS
from preflight.knowledge.variables.names import Row as Variable
from preflight.knowledge.versions import is_within


class Example(NamedTuple):
    """What shows a row, and what is near to it and does not."""

    shows: Any
    neighbour: Any


def itself(row: Any) -> list[Example]:
    """The example and the neighbour that stand in the row."""
    return [Example(row.example, row.neighbour)]


def blank(row: Any) -> Any:
    """The row without what it says; what it is looked up by and its examples stay."""
    kept = {"name", "example", "neighbour"}
    texts = [one.name for one in dataclasses.fields(row) if isinstance(getattr(row, one.name), str)]
    return dataclasses.replace(row, **dict.fromkeys(set(texts) - kept, ""))


class Table(NamedTuple):
    """The rows of a table, and what it says of an example where it has only some of them."""

    rows: tuple[Any, ...]
    says: Callable[[Any, Any], str]  # of what `held` makes of rows, and an example
    examples: Callable[[Any], list[Example]] = itself
    name: Callable[[Any], str] = lambda row: str(row.name)
    held: Callable[[Iterable[Any]], Any] = tuple
    emptied: Callable[[Any], Any] = blank

    def red(self, rows: Iterable[Any]) -> set[str]:
        """The rows of which an example does not hold, where these are all that is known."""
        known = self.held(rows)
        return {self.name(row) for row in self.rows if not all(self._holds(known, one) for one in self.examples(row))}

    def _holds(self, known: Any, one: Example) -> bool:
        return bool(self.says(known, one.shows)) and not self.says(known, one.neighbour)


class Held(NamedTuple):
    """A variable with its value, under one version of every library; one without a version is only looked up."""

    name: str
    value: str = ""
    version: str = ""


def of_a_variable(row: Variable) -> list[Example]:
    """A value that its kind refuses, a version that does not read it, and that it is known."""
    found = [Example(Held(row.name), Held(f"{row.name}_OF_NOBODY"))]
    if row.kind.refused:
        found.append(Example(Held(row.name, row.kind.refused), Held(row.name, row.kind.taken)))
    if row.since:
        found.append(Example(Held(row.name, version="0.1"), Held(row.name, version=row.since)))
    if row.until:
        end = row.until.removeprefix("torch ").partition(":")[0]
        found.append(Example(Held(row.name, version=end), Held(row.name, version=row.since or "0.1")))
    return found


def _of_variables(rows: Mapping[str, Variable], held: Held) -> str:
    row = rows.get(held.name)
    if row is None or not row.source:
        return ""
    if held.value:
        return judged.refused(held.name, held.value, rows)
    return judged.unread(held.name, nccl=held.version, torch=held.version, rows=rows) if held.version else row.source


def _of_leftovers(rows: Iterable[leftovers.Leftover], example: tuple[str, str]) -> str:
    row = leftovers.found(*example, has_rdma=True, rows=rows)
    return row.does if row and row.source else ""


def _of_xids(rows: Mapping[int, xids.Xid], example: str) -> str:
    event = LogEvent(
        "xid", int(example.partition(",")[0]), "0000:07:00", 60.0, f"NVRM: Xid (PCI:0000:07:00): {example}"
    )
    return rows[event.code].name if xids.is_fatal(event, rows) or xids.is_wear(event, rows) else ""


def _of_packages(rows: Iterable[packages.BadPair], held: Mapping[str, str]) -> str:
    return " ".join(row.what for row in packages.together(held, rows) if row.fix and row.source)


def _of_models(rows: Iterable[gpu_models.Model], example: tuple[str, str]) -> str:
    name, cuda = example
    row = gpu_models.model(name, rows)
    return row.fix if row and row.compute_capability and not is_within(cuda, row.cuda) else ""


def _of_wheels(rows: Iterable[gpu_models.Wheel], example: tuple[str, str]) -> str:
    row = gpu_models.wheel(*example, rows)
    return row.least if row else ""


def _of_data_sheets(rows: Iterable[data_sheets.Model], example: tuple[str, float, float]) -> str:
    gpu, *figures = example
    row = data_sheets.model_of(gpu, rows)
    return row.source if row and [row.matmul_tflops_per_s, row.memory_gbytes_per_s] == figures else ""


def of_a_data_sheet(row: data_sheets.Model) -> list[Example]:
    """The figures of the GPU by its name; a slice of it has others."""
    figures = (row.matmul_tflops_per_s, row.memory_gbytes_per_s)
    return [Example((row.gpu, *figures), (f"{row.gpu} MIG 1g.5gb", *figures))]


OF_A_PROGRAM = "31, pid=7, name=python"  # an Xid that the program itself is to blame for

TABLES = {
    "variables": Table(
        tuple(ROWS.values()),
        _of_variables,
        of_a_variable,
        held=lambda rows: {row.name: row for row in rows},
        emptied=lambda row: Variable(row.name, TEXT, source=""),
    ),
    "leftovers": Table(
        leftovers.LEFTOVERS,
        _of_leftovers,
        lambda row: [Example((row.name, row.example), (row.name, row.neighbour))],
    ),
    "xids": Table(
        xids.XIDS,
        _of_xids,
        lambda row: [Example(row.example or f"{row.code}, pid=7, name=python", OF_A_PROGRAM)],
        name=lambda row: str(row.code),
        held=lambda rows: {row.code: row for row in rows},
        emptied=lambda row: dataclasses.replace(row, name=""),
    ),
    "packages": Table(packages.BAD_PAIRS, _of_packages, name=lambda row: f"{row.package}-{row.other}"),
    "gpu_models": Table(
        gpu_models.MODELS,
        _of_models,
        lambda row: [Example((row.gpu, row.example), (row.gpu, row.neighbour))],
        name=lambda row: str(row.pattern),
        emptied=lambda row: dataclasses.replace(row, compute_capability="", cuda="", fix=""),
    ),
    "interfaces": Table(
        interfaces.KINDS,
        lambda rows, name: row.what if (row := interfaces.kind(name, rows)) and row.source else "",
        name=lambda row: str(row.example),
        emptied=lambda row: dataclasses.replace(row, what=""),
    ),
    "data_sheets": Table(
        data_sheets.MODELS,
        _of_data_sheets,
        of_a_data_sheet,
        name=lambda row: str(row.pattern),
        emptied=lambda row: dataclasses.replace(row, source=""),
    ),
    "wheels": Table(gpu_models.LEFT_OUT, _of_wheels, name=lambda row: f"{row.torch} {row.cuda}"),
}
