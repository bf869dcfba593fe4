"""Sentences for people that programs, commands and other languages can take apart."""

from preflight.said.sentence import (
    Said,
    changed,
    filled,
    heard,
    is_of,
    joined,
    knowing,
    msgid,
    pieces,
    restored,
    said,
    sentences_of,
    stored,
    translated,
    value_in,
    values_in,
)

__all__ = [
    "Said",
    "changed",
    "filled",
    "heard",
    "is_of",
    "joined",
    "knowing",
    "msgid",
    "pieces",
    "restored",
    "said",
    "sentences_of",
    "stored",
    "translated",
    "value_in",
    "values_in",
]
