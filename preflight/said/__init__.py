"""Sentences for people that programs, commands and other languages can take apart."""

from preflight.said.sentence import (
    HEARD,
    Said,
    braced,
    changed,
    filled,
    heard,
    is_of,
    joined,
    msgid,
    pieces,
    restored,
    said,
    sentences_of,
    stored,
    translated,
    value_in,
)

__all__ = [
    "HEARD",
    "Said",
    "braced",
    "changed",
    "filled",
    "heard",
    "is_of",
    "joined",
    "msgid",
    "pieces",
    "restored",
    "said",
    "sentences_of",
    "stored",
    "translated",
    "value_in",
]
