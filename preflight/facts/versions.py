"""How are facts read that another version of preflight stored?

A live node runs the code that this version sent it, so its answer is decoded strictly. A stored file may be older or
newer: a key that this version does not know is ignored, and a fact that it has and the file lacks is missing, with
that reason. Facts that are to be compared over versions therefore have a type that may be Missing.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from preflight.facts.value import Missing, Value
from preflight.said import plain_text

NOT_COLLECTED = "not collected by the version that stored it"


def adapted(facts: Any, kind: type[Value]) -> Any:
    """A stored subject with the keys of this version, as plain JSON; what is of a wrong type stays as it is."""
    return _adapted(facts, _type_of(kind))


@cache
def _type_of(kind: type[Value]) -> inspect.Type:
    return inspect.type_info(kind)


def _adapted(value: Any, kind: inspect.Type) -> Any:
    if isinstance(kind, inspect.UnionType):
        return _adapted(value, _member_for(value, kind))
    if isinstance(kind, inspect.StructType) and isinstance(value, dict):
        return _struct(value, kind)
    if isinstance(kind, inspect.NamedTupleType) and isinstance(value, list):
        return [_adapted(inner, field.type) for inner, field in zip(value, kind.fields, strict=False)]
    if isinstance(kind, inspect.VarTupleType) and isinstance(value, list):
        return [_adapted(inner, kind.item_type) for inner in value]
    if isinstance(kind, inspect.DictType) and isinstance(value, dict):
        return {name: _adapted(inner, kind.value_type) for name, inner in value.items()}
    return value


def _struct(value: dict[str, Any], kind: inspect.StructType) -> dict[str, Any]:
    kept = {field.name: _adapted(value[field.name], field.type) for field in kind.fields if field.name in value}
    for field in kind.fields:
        if field.required and field.name not in value and _may_be_missing(field.type):
            kept[field.name] = msgspec.to_builtins(Missing(NOT_COLLECTED), enc_hook=plain_text)
    return kept


def _member_for(value: Any, kind: inspect.UnionType) -> inspect.Type:
    """The type of a union that a value is of, as far as its keys are looked into."""
    is_missing = isinstance(value, dict) and "missing" in value
    for member in kind.types:
        if isinstance(member, inspect.StructType) and (member.cls is Missing) == is_missing and isinstance(value, dict):
            return member
        if isinstance(value, list) and isinstance(member, (inspect.VarTupleType, inspect.NamedTupleType)):
            return member
        if isinstance(value, dict) and isinstance(member, inspect.DictType) and not is_missing:
            return member
    return inspect.AnyType()


def _may_be_missing(kind: inspect.Type) -> bool:
    members = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return any(isinstance(member, inspect.StructType) and member.cls is Missing for member in members)
