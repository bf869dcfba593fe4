"""How is a run stored as report.json, and read again?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from preflight.report.document import RunReport, from_document, to_document
from preflight.report.files import plain_ascii, write_atomically
from preflight.report.printable import printable, without_surrogates
from preflight.said import said
from preflight.said.errors import UsageError

SIZE_LIMIT_BYTES = 512 << 20


def write_json(path: Path, report: RunReport) -> None:
    """Replace `path` by the report, in one step."""
    write_atomically(path, json_text(report).encode("ascii"))


def json_text(report: RunReport) -> str:
    """The document. ASCII only: no control character reaches a terminal that prints it."""
    document = to_document(report)
    text = json.dumps(document, ensure_ascii=True, allow_nan=False)
    if "\\ud" in text:  # a surrogate, of a pair or alone: looking at every string for one costs a second at 1,000 nodes
        text = json.dumps(_encodable(document), ensure_ascii=True, allow_nan=False)
    # Indented by msgspec: json's own indentation gives up its fast encoder, seconds at 1,000 nodes.
    text = msgspec.json.format(text, indent=1)
    return plain_ascii(text) + "\n"


def read_json(path: Path) -> RunReport:
    """The report at `path`; UsageError, one line that names it, for a file that is not one of ours."""
    source = printable(str(path))
    try:
        with path.open("rb") as stream:
            data = stream.read(SIZE_LIMIT_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UsageError(said("{source} cannot be read: {error}", source, printable(str(error)))) from None
    if len(data) > SIZE_LIMIT_BYTES:
        raise UsageError(
            said(
                "{source}: more than {SIZE_LIMIT_BYTES} MiB; that is not a report of preflight",
                source,
                SIZE_LIMIT_BYTES >> 20,
            )
        )
    try:
        document = json.loads(data, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(said("{source}: not a JSON document: {error}", source, printable(str(error)))) from None
    return from_document(document, source=source)


def _encodable(value: Any) -> Any:
    """The document without lone surrogates, which strict parsers refuse even when escaped."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, dict):
        return {without_surrogates(key): _encodable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encodable(inner) for inner in value]
    return value


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = dict(pairs)
    if len(keys) != len(pairs):
        raise ValueError(said("a key is given twice among {key}", sorted((key for key, _ in pairs))))
    return keys


def _no_constant(name: str) -> Any:
    raise ValueError(said("{name} is not a number", name))
