"""How are the documents of thousands of nodes kept until they are written?"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from preflight.facts import decode
from preflight.facts.decode import Answer, Document
from preflight.facts.value import Missing
from preflight.said import plain_text


class _Written(msgspec.Struct, frozen=True):
    """A Document whose facts are JSON still."""

    schema: int
    node: str
    index: int
    address: str
    slots: int
    subjects: dict[str, msgspec.Raw]
    missing: dict[str, Missing]


@dataclass(frozen=True)
class Documents(Mapping[str, Document]):
    """Node -> its document. Each is held packed, a twentieth of its size, and unpacked when it is asked for."""

    _packed: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)  # the document, and what came later

    @classmethod
    def of(cls, documents: Iterable[Document]) -> Documents:
        """The documents by their nodes, in the order they are given in."""
        return cls({document.node: (packed(document),) for document in documents})

    @classmethod
    def of_packed(cls, documents: Mapping[str, bytes]) -> Documents:
        """Node -> what `packed` made of its document."""
        return cls({name: (data,) for name, data in documents.items()})

    def merged(self, answers: Mapping[str, Iterable[bytes]]) -> Documents:
        """With what the nodes gave in further rounds: node -> what `packed` made of each answer, in their order."""
        return Documents({**self._packed, **{name: (*self._packed[name], *it) for name, it in answers.items()}})

    def __getitem__(self, name: str) -> Document:
        first, *others = self._packed[name]
        document: Document = _unpack(first, Document)
        for other in others:
            document = decode.merge(document, _unpack(other, Answer))
        return document

    def as_stored(self, name: str) -> bytes:
        """The bytes of facts/<node>.json; what the node said is not decoded for them."""
        first, *others = self._packed[name]
        document: _Written = _unpack(first, _Written)
        for other in others:
            subjects, missing = _unpack(other, tuple[dict[str, msgspec.Raw], dict[str, Missing]])
            document = msgspec.structs.replace(
                document, subjects={**document.subjects, **subjects}, missing={**document.missing, **missing}
            )
        return decode.encode(document)

    def __contains__(self, name: object) -> bool:  # that of Mapping makes the document
        return name in self._packed

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)


def packed(value: Document | Answer) -> bytes:
    """A document, or what a node gave in a further round, as `Documents` holds it."""
    try:
        text = msgspec.json.encode(value, enc_hook=plain_text)
    except UnicodeEncodeError:  # a lone surrogate, which a stored document may not have either
        text = msgspec.json.encode(decode.encodable(msgspec.to_builtins(value, enc_hook=plain_text)))
    return zlib.compress(text, 1)


def _unpack(data: bytes, kind: Any) -> Any:
    return msgspec.json.decode(zlib.decompress(data), type=kind)
