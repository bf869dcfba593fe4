"""Which sentence of a catalogue is a finished message, and what does it say in the other language?

Messages are made as plain text. A msgid such as ``{value} on {nodes}`` is found again by its rarest word, and its
placeholders by a pattern; what stands in them is looked up in the same way.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

PLACEHOLDER = re.compile(r"\{(\w+)\}")
PLACED = re.compile(r"\{\{(\w+)\}\}")
ADDS = re.compile(r"\{(\w+)\}[;:,] ")
WORD = re.compile(r"[A-Za-z][A-Za-z']+")
KEPT = re.compile(r"`[^`]*`|\([^()]*\)|\.{3}")  # code, what stands in brackets, and what was left out are not cut
FOREIGN = re.compile(r"[\u2e80-\u9fff\uff00-\uffef]")
# Where a text that is no sentence of ours as a whole is cut, and what joins its parts in Chinese.
CUTS = (("\n", "\n"), ("  ", "  "), (". ", ""), ("; ", "\uff1b"), (": ", "\uff1a"), (" · ", " · "), (", ", "\uff0c"))
FEW_WORDS = 2  # that a placeholder may hold, where the msgid has
FEW_LETTERS = 5  # of its own, or less
BRACKETED = re.compile(r"(?:(.*\S) )?\(([^()]+)\)", re.DOTALL)
DEEPEST = 16
MANY_LETTERS = 24  # from which on a sentence of ours holds whatever stands in it
VALUE_WORDS = 8
MOST_PARTS = 12  # of more, no run is looked for
COUNTS = {"count": r"\d+", "gbytes_per_s": r"[\d.e+-]+"}  # placeholders that hold a number
NAME = re.compile(r"[=_/.\d-]|:\S")
LEADING = "\uff1b\uff0c\uff1a; ,"
AFTER = "_"  # begins the name of a group for what follows a value
MOST_LETTERS = 1_000_000  # that are looked at for one message, its parts and what stands in them; most take 50,000
EACH_TRY = 200  # letters that comparing a sentence with a text costs, beside those of the text
LONGEST = 4000  # letters: what is longer is a log or a stack, and no message


@dataclass(frozen=True)
class Template:
    """A msgid with placeholders, and its translation."""

    msgid: str
    translated: str

    @cached_property
    def literals(self) -> list[str]:
        """What stands between the placeholders."""
        return PLACEHOLDER.split(self.msgid)[::2]

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The whole words of the msgid: those that touch no placeholder."""
        plain = PLACEHOLDER.sub(lambda place: "" if is_ending(place[1]) else "\0", self.msgid)
        return tuple(
            found[0].lower()
            for found in WORD.finditer(plain)
            if plain[max(found.start() - 1, 0) : found.start()] != "\0" and plain[found.end() : found.end() + 1] != "\0"
        )

    @cached_property
    def has_ending(self) -> bool:
        """Whether a word of it may be a plural."""
        return any(map(is_ending, PLACEHOLDER.findall(self.msgid)))

    @cached_property
    def weight(self) -> int:
        """How much of the message it fixes: of two that fit, the one with more says more."""
        return sum(map(len, self.literals))

    @cached_property
    def letters(self) -> int:
        """How many letters are its own."""
        return sum(letter.isalpha() for literal in self.literals for letter in literal)

    @cached_property
    def adds_to(self) -> str:
        """The place of the sentence that it adds to, as in "{message}; wanted ACTIVE"; "" where there is none."""
        return found[1] if (found := ADDS.match(self.msgid)) else ""

    @cached_property
    def is_telling(self) -> bool:
        """Whether its own words say enough: those of "{value} on {nodes}" fit almost anything."""
        return self.letters > FEW_LETTERS or any("(" in literal for literal in self.literals)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The message that it makes, each placeholder a group of its name; white space may be wrapped differently.

        A value ends where what follows it first stands, for good: ``(?=(...))`` and a reference to its group are an
        atomic group, which Python itself has from 3.11 on. So a text that almost fits takes no longer than one that
        fits, whoever wrote it.
        """
        made = ""
        stretches = self._stretches()
        for place, (values, follows) in enumerate(stretches):
            after = follows + (r"\Z" if place + 1 == len(stretches) else "")
            groups = "".join(f"(?P<{name}>{kind})" for name, kind in values.items())
            again = "".join(f"(?P={name})" for name in values)
            # Of two values side by side the first ends where the second may begin; tried only where all of it ends.
            ends = f"(?=.+?{after})" if len(values) > 1 else ""
            made += f"{ends}(?={groups}(?P<{AFTER}{place}>{after})){again}(?P={AFTER}{place})"
        return re.compile(made, re.DOTALL)

    def values(self, core: str) -> dict[str, str] | None:
        """What stands in the places of a message; None where it is not of this msgid."""
        found = self.pattern.match(core)
        if found is None:
            return None
        return {name: text for name, text in found.groupdict().items() if not name.startswith(AFTER)}

    def filled(self, values: Mapping[str, str]) -> str:
        """The translation with these values, whose own braces stay as they are."""
        pieces = PLACEHOLDER.split(self.translated)
        pieces[::2] = map(_unbraced, pieces[::2])
        pieces[1::2] = (values[name] for name in pieces[1::2])
        return _joined(pieces)

    def _stretches(self) -> list[tuple[dict[str, str], str]]:
        """Places of any length that stand side by side, each with its pattern; and the pattern of what follows."""
        names = PLACEHOLDER.findall(self.msgid)
        stretches: list[tuple[dict[str, str], str]] = [({}, _spaced(self.literals[0]))]
        for place, (name, literal) in enumerate(zip(names, self.literals[1:], strict=True)):
            is_first_of_two = not literal and place + 1 < len(names)
            is_second_of_two = place > 0 and not self.literals[place]
            is_a_word = self.literals[place].endswith(" ") and (literal.startswith(" ") or not literal)
            values, after = stretches[-1]
            if name in names[:place]:
                stretches[-1] = (values, f"{after}(?P={name}){_spaced(literal)}")
            elif is_ending(name) or name in COUNTS:
                kind = "e?s?" if is_ending(name) else COUNTS[name]
                stretches[-1] = (values, f"{after}(?P<{name}>{kind}){_spaced(literal)}")
            else:
                kind = "(?:[ ,;:(].*?)?" if is_second_of_two else ".+?" if is_first_of_two or is_a_word else ".*?"
                if values and not after:
                    stretches.pop()
                    stretches.append(({**values, name: kind}, _spaced(literal)))
                else:
                    stretches.append(({name: kind}, _spaced(literal)))
        return stretches


def is_ending(name: str) -> bool:
    """Whether a placeholder is the ending of a plural, which other languages do without."""
    return bool(re.fullmatch(r"s\d*", name))


def _spaced(literal: str) -> str:
    text = _unbraced(literal)
    spaced = r"\s+".join(re.escape(part) for part in re.split(r"\s+", text))
    return rf"(?<!\s){spaced}" if text[:1].isspace() else spaced  # else each space of many is tried as the first


class _TooLong(Exception):
    """A message can be divided in so many ways that nobody waits for all of them; only a node writes such a one."""


class Matcher:
    """Finds what messages say in the language of a catalogue, msgid -> translation."""

    def __init__(self, catalogue: Mapping[str, str]) -> None:
        # What is filled in later, "mount it on {node}" in a table, stands in the catalogue with its braces doubled.
        catalogue = {
            PLACED.sub(r"{\1}", msgid): PLACED.sub(r"{\1}", translated) for msgid, translated in catalogue.items()
        }
        plain = {msgid: translated for msgid, translated in catalogue.items() if not PLACEHOLDER.search(msgid)}
        self.plain = {_folded(_unbraced(msgid)): _unbraced(translated) for msgid, translated in plain.items()}
        templates = [
            Template(msgid, translated) for msgid, translated in catalogue.items() if PLACEHOLDER.search(msgid)
        ]
        often = Counter(word for template in templates for word in set(template.words))
        self.by_word: dict[str, list[Template]] = defaultdict(list)
        self.weak_by_word: dict[str, list[Template]] = defaultdict(list)
        for template in templates:
            if template.words:
                among = self.by_word if template.is_telling else self.weak_by_word
                rarest = min(template.words, key=lambda word: often[word])
                for ending in ("", "s", "es") if template.has_ending else ("",):
                    among[f"{rarest}{ending}"].append(template)
        self._letters = 0  # looked at for the present message
        self._translated = lru_cache(maxsize=50_000)(self._find)  # what is put together from parts asks for them again

    def say(self, text: str) -> str:
        """A message in the language, as far as the catalogue has it; one that takes too long stays as it is."""
        self._letters = 0
        try:
            return self._say(text, 0)
        except _TooLong:
            return text

    def _say(self, text: str, depth: int) -> str:
        core = text.strip()
        is_ours = core and depth <= DEEPEST and WORD.search(core)
        if not is_ours or len(core) > LONGEST:
            return text
        return text.replace(core, self._translated(core, depth), 1)

    def _find(self, core: str, depth: int) -> str:
        translated = self._whole(core, depth) or self._weak(core, depth, is_short=True)
        translated = translated or self._led(core, depth) or self._headed(core, depth) or self._parted(core, depth)
        return translated or self._bracketed(core, depth) or self._weak(core, depth, is_short=False) or core

    def knows(self, text: str) -> bool:
        """Whether a text is one sentence of the catalogue."""
        return _folded(text) in self.plain or self._ended(text) is not None

    def _whole(self, core: str, depth: int) -> str | None:
        """A text that one sentence of the catalogue fits as a whole, and hardly by accident."""
        self._count(core)
        return self.plain.get(_folded(core)) or self._ended(core) or self._filled(core, depth, self.by_word)

    def _count(self, core: str) -> None:
        self._letters += len(core) + EACH_TRY
        if self._letters > MOST_LETTERS:
            raise _TooLong

    def _ended(self, core: str) -> str | None:
        """A sentence that is put together from one without its full stop."""
        translated = self.plain.get(_folded(core[:-1])) if core.endswith(".") else None
        return f"{translated}。" if translated else None

    def _filled(self, core: str, depth: int, among: Mapping[str, list[Template]]) -> str | None:
        """The sentence that fits with values in its places; where it has many letters, with anything in them."""
        fitting = list(self._fitting(core, among))
        for template, found in fitting:  # first: the value that ends a sentence would take in what is added to it
            if template.adds_to and self._whole(found[template.adds_to], depth + 1):
                return template.filled(self._said(found, depth))
        for template, found in fitting:
            is_plain = all(_is_a_value(value) or self._is_known(value, depth + 1) for value in found.values())
            if is_plain or template.letters >= MANY_LETTERS:
                return template.filled(self._said(found, depth))
        return None

    def _said(self, values: Mapping[str, str], depth: int) -> dict[str, str]:
        return {name: self._say(value, depth + 1) for name, value in values.items()}

    def _is_known(self, text: str, depth: int) -> bool:
        """Whether a text is a sentence of the catalogue, or several of them, each with its reason or without."""
        return bool(self._whole(text, depth)) or all(
            self._whole(part, depth)
            or all(self._whole(reason, depth) for reason in _cut(part, ": "))
            or all(self._whole(piece, depth) or self._weak(piece, depth, is_short=True) for piece in _cut(part, ", "))
            for part in _cut(text, "; ")
        )

    def _fitting(self, core: str, among: Mapping[str, list[Template]]) -> Iterator[tuple[Template, dict[str, str]]]:
        words = dict.fromkeys(found[0].lower() for found in WORD.finditer(core))
        candidates = [template for word in words for template in among.get(word, ())]
        for template in sorted(candidates, key=lambda held: -held.weight):
            self._count(core)
            found = template.values(core)
            if found is not None:
                yield template, found

    def _weak(self, core: str, depth: int, *, is_short: bool) -> str | None:
        """A msgid of a word or two, which fits almost anything: only with short values, or with sentences in them."""
        for template, found in self._fitting(core, self.weak_by_word):
            if is_short and "" in template.literals[1:-1]:  # two placeholders that touch share a value by chance
                continue
            values = self._said(found, depth)
            if all(_is_short(value) or (not is_short and self._whole(value, depth + 1)) for value in found.values()):
                return template.filled(values)
        return None

    def _led(self, core: str, depth: int) -> str | None:
        """A name that is no word (``NAME=VALUE``, an option, a port), and a sentence about it."""
        name, _, rest = core.partition(" ")
        is_led = rest and NAME.search(name)
        translated = self._whole(rest, depth) if is_led else None
        return f"{name} {translated}" if translated else None

    def _headed(self, core: str, depth: int) -> str | None:
        """A sentence that ends in a colon, and what is listed behind it."""
        for found in reversed(list(re.finditer(": ", core))[:MOST_PARTS]):
            head, rest = core[: found.end() - 1], core[found.end() :]
            translated = self._whole(head, depth) if head.count(" ") > 1 else None
            if translated and translated.endswith((":", "：")):  # else the colon was taken for the end of a value
                return f"{translated}{'' if FOREIGN.search(translated[-1]) else ' '}{self._say(rest, depth + 1)}"
        return None

    def _bracketed(self, core: str, depth: int) -> str | None:
        """A sentence with something added in brackets at its end."""
        found = BRACKETED.fullmatch(core)
        if found is None:
            return None
        head, added = (self._say(part or "", depth + 1) for part in found.groups())
        return None if (head, added) == (found[1] or "", found[2]) else f"{head} ({added})".strip()

    def _parted(self, core: str, depth: int) -> str | None:
        """The text in parts, where at least one of them says something; code is never cut."""
        for cut, joint in CUTS:
            parts = _cut(core, cut)
            if len(parts) > 1:
                translated = list(self._parts(parts, cut, depth))
                if "".join(translated) != "".join(parts).replace(cut, ""):
                    is_foreign = FOREIGN.search("".join(translated))
                    if cut == ". ":
                        return "".join(
                            part if FOREIGN.search(part[-1:]) else f"{part} " for part in translated
                        ).rstrip()
                    return (joint if is_foreign else cut).join(translated) if is_foreign else None
        return None

    def _parts(self, parts: list[str], cut: str, depth: int) -> Iterator[str]:
        """What the parts say: the longest run of them that is one sentence, and so on."""
        dot = "." if cut == ". " else ""
        start = 0
        while start < len(parts):
            ends = range(min(len(parts), start + MOST_PARTS), start, -1) if len(parts) <= MOST_PARTS else [start + 1]
            for end in ends:
                text = cut.join(parts[start:end]) + (dot if end < len(parts) else "")
                translated = self._whole(text, depth + 1) or (self._whole(f"{cut}{text}", depth + 1) if start else None)
                if translated or end == start + 1:
                    yield translated.lstrip(LEADING) if translated else self._say(text, depth + 1)
                    start = end
                    break


def _joined(pieces: Iterable[str]) -> str:
    """The pieces in a row; a name in Latin letters has a space before it, a Chinese word has none."""
    made = ""
    for piece in pieces:
        if made.endswith(" ") and FOREIGN.match(made[-2:-1]) and FOREIGN.match(piece):
            made = made[:-1]
        if piece.startswith(" ") and FOREIGN.match(made[-1:]) and FOREIGN.match(piece[1:2]):
            piece = piece[1:]  # noqa: PLW2901 - the same piece
        made += piece
    return made


def _is_a_value(text: str) -> bool:
    """Whether it can be a name, a number or a list of them, and is no sentence that the catalogue lacks."""
    return len(text.split()) <= VALUE_WORDS and not re.search(r"[;:] ", text)


def _is_short(text: str) -> bool:
    """A name, a number with its unit, or a model: nothing that reads as a sentence."""
    words = text.split()
    few = FEW_WORDS if any(word.isalpha() and word.islower() for word in words) else VALUE_WORDS
    return len(words) <= few and not re.search(r"[,;:] ", text)


def _unbraced(literal: str) -> str:
    """The text of a literal, whose own braces stand doubled in the catalogue."""
    return literal.replace("{{", "{").replace("}}", "}")


def _folded(text: str) -> str:
    return " ".join(text.split())


def _cut(text: str, cut: str) -> list[str]:
    """The parts of a text between the cuts that stand outside of code."""
    if cut not in text:
        return [text]
    parts: list[str] = [""]
    end = 0
    for code in KEPT.finditer(text):
        first, *others = text[end : code.start()].split(cut)
        parts[-1] += first
        parts += others
        parts[-1] += code[0]
        end = code.end()
    first, *others = text[end:].split(cut)
    parts[-1] += first
    return parts + others
