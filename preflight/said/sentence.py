"""How is a sentence made that a person, a program and another language can each read in their own way?

    said("the node calls itself {hostname}", node.identity.hostname)

A `Said` is the English text, and keeps its template and the values that stand in it. Other languages have a template of
their own for each, and commands and programs take the values: no sentence is ever read back.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, NamedTuple

FORMATTER = string.Formatter()
FOREIGN = re.compile(r"[\u2e80-\u9fff\uff00-\uffef]")
NOTHING: Mapping[str, Any] = {}
HEARD: ContextVar[list[Said] | None] = ContextVar("HEARD", default=None)


class Piece(NamedTuple):
    """A literal of a template and the field after it; the last one may have no field."""

    literal: str
    name: str
    spec: str
    conversion: str


class Said(str):
    """A sentence with its template and the values in it, which may be sentences themselves; or a list of sentences.

    It is the English text wherever a text is wanted. One that lists sentences has ``parts``, and no template. What is
    ``known`` of it stands in no word: the row of knowledge that it comes from, and values that a remedy needs.
    """

    __slots__ = ("joint", "known", "parts", "template", "values")

    known: Mapping[str, Any]
    template: str
    values: Mapping[str, Any]
    parts: tuple[str, ...]
    joint: str

    def __str__(self) -> str:
        return self  # str(error) gives the sentence that the error was made with

    def __mul__(self, times: Any) -> str:
        return self if times == 1 else str.__mul__(self, times)  # a sentence that is said or not

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            _made,
            (str.__str__(self), self.template, self.values, self.parts, self.joint),
            (None, {"known": self.known}),
        )

    def texts(self) -> dict[str, str]:
        """Field -> what stands there in English, which may be a sentence."""
        return _texts(self.template, self.values)


def said(template: str, *values: Any) -> str:
    """The sentence that a template makes with these values, one for each of its fields in the order of the fields.

    A field that stands twice takes one value. Raises ValueError where there are more or fewer values than fields.
    """
    names = dict.fromkeys(piece.name for piece in pieces(template) if piece.name)
    plain = (value if isinstance(value, (str, int, float)) else str(value) for value in values)
    kept = dict(zip(names, plain, strict=True))
    return _made(filled(template, _texts(template, kept)), template, kept, (), "")


def joined(sentences: Iterable[str], joint: str = "; ") -> str:
    """Several sentences as one; one alone stays what it is, and none is an empty text."""
    parts = tuple(sentences)
    if len(parts) < 2:
        return parts[0] if parts else ""
    return _made(joint.join(parts), "", {}, parts, joint)


def knowing(text: str, **known: Any) -> str:
    """The same sentence with values for programs that do not stand in its words; an empty text says nothing."""
    if not text:
        return text
    if isinstance(text, Said):
        known = {**text.known, **known}
        return _made(str.__str__(text), text.template, text.values, text.parts, text.joint, known=known)
    return _made(text, braced(text), {}, (), "", known=known)


@contextmanager
def heard() -> Iterator[list[Said]]:
    """The sentences that are made within: pytest hands only the text of an assertion's message on."""
    made: list[Said] = []
    token = HEARD.set(made)
    try:
        yield made
    finally:
        HEARD.reset(token)


def sentences_of(text: str) -> Iterator[str]:
    """The single sentences of a text that lists some, and of a list in it; a list that is known as one thing is one."""
    if isinstance(text, Said) and text.parts and not text.known:
        for part in text.parts:
            yield from sentences_of(part)
    else:
        yield text


def value_in(text: str, name: str) -> Any:
    """What stands under a name in a sentence, or in one within it. Raises KeyError where nothing does."""
    for value in values_in(text, name):
        return value
    raise KeyError(name)


def values_in(text: str, name: str) -> Iterator[Any]:
    """All that stands, or is known, under a name in a sentence and in those within it."""
    for held in _within(text):
        for values in (held.known, held.values):
            if name in values:
                yield values[name]


def leaves(text: Any) -> Iterator[str]:
    """Every plain text that stands in a sentence as a value, however deep; a text that is no sentence itself."""
    if not isinstance(text, Said):
        if isinstance(text, str):
            yield text
        return
    for inner in (*text.parts, *text.values.values()):
        yield from leaves(inner)


def is_of(text: str, template: str) -> bool:
    """Whether a sentence, or one within it, was made from a template."""
    return any(held.template == template for held in _within(text))


def filled(template: str, texts: Mapping[str, str]) -> str:
    """A template with a text in each of its fields; one that has no text is left out."""
    return "".join(piece.literal + texts.get(piece.name, "") for piece in pieces(template))


@lru_cache(maxsize=1 << 13)
def pieces(template: str) -> tuple[Piece, ...]:
    """A template, cut into literals and fields."""
    return tuple(
        Piece(literal, name or "", spec or "", conversion or "")
        for literal, name, spec, conversion in FORMATTER.parse(template)
    )


