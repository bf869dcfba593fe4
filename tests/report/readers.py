"""How do readers other than ours take the formats: HTML, Prometheus' text and Markdown?"""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "link", "input", "br", "hr", "img"}
EMPTY_IN_SVG = {"path", "rect", "circle"}
NAME = "[a-zA-Z_][a-zA-Z0-9_]*"
VALUE = r'(?:[^"\\\n]|\\[\\"n])*'
SAMPLE = re.compile(rf'(?P<name>{NAME})(?:\{{(?P<labels>(?:{NAME}="{VALUE}",?)*)\}})? (?P<value>\S+)')
LABEL = re.compile(f'({NAME})="({VALUE})"')


class Page(HTMLParser):
    """A page taken apart; an element that is not closed in its turn is an error."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[tuple[tuple[str, ...], str]] = []
        self.comments: list[str] = []
        self.declarations: list[str] = []
        self._stack: list[str] = []
        self.feed(text)
        self.close()
        assert not self._stack, f"never closed: {self._stack}"

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"an attribute twice on {tag}: {names}"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in VOID | EMPTY_IN_SVG, f"<{tag}/>"
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._stack, f"</{tag}> too many"
        assert self._stack.pop() == tag, f"</{tag}> out of turn"

    def handle_data(self, data):
        self.words.append((tuple(self._stack), data))

    def handle_comment(self, data):
        self.comments.append(data)

    def handle_decl(self, decl):
        self.declarations.append(decl)

    def text(self, *, inside: str = "body") -> str:
        """All words inside an element, scripts left out."""
        return " ".join(word for stack, word in self.words if inside in stack and "script" not in stack)

    def script(self, name: str) -> str:
        """The content of the script element with that id; of the one without an id for no name."""
        seen = [attributes.get("id") or "" for tag, attributes in self.elements if tag == "script"]
        contents = [word for stack, word in self.words if stack and stack[-1] == "script"]
        return dict(zip(seen, contents, strict=True))[name]

    def shape(self) -> list[tuple[str, tuple[str, ...]]]:
        """Every element with the names of its attributes, without the code in a fix, which a backtick makes."""
        return [(tag, tuple(sorted(attributes))) for tag, attributes in self.elements if tag != "code"]


def prometheus(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Family -> labels -> value, as strictly as the textfile collector: one bad line, or sample twice, loses all."""
    families: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    typed: set[str] = set()
    last = ""
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        if line.startswith("# "):
            _, kind, name, rest = line.split(" ", 3)
            assert kind in {"HELP", "TYPE"}
            assert kind == "HELP" or rest == "gauge"
            assert kind != "TYPE" or name not in typed, f"{name} has two types"
            typed |= {name} if kind == "TYPE" else set()
            last = name
            continue
        found = SAMPLE.fullmatch(line)
        assert found, f"no sample: {line!r}"
        assert found["name"] == last, f"{found['name']} outside its family"
        assert found["name"] in typed
        labels = tuple((name, unescaped(value)) for name, value in LABEL.findall(found["labels"] or ""))
        samples = families.setdefault(found["name"], {})
        assert len(dict(labels)) == len(labels)
        assert labels not in samples, f"twice: {line!r}"
        samples[labels] = float(found["value"])
    return families


def unescaped(value: str) -> str:
    """A label as it was before it was escaped."""
    return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), value)


def markdown(text: str) -> list[tuple[str, str]]:
    """Every token of GitHub's Markdown with its text; of code only that it is there."""
    from markdown_it import MarkdownIt

    told = []
    for block in MarkdownIt("gfm-like", {"linkify": False}).parse(text):
        for token in block.children or [block]:
            is_code = token.type in {"code_inline", "fence", "code_block"}
            told.append((token.type, "" if is_code else token.content.strip()))
    return told
