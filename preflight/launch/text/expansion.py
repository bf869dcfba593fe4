"""What does a word of a shell script expand to, as far as the script alone tells?

Nothing is executed: what only a run could tell stays an unknown part of the text (`marks`).
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from preflight.launch.text.bash import expanded
from preflight.launch.text.marks import Marks, is_firm, is_known, lined, plain, split_words, varies
from preflight.launch.text.syntax import (
    TEXT_LIMIT,
    WORDS_LIMIT,
    calculated,
    is_all,
    replaced,
    sequence,
    source,
    subscript,
    unquoted,
    written_here,
)
from preflight.said import said

DEPTH_LIMIT = 60
LINES_LIMIT = 1 << 30
VARIABLES_LIMIT = 1_000  # that one script may set: every command remembers them all
WORD_COSTS = 32  # letters, as a word takes memory and time whatever its length
LETTERS_LIMIT = 1 << 22  # that all the expansions of one script may come to; more of it stays unknown
ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
ASKS_FILE = re.compile(
    r"(?:(?P<first>head\s+-(?:n\s*)?1|sed\s+-n\s+[\"']?1p[\"']?)|(?P<counts>wc\s+-l\s*<|grep\s+-c\s+(?:'\^'|\"\^\"|\^|''|\"\"|\.))"
    r"|cat|<)\s*(?P<path>[\w./${}\"'-]+)"
)
LOCATED = re.compile(r"[$(`\s]*(?:which|command -v|type -[pP])\s+([\w.+-]+)[)`\s]*")
COUNTED = re.compile(r"\$\(\(\s*(?:(\w+)\s*\+\+|\+\+\s*(\w+))\s*\)\)")
UNDERSCORED = re.compile(r"(?<!\\)\$_\w+")  # which the grammar takes for plain letters in ${NAME:-$_default}
POSITIONAL = re.compile(r"(?<!\\)\$\d")  # and in the text of a here-document
SEQUENCE = re.compile(r"seq\s+(?:(\d{1,5})\s+)?(\d{1,5})")
TEXTS = ("string_content", "heredoc_content")
BRACES = re.compile(r"\{(\d{1,5})\.\.(\d{1,5})\}")


@dataclass(frozen=True)
class Assigned:
    """A variable of the script: one text, or several for an array."""

    texts: tuple[str, ...]
    line: int
    exported: bool = False
    is_array: bool = False
    is_hidden: bool = False  # in a shell that was started from the one that set it, and did not export it
    file: str = ""  # the script that set it and started this one; "" where it is this one
    is_from_afar: bool = False  # set where the command is called that started this shell: ssh, mpirun

    @property
    def text(self) -> str:
        """What ``$NAME`` gives: the first element of an array."""
        return self.texts[0] if self.texts else ""


@dataclass
class Scope:
    """The variables at one point of a script, its arguments, and whether this text runs on every node."""

    marks: Marks
    first_line: int = 1
    variables: dict[str, Assigned] = field(default_factory=dict)
    arguments: tuple[str, ...] | None = None
    per_node: bool = True
    per_turn: bool = False  # this text logs in to the nodes: only what stands in a loop of it may differ there
    in_container: bool = False
    # Of a text that was put together from several places: the bytes where they begin, and their lines.
    places: tuple[tuple[int, int], ...] = ()
    exports_all: bool = False  # after `set -a`
    load: Callable[[str], str | None] | None = None  # the text of a file that is given
    letters: list[int] = field(default_factory=lambda: [LETTERS_LIMIT])  # that are left to all scopes of the script

    def held(self, name: str) -> Assigned | None:
        """What a variable holds in this shell; None where this one does not see it."""
        found = self.variables.get(name)
        return None if found is None or found.is_hidden else found

    def of_a_child(self, *, is_remote: bool = False) -> dict[str, Assigned]:
        """The variables as a shell that is started from here has them: those that are not exported are hidden."""
        return {
            name: replace(
                found,
                is_hidden=found.is_hidden or not found.exported,
                is_from_afar=found.is_from_afar or is_remote,
            )
            for name, found in self.variables.items()
        }

    def line(self, node: Any) -> int:
        """The line of a node in the user's file."""
        if self.places:
            place = bisect.bisect_right(self.places, (int(node.start_byte), LINES_LIMIT))
            if place:
                return self.places[place - 1][1]
        return int(node.start_point.row) + self.first_line

    def assign(self, name: str, texts: Iterable[str], line: int, *, exported: bool, is_array: bool = False) -> None:
        """Set a variable; one that was exported stays so."""
        before = self.variables.get(name)
        keep = exported or self.exports_all or bool(before and before.exported)
        if before is None and len(self.variables) >= VARIABLES_LIMIT:
            return
        held = tuple(texts)
        size = sum(map(len, held)) + len(held)
        if size > TEXT_LIMIT or not self._affords(size):
            held = (self.marks.unknown(f"${name}", line),)
        self.variables[name] = Assigned(held, line, keep, is_array)

    def export(self, name: str) -> None:
        """Mark a variable as exported."""
        if name in self.variables:
            self.variables[name] = replace(self.variables[name], exported=True)

    def text(self, node: Any, depth: int = 0) -> str:
        """What a node expands to, as one text."""
        return " ".join(self.words(node, depth, quoted=True))

    def _affords(self, size: int) -> bool:
        """Whether so many more letters may be made, which are then taken from what is left."""
        if size > self.letters[0]:
            return False
        self.letters[0] -= size
        return True

    def words(self, node: Any, depth: int = 0, *, quoted: bool = False) -> list[str]:
        """What a node expands to, as the words the shell would make of it; what grows beyond measure stays unknown."""
        if depth > DEPTH_LIMIT or not self.letters[0]:
            return [self._unknown(node)]
        found = self._words(node, depth, quoted=quoted)
        sizes = [len(text) for text in found]
        fits = max(sizes, default=0) <= max(TEXT_LIMIT, 2 * (node.end_byte - node.start_byte))
        if fits and self._affords(sum(sizes) + WORD_COSTS * len(sizes)):
            return found
        self.letters[0] = self.letters[0] if not fits else 0
        return [self._unknown(node)]

    def _words(self, node: Any, depth: int, *, quoted: bool) -> list[str]:
        kind = node.type
        if kind == "word" and UNDERSCORED.search(source(node)):
            text = UNDERSCORED.sub(lambda found: " ".join(self._value(found[0][1:], node)), source(node))
            return self._split([text], quoted=quoted)
        if kind == "word":
            return [ESCAPED.sub(lambda found: found[1].strip("\n"), source(node))]
        if kind in ("number", "variable_name", "string_content", "regex", "file_descriptor", "test_operator"):
            return [source(node)]
        if kind == "raw_string":
            return [source(node)[1:-1]]
        if kind == "ansi_c_string":
            return [source(node)[2:-1].replace("\\n", "\n").replace("\\t", "\t").replace("\\'", "'")]
        if kind in ("string", "translated_string"):
            return self._string(node, depth)
        if kind == "concatenation":
            return self._concatenation(node, depth, quoted=quoted)
        if kind == "simple_expansion":
            name = source(node)[1:]
            return self._split(self._value(name, node, is_all=name in "@*"), quoted=quoted)
        if kind == "expansion":
            return self._split(self._expansion(node, depth), quoted=quoted)
        if kind == "arithmetic_expansion":
            return [self._arithmetic(node, depth)]
        if kind == "command_substitution":
            counted = SEQUENCE.fullmatch(source(node)[2:-1].strip())
            if counted and not quoted:
                return [str(n) for n in range(int(counted[1] or 1), int(counted[2]) + 1)[:WORDS_LIMIT]]
            located = LOCATED.fullmatch(source(node))
            if located:  # the program is the one of that name, wherever it lies
                return [located[1]]
            lines = self._of_a_file(node)
            if lines is not None:
                return self._split(["\n".join(lines)], quoted=quoted)
            written = written_here(node)
            return self._split(self._string(written, depth), quoted=quoted) if written else [self._unknown(node)]
        if kind == "heredoc_body":
            return self._string(node, depth)
        if kind == "brace_expression":
            bounds = BRACES.fullmatch(source(node))
            return sequence(bounds[1], bounds[2]) if bounds and not quoted else [source(node)]
        return [self._unknown(node)]

    def _of_a_file(self, node: Any) -> list[str] | None:
        """What ``$(head -n 1 hosts)`` and its like print of a file that is given; None of any other."""
        asked = ASKS_FILE.fullmatch(source(node).strip("`$()\n "))
        if asked is None or self.load is None:
            return None
        path = asked["path"].strip("\"'")
        if path.startswith("$"):
            held = self.held(path.strip("${}"))
            path = plain(held.text) if held is not None and is_firm(held.text) else ""
        text = self.load(path) if path and "$" not in path else None
        if text is None:
            return None
        lines = text.rstrip("\n").split("\n")
        if len(lines) > WORDS_LIMIT or any(not line.strip() or line.lstrip().startswith("#") for line in lines):
            return None  # whoever counts lines counts those, too, and means the hosts
        if asked["counts"]:
            return [str(len(lines))]
        return lines[:1] if asked["first"] else lines

    def _unknown(self, node: Any, *, hidden: str = "", within: str = "") -> str:
        expression = self.marks.spelled(within or source(node))
        return self.marks.unknown(
            expression[:400],
            self.line(node),
            varies=self.per_node and varies(expression),
            in_container=self.in_container,
            per_node=self.per_node,
            hidden=hidden,
        )

    def _string(self, node: Any, depth: int) -> list[str]:
        """A "..." text; what the grammar leaves out between its parts is blanks that count."""
        start, raw = node.start_byte, node.text
        if self.arguments is not None and source(node) in ('"$@"', '"${@}"'):
            return list(self.arguments)
        inner = {"string": 1, "heredoc_body": 0}.get(node.type, 2)
        end = len(raw) if node.type == "heredoc_body" else len(raw) - 1
        at, parts = inner, []
        children = node.named_children
        is_mixed = b"\n" in raw or any(child.type not in TEXTS for child in children)

        def literal(first: int, last: int) -> str:
            text = raw[first:last].decode("utf-8", "replace")
            if node.type == "heredoc_body":
                text = POSITIONAL.sub(lambda found: self._argument(found[0], node), text)
            line = self.line(node) + raw.count(b"\n", 0, first)
            return unquoted(lined(text, line) if is_mixed else text)

        for child in children:
            # the grammar counts blanks before an expansion as part of it
            blanks = len(child.text) - len(child.text.lstrip()) if child.type not in TEXTS else 0
            parts.append(literal(at, child.start_byte - start + blanks))
            if child.type in TEXTS:
                parts.append(literal(child.start_byte - start, child.end_byte - start))
            elif child.type in ("simple_expansion", "expansion") and source(child) in ("$@", "${@}"):
                parts.append(" ".join(self.words(child, depth + 1)))
            else:
                found = self.words(child, depth + 1, quoted=True)
                if len(children) == 1 and is_all(child):
                    return found
                parts.append(" ".join(found))
            at = child.end_byte - start
        parts.append(literal(at, end))
        return ["".join(parts)]

    def _concatenation(self, node: Any, depth: int, *, quoted: bool) -> list[str]:
        """The parts of a word one after the other; braces come first: ``node{1..2}.lan`` is two words."""
        choices: list[list[list[str]]] = []
        for child in node.children:
            found = self.words(child, depth + 1, quoted=quoted) if child.is_named else [source(child)]
            choices.append([[text] for text in found] if child.type == "brace_expression" else [found])
        words: list[str] = []
        size = 0
        for parts in itertools.islice(itertools.product(*choices), WORDS_LIMIT):
            size += sum(len(text) for found in parts for text in found)
            if size > self.letters[0]:
                return [self._unknown(node)]
            words.append("")
            for found in filter(None, parts):
                words[-1] += found[0]
                words.extend(found[1:])
        return words

    def _split(self, texts: list[str], *, quoted: bool) -> list[str]:
        if quoted:
            return texts
        return [word for text in texts for word in split_words(text)]

    def _value(self, name: str, node: Any, *, is_all: bool = False) -> list[str]:
        """The texts of a variable or argument by name."""
        held = self.held(name)
        if held is not None:
            texts = held.texts if is_all else (held.text,)
            if held.file:
                return list(texts)
            return [self.marks.at_line(text, held.line) if is_known(text) else text for text in texts]
        if self.arguments is not None and name in ("@", "*"):
            return list(self.arguments)
        if self.arguments is not None and name == "#":
            return [str(len(self.arguments))]
        if (
            self.arguments is not None
            and name.isascii()
            and name.isdigit()
            and 0 < int(name[:4]) <= len(self.arguments)
        ):
            return [self.arguments[int(name[:4]) - 1]]
        if self.arguments is not None and name.isascii() and name.isdigit() and all(map(is_known, self.arguments)):
            return ["" if name != "0" else self._unknown(node)]
        return [self._unknown(node, hidden=name if name in self.variables else "")]

    def _argument(self, written: str, node: Any) -> str:
        """What an argument of the script is that stands in a longer text."""
        given, place = self.arguments or (), int(written[1:])
        return given[place - 1] if 0 < place <= len(given) else self._unknown(node, within=written)

    def _expansion(self, node: Any, depth: int) -> list[str]:
        """``${...}``: a default, an array, a length, a pattern cut off; the rest is unknown."""
        operators = [child.type for index, child in enumerate(node.children) if not child.is_named and index > 0]
        operator = next((found for found in operators if found not in ("}", "${")), "")
        named = node.named_children
        if not named or named[0].type not in ("variable_name", "subscript", "special_variable_name"):
            return [self._unknown(node)]
        name, index = subscript(named[0])
        held = self.held(name)
        if operator == "#" and node.children[1].type == "#":
            is_counted = held and held.is_array and index in "@*" and all(map(is_known, held.texts))
            return [str(len(held.texts))] if held and is_counted else [self._unknown(node)]
        rest = named[1:]
        if node.children[1].type == "!" and index and index in "@*" and not rest:  # ${!hosts[@]}: 0 1 2
            is_counted = held and held.is_array and all(map(is_firm, held.texts))
            return [str(place) for place in range(len(held.texts))] if held and is_counted else [self._unknown(node)]
        if operator in (":-", "-", ":=", "="):
            is_empty = held is not None and held.text == "" and operator.startswith(":")
            if (held is None or is_empty) and not self._is_argument(name):
                default = " ".join(text for child in rest for text in self.words(child, depth + 1, quoted=True))
                text = default if held is not None else self.marks.default(default)
                if operator in (":=", "="):
                    self.assign(name, [text], self.line(node), exported=False)
                return [text]
            return self._value(name, node)
        if operator in (":+", "+"):
            is_there = held is not None and (held.text or operator == "+")
            return [self.text(rest[0], depth + 1)] if is_there and rest else [""]
        if operator in ("", ":?", "?"):
            return self._element(name, index, node)
        if operator == "!":
            return (
                self._value(plain(held.text), node)
                if held and plain(held.text).isidentifier()
                else [self._unknown(node)]
            )
        if held and is_firm(held.text) and operator in ("/", "//") and len(rest) == 2 and "$" in source(rest[1]):
            pattern = source(rest[0])
            times = -1 if operator == "//" else 1
            is_plain = not set("*?[\\$") & set(pattern)
            by = self.text(rest[1], depth + 1) if is_plain else ""
            found = replaced(held.text, pattern, by, times) if is_plain else None
            return [found] if found is not None else [self._unknown(node)]
        if held and (is_firm(held.text) or (is_known(held.text) and operator in ("%", "%%", "#", "##"))):
            found = expanded(source(node), plain(held.text))
            return [found] if found is not None else [self._unknown(node)]
        return [self._unknown(node)]

    def _is_argument(self, name: str) -> bool:
        return self.arguments is not None and name.isascii() and name.isdigit() and int(name[:4]) <= len(self.arguments)

    def _element(self, name: str, index: str, node: Any) -> list[str]:
        if index in ("", "@", "*"):
            return self._value(name, node, is_all=index != "" or name in ("@", "*"))
        held = self.held(name)
        by = self.held(index.strip("${}"))  # ${hosts[i]}, ${hosts[$i]}
        index = plain(by.text) if by is not None and is_firm(by.text) else index
        if held is None or not index.isascii() or not index.isdigit() or len(index) > 4:
            return [self._unknown(node)]
        if int(index) >= len(held.texts):
            # an array made of one command substitution: its length is unknown
            return [self._unknown(node)] if any(not is_known(text) for text in held.texts) else [""]
        return [held.texts[int(index)]] if is_known(held.texts[int(index)]) else [self._unknown_like(held, node)]

    def _unknown_like(self, held: Assigned, node: Any) -> str:
        whole = self.marks.spelled(" ".join(held.texts))[:300]
        return self.marks.unknown(said("{source} of {whole}", source(node), whole), self.line(node))

    def _arithmetic(self, node: Any, depth: int) -> str:
        inner = node.named_children
        counted = COUNTED.fullmatch(source(node))
        if counted:
            held = self.held(counted[2] or counted[1])
            digits = plain(held.text) if held is not None and is_known(held.text) else ""
            if held is not None and digits.isascii() and digits.isdigit() and len(digits) < 16:
                after = str(int(digits) + 1)
                self.assign(counted[2] or counted[1], [after], self.line(node), exported=held.exported)
                return after if counted[1] is None else digits
            return self._unknown(node)
        if len(inner) == 1:
            marks: list[str] = []
            number = self._number(inner[0], depth + 1, marks)
            if number is not None:
                return "".join(marks[:1]) + str(number)
        return self._unknown(node)

    def number(self, node: Any) -> int | None:
        """The value of an arithmetic expression that the script alone decides; None of any other."""
        marks: list[str] = []
        found = self._number(node, 0, marks)
        return None if marks else found

    def _number(self, node: Any, depth: int, marks: list[str]) -> int | None:
        """The value of an arithmetic expression of known numbers; `marks` gets that one of them is a default."""
        if depth > DEPTH_LIMIT:
            return None
        if node.type == "parenthesized_expression" and node.named_child_count == 1:
            return self._number(node.named_children[0], depth + 1, marks)
        if node.type == "binary_expression" and node.child_count == 3:
            left, right = (self._number(node.children[place], depth + 1, marks) for place in (0, 2))
            return None if left is None or right is None else calculated(left, source(node.children[1]), right)
        if node.type in ("variable_name", "word"):
            held = self.held(source(node))
            text = held.text if held else source(node)
        else:
            text = self.text(node, depth + 1)
        if text and text[0] == self.marks.default("")[0]:
            marks.append(text[0])
        digits = plain(text)
        return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 16 else None