@lru_cache(maxsize=1 << 13)
def msgid(template: str) -> str:
    """A template without the formats of its fields, as catalogues of other languages have it."""
    return "".join(braced(piece.literal) + (f"{{{piece.name}}}" if piece.name else "") for piece in pieces(template))


@lru_cache(maxsize=1 << 13)
def _has_words(template: str) -> bool:
    """Whether a template says something itself, and does not only put its values side by side."""
    return any(letter.isalpha() for piece in pieces(template) for letter in piece.literal)


def braced(text: str) -> str:
    """A plain text as a template that makes it."""
    return text.replace("{", "{{").replace("}", "}}")


def changed(text: str, change: Callable[[str], str]) -> str:
    """What `change` makes of a text; a sentence stays one where its values alone were changed."""
    new = change(str.__str__(text))
    if new == text:
        return text
    if isinstance(text, Said):
        parts = tuple(changed(part, change) for part in text.parts)
        values = {
            name: changed(value, change) if isinstance(value, str) else value for name, value in text.values.items()
        }
        again = text.joint.join(parts) if parts else filled(text.template, _texts(text.template, values))
        if again == new:
            return _made(new, text.template, values, parts, text.joint, known=text.known)
    return new


def translated(text: str, template_of: Callable[[str], str | None], plain: Callable[[str], str]) -> str:
    """A sentence by the templates of another language; `plain` says what is no sentence with values."""
    if not isinstance(text, Said):
        return plain(text)
    if text.parts:
        return plain(text.joint).join(translated(part, template_of, plain) for part in text.parts)
    template = template_of(" ".join(msgid(text.template).split()))
    if template is None and _has_words(text.template):
        return str.__str__(text)
    texts = {name: translated(held, template_of, plain) for name, held in text.texts().items()}
    if template is not None:
        return _spaced(part for piece in pieces(template) for part in (piece.literal, texts.get(piece.name, "")))
    # What only puts values side by side does so in every language, with that language's signs.
    made = pieces(text.template)
    return _spaced(part for piece in made for part in (plain(piece.literal), texts.get(piece.name, "")))


def _spaced(parts: Iterable[str]) -> str:
    """The parts in a row: a space stands before a name in Latin letters, and none between two Chinese words."""
    made = ""
    for part in parts:
        if made.endswith(" ") and FOREIGN.match(made[-2:-1]) and FOREIGN.match(part):
            made = made[:-1]
        is_doubled = part.startswith(" ") and FOREIGN.match(made[-1:]) and FOREIGN.match(part[1:2])
        made += part[1:] if is_doubled else part
    return made


def plain_text(value: Any) -> str:
    """A sentence as its text alone, for encoders that ask what an object is. Raises TypeError for anything else."""
    if isinstance(value, Said):
        return str.__str__(value)
    raise TypeError(f"{type(value).__name__} is no sentence")


def plain_values(value: Any) -> Any:
    """Lists, dicts and texts without a sentence among them: what goes to a node knows nothing of templates."""
    if isinstance(value, Said):
        return str.__str__(value)
    if isinstance(value, dict):
        return {plain_values(key): plain_values(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(plain_values, value)) if not hasattr(value, "_fields") else value
    return value


def stored(text: str) -> Any:
    """A text as plain JSON: itself, or a sentence with its template and values."""
    if not isinstance(text, Said):
        return text
    if text.parts:
        return {"parts": [stored(part) for part in text.parts], "joint": text.joint}
    values = {name: stored(value) if isinstance(value, str) else value for name, value in text.values.items()}
    return {"template": text.template, "values": values}


def restored(document: Any) -> str:
    """The text that `stored` has made plain. Raises ValueError or TypeError for anything else."""
    if isinstance(document, str):
        return document
    if "parts" in document:
        return joined([restored(part) for part in document["parts"]], document["joint"])
    values = document["values"]
    return said(
        document["template"],
        *(restored(value) if isinstance(value, (dict, str)) else value for value in values.values()),
    )


def _within(text: Any) -> Iterator[Said]:
    if isinstance(text, Said):
        yield text
        for inner in (*text.parts, *text.values.values()):
            yield from _within(inner)


def _made(
    text: str,
    template: str,
    values: Mapping[str, Any],
    parts: tuple[str, ...],
    joint: str,
    *,
    known: Mapping[str, Any] = NOTHING,
) -> Said:
    made = str.__new__(Said, text)
    listening = HEARD.get()
    if listening is not None:
        listening.append(made)
    made.template, made.values, made.parts, made.joint, made.known = template, values, parts, joint, known
    return made


def _texts(template: str, values: Mapping[str, Any]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for piece in pieces(template):
        if piece.name:
            value = values[piece.name]
            if piece.spec or piece.conversion:
                value = format(FORMATTER.convert_field(value, piece.conversion or None), piece.spec)
            texts[piece.name] = value if isinstance(value, str) else str(value)
    return texts
