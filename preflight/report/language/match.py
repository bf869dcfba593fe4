"""Which sentence of a catalogue is a finished message, and what does it say in the other language?

Messages are made as plain text. A msgid such as ``{value} on {nodes}`` is found again by its rarest word, and its
placeholders by a pattern; what stands in them is looked up in the same way.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

PLACEHOLDER = re.compile(r"\{(\w+)\}")
WORD = re.compile(r"[A-Za-z][A-Za-z']+")
CODE = re.compile(r"`[^`]*`")
FOREIGN = re.compile(r"[\u2e80-\u9fff\uff00-\uffef]")
# Where a text that is no sentence of ours as a whole is cut, and what joins its parts in Chinese.
CUTS = (("\n", "\n"), ("  ", "  "), (". ", ""), ("; ", "\uff1b"), (": ", "\uff1a"), (" · ", " · "), (", ", "\uff0c"))
FEW_WORDS = 2  # that a placeholder may hold, where the msgid has
FEW_LETTERS = 10  # of its own, or less
DEEPEST = 6


@dataclass(frozen=True)
class Template:
    """A msgid with placeholders, and its translation."""

    msgid: str
    told: str

    @cached_property
    def literals(self) -> list[str]:
        """What stands between the placeholders."""
        return PLACEHOLDER.split(self.msgid)[::2]

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The whole words of the msgid: those that touch no placeholder."""
        plain = PLACEHOLDER.sub("\0", self.msgid.replace("{{", "{").replace("}}", "}"))
        return tuple(
            found[0].lower()
            for found in WORD.finditer(plain)
            if plain[max(found.start() - 1, 0) : found.start()] != "\0" and plain[found.end() : found.end() + 1] != "\0"
        )

    @cached_property
    def weight(self) -> int:
        """How much of the message it fixes: of two that fit, the one with more says more."""
        return sum(map(len, self.literals))

    @cached_property
    def letters(self) -> int:
        """How many letters are its own."""
        return sum(letter.isalpha() for literal in self.literals for letter in literal)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The message that it makes, each placeholder a group of its name; white space may be broken anew."""
        parts = [_spaced(self.literals[0])]
        names = PLACEHOLDER.findall(self.msgid)
        for place, (name, literal) in enumerate(zip(names, self.literals[1:], strict=True)):
            is_first_of_two = not literal and place + 1 < len(names)
            is_second_of_two = place > 0 and not self.literals[place]
            is_a_word = self.literals[place].endswith(" ") and (literal.startswith(" ") or not literal)
            kind = "(?:[^A-Za-z0-9].*?)?" if is_second_of_two else ".+?" if is_first_of_two or is_a_word else ".*?"
            kind = "e?s?" if is_ending(name) else r"\d+" if name == "count" else kind
            parts += [f"(?P<{name}>{kind})", _spaced(literal)]
        return re.compile("".join(parts), re.DOTALL)


def is_ending(name: str) -> bool:
    """Whether a placeholder is the ending of a plural, which other languages do without."""
    return bool(re.fullmatch(r"s\d*", name))


def _spaced(literal: str) -> str:
    text = literal.replace("{{", "{").replace("}}", "}")
    return r"\s+".join(re.escape(part) for part in re.split(r"\s+", text))


class Matcher:
    """Finds what messages say in the language of a catalogue, msgid -> translation."""

    def __init__(self, catalogue: Mapping[str, str]) -> None:
        self.plain = {_folded(msgid): told for msgid, told in catalogue.items() if not PLACEHOLDER.search(msgid)}
        templates = [Template(msgid, told) for msgid, told in catalogue.items() if PLACEHOLDER.search(msgid)]
        often = Counter(word for template in templates for word in set(template.words))
        self.by_word: dict[str, list[Template]] = defaultdict(list)
        for template in sorted(templates, key=lambda held: -held.weight):
            if template.words:
                self.by_word[min(template.words, key=lambda word: often[word])].append(template)
        self.say = lru_cache(maxsize=20_000)(self._say)

    def _say(self, text: str, depth: int = 0) -> str:
        core = text.strip()
        if not core or depth > DEEPEST or not WORD.search(core):
            return text
        whole = self.plain.get(_folded(core)) or self._ended(core) or self._filled(core, depth)
        whole = whole or self._parted(core, depth)
        return text if whole is None else text.replace(core, whole, 1)

    def knows(self, text: str) -> bool:
        """Whether a text is one sentence of the catalogue."""
        return _folded(text) in self.plain or self._ended(text) is not None

    def _ended(self, core: str) -> str | None:
        """A sentence that is put together from one without its full stop."""
        told = self.plain.get(_folded(core[:-1])) if core.endswith(".") else None
        return f"{told}。" if told else None

    def _filled(self, core: str, depth: int) -> str | None:
        words = [found[0].lower() for found in WORD.finditer(core)]
        candidates = [template for word in dict.fromkeys(words) for template in self.by_word.get(word, ())]
        for template in sorted(candidates, key=lambda held: -held.weight):
            found = template.pattern.fullmatch(core)
            if found is not None and self._can_be(template, found.groupdict()):
                values = {name: self._say(value, depth + 1) for name, value in found.groupdict().items()}
                filled = PLACEHOLDER.sub(lambda place, values=values: values[place[1]], template.told)  # type: ignore[misc]
                return filled.replace("{{", "{").replace("}}", "}")
        return None

    def _can_be(self, template: Template, found: Mapping[str, str]) -> bool:
        """Whether what would be filled in can be meant: a msgid of one word fits almost anything."""
        return template.letters > FEW_LETTERS or all(
            _folded(text) in self.plain or (len(text.split()) <= FEW_WORDS and not re.search(r"[,;:] ", text))
            for text in found.values()
        )

    def _parted(self, core: str, depth: int) -> str | None:
        """The text in parts, where at least one of them says something; code is never cut."""
        for cut, joint in CUTS:
            parts = _cut(core, cut)
            if len(parts) > 1:
                if cut == ". ":
                    parts = self._sentences([*(f"{part}." for part in parts[:-1]), parts[-1]])
                said = [self._say(part, depth + 1) for part in parts]
                if said != parts:
                    if cut == ". ":
                        return "".join(part if FOREIGN.search(part[-1:]) else f"{part} " for part in said).rstrip()
                    return joint.join(said) if FOREIGN.search("".join(said)) else cut.join(said)
        return None

    def _sentences(self, parts: list[str]) -> list[str]:
        """The longest run of sentences from the first on that the catalogue has as one, and the others."""
        for end in range(len(parts), 1, -1):
            if self.knows(head := " ".join(parts[:end])):
                return [head, *parts[end:]]
        return parts


def _folded(text: str) -> str:
    return " ".join(text.split())


def _cut(text: str, cut: str) -> list[str]:
    if cut not in text:
        return [text]
    codes: list[str] = []

    def keep(found: re.Match[str]) -> str:
        codes.append(found[0])
        return f"\0{len(codes) - 1}\0"

    parts = CODE.sub(keep, text).split(cut)
    return [re.sub(r"\0(\d+)\0", lambda found: codes[int(found[1])], part) for part in parts]
