"""Is a node's answer well-formed, and what does it say?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from preflight.facts.node import NodeFacts
from preflight.facts.shared import Shared
from preflight.facts.subjects import ON_DEMAND, SUBJECTS
from preflight.facts.value import Missing, Value
from preflight.facts.versions import NOT_COLLECTED, adapted
from preflight.said import plain_text, said
from preflight.said.errors import UsageError

SCHEMA = 1
FACTS_FILE_LIMIT_BYTES = 64 << 20
NO_ANSWER = Missing("the node did not answer")

# What a node gave in one round: subject -> its facts in the node's own words, and subject -> why it is missing.
Answer = tuple[Mapping[str, dict[str, Any]], Mapping[str, Missing]]


class Document(msgspec.Struct, frozen=True):
    """A node's facts as they are stored in facts/<node>.json, in the node's own words; newer keys are ignored."""

    schema: int
    node: str
    index: int
    address: str
    slots: int
    subjects: dict[str, dict[str, Any]]
    missing: dict[str, Missing]


def decode(document: Document, shared: Shared | None = None) -> NodeFacts:
    """The typed facts of one node; a subject that is not of its type is missing, with the reason.

    What `shared` has seen of other nodes is not held twice.
    """
    silent = {**dict.fromkeys(SUBJECTS, NO_ANSWER), **ON_DEMAND}
    node = NodeFacts(document.node, document.index, document.address, {}, silent, document.slots)
    return with_answer(node, (document.subjects, document.missing), shared)


def with_answer(node: NodeFacts, answer: Answer, shared: Shared | None = None) -> NodeFacts:
    """The facts of a node with those of a further round; only these are decoded."""
    given, reasons = answer
    subjects: dict[str, Value] = {}
    missing = dict(reasons)
    for name, facts in given.items():
        if name not in SUBJECTS:
            missing[name] = Missing("not a subject that was asked for")
            continue
        try:
            value = msgspec.convert(facts, type=SUBJECTS[name], strict=True)
            subjects[name] = value if shared is None else shared.same(value)
        except (msgspec.ValidationError, UnicodeError) as error:
            missing[name] = Missing(said("the node's answer is malformed: {error}", error))
    return replace(
        node,
        subjects={**node.subjects, **subjects},
        missing={name: reason for name, reason in {**node.missing, **missing}.items() if name not in subjects},
    )


def decode_stored(document: Document, shared: Shared | None = None) -> NodeFacts:
    """The typed facts in a stored document, whose version of preflight may have had other subjects and facts."""
    node = decode(document, shared)
    known = document.subjects.keys() & SUBJECTS.keys()
    absent = SUBJECTS.keys() - known - document.missing.keys() - ON_DEMAND.keys()
    if known == document.subjects.keys() == node.subjects.keys() and not absent:
        return node
    subjects = {
        name: document.subjects[name] if name in node.subjects else adapted(document.subjects[name], SUBJECTS[name])
        for name in known
    }
    missing = {**document.missing, **dict.fromkeys(absent, Missing(NOT_COLLECTED))}
    return decode(msgspec.structs.replace(document, subjects=subjects, missing=missing), shared)


def encode(document: msgspec.Struct) -> bytes:
    """The bytes of facts/<node>.json; ASCII, so no control character of a node reaches a terminal."""
    try:
        made = msgspec.json.encode(document, enc_hook=plain_text)
    except UnicodeEncodeError:
        made = msgspec.json.encode(encodable(msgspec.to_builtins(document, enc_hook=plain_text)))
    if made.isascii():  # as nearly all are: twenty times as fast
        text = msgspec.json.format(made, indent=1).decode()
    else:
        text = json.dumps(json.loads(made), ensure_ascii=True, indent=1)
    # DEL is the one control character that JSON leaves as it is.
    return text.replace("\x7f", "\\u007f").encode() + b"\n"


def encodable(value: Any) -> Any:
    """The value without lone surrogates, which strict parsers refuse: we must be able to read what we write."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {encodable(key): encodable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [encodable(inner) for inner in value]
    return value


def read(path: Path) -> Document:
    """A stored facts file. Raises UsageError when it is not one."""
    try:
        if path.stat().st_size > FACTS_FILE_LIMIT_BYTES:
            raise UsageError(
                said("{path}: larger than {FACTS_FILE_LIMIT_BYTES} MiB", path, FACTS_FILE_LIMIT_BYTES >> 20)
            )
        document = msgspec.json.decode(path.read_bytes(), type=Document, strict=True)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
        raise UsageError(said("{path}: not a facts file: {error}", path, error)) from None
    if document.schema != SCHEMA:
        raise UsageError(said("{path}: schema {schema}; this version reads {SCHEMA}", path, document.schema, SCHEMA))
    return document


def merge(document: Document, answer: Answer) -> Document:
    """The document with the answers of a further round."""
    subjects, missing = answer
    return msgspec.structs.replace(
        document, subjects={**document.subjects, **subjects}, missing={**document.missing, **missing}
    )
