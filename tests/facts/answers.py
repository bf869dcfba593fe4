"""What is left of a node's answer about one subject once it was decoded?"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from preflight.facts.decode import SCHEMA, Document, decode
from preflight.facts.subjects import SUBJECTS
from preflight.facts.value import Value


def wire(value: Value, **fields: Any) -> dict[str, Any]:
    """The value as a node sends it, with other values in some fields."""
    answer: dict[str, Any] = json.loads(msgspec.json.encode(value))
    return {**answer, **fields}


def decoded(subject: str, answer: object) -> Value:
    """The subject that the controller makes of an answer. Raises FactMissing where it is malformed."""
    document = Document(SCHEMA, "node1", 0, "10.0.0.1", 8, {subject: answer}, {})
    return decode(document).subject(subject, SUBJECTS[subject])
