"""What does a text without values say in another language: itself, or as a list of what the catalogue knows?"""

from __future__ import annotations

from functools import cache

from preflight.report.language.catalogue import catalogue
from preflight.said import braced, pieces

# What joins the parts of a list, and signs between values, by language.
SIGNS = {"zh": {"\n": "\n", "; ": "；", ": ": "：", ", ": "，", " and ": "和"}}


def plain(text: str, language: str) -> str:
    """The text in the language; what the catalogue does not know stays as it is, between words that it knows too."""
    signs = SIGNS.get(language, {})
    if text in signs:
        return signs[text]
    core = text.strip()
    translated = known(core, language)
    if translated:
        return text.replace(core, translated, 1)
    for cut, sign in signs.items():
        parts = text.split(cut)
        if len(parts) > 1 and any(known(part.strip(), language) for part in parts):
            return sign.join(plain(part, language) for part in parts)
    return text


def known(text: str, language: str) -> str:
    """What the catalogue says for a whole text, with its full stop or without; "" for nothing."""
    folded, texts = " ".join(text.split()), _texts(language)
    if folded in texts:
        return texts[folded]
    return f"{texts[folded[:-1]]}。" if folded.endswith(".") and folded[:-1] in texts else ""


@cache
def _texts(language: str) -> dict[str, str]:
    """English without values -> the language."""
    found = catalogue(language).items()
    return {_unbraced(english): _unbraced(other) for english, other in found if english and not _has_fields(english)}


@cache
def _has_fields(template: str) -> bool:
    try:
        return any(piece.name for piece in pieces(template))
    except ValueError:
        return True


def _unbraced(template: str) -> str:
    return template.replace("{{", "{").replace("}}", "}") if template == braced(_single(template)) else template


def _single(template: str) -> str:
    return template.replace("{{", "{").replace("}}", "}")
