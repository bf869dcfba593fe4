"""On which line did a script stop or fail, by what its shell wrote down at every command?"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from preflight.job.start.rehearsal.story import NodeStory, Row
from preflight.launch.cast import Script
from preflight.said.redact import without_secrets

MOST_CHARACTERS = 160
NOISE = re.compile(
    r"bash: (?:cannot set terminal process group|no job control in this shell)|-{20,}$|\*{20,}$"
    r"|(?:[\w.-]+: )?(?:frame #\d+: |Exception raised from )"  # where in its own code torch was
)
# pdsh puts the name of the node before it.
TORCH_WARNING = re.compile(r"(?:[\w.-]+: )?\[?[WI]\d{4} [^\]]*\](?: |$)(?:\[c10d\] )?")
NOT_FOUND, NOT_RUN = 127, 126


@dataclass(frozen=True)
class Line:
    """A command of a script: its file, line and text, and how it ended; -1 where it had not ended."""

    file: str
    line: int
    text: str
    status: int

    @property
    def place(self) -> str:
        """As people name it."""
        return f"{self.file}:{self.line}"

    @property
    def command(self) -> str:
        """The place with the command."""
        return f"{self.place} (`{self.text}`)" if self.text else self.place


def rows_of_script(node: NodeStory, script: Script) -> list[Row]:
    """The commands of the script's own shell, of functions and files that it reads too, not of subshells."""
    path = node.began.path if node.began else script.path
    first = next((row for row in node.rows if row.source == path), None)
    return [row for row in node.rows if first is not None and row.shell == first.shell and row.depth == 0]


def last_line(node: NodeStory, script: Script) -> Line | None:
    """Where the script is, or was when it ended: behind a failure that it left with, that command."""
    rows = rows_of_script(node, script)
    if not rows:
        return None
    if node.code is None:
        return _line(rows[-1], -1, script)
    at = len(rows) - 1
    while node.code and at > 0 and rows[at].status:
        at -= 1
    status = rows[at + 1].status if at + 1 < len(rows) else node.code
    return _line(rows[at], status, script)


def failed_lines(node: NodeStory, script: Script) -> list[Line]:
    """The commands that could not be run or failed while the script went on, each once."""
    rows = rows_of_script(node, script)
    pairs = pairwise(rows)
    found = [_line(row, after.status, script) for row, after in pairs if after.status in (NOT_FOUND, NOT_RUN)]
    return list(dict.fromkeys(found))


def _line(row: Row, status: int, script: Script) -> Line:
    is_own = os.path.basename(row.source) == os.path.basename(script.path)
    text = text_at(script.text.splitlines(), row.line) if is_own else ""
    return Line(script.name if is_own else row.source, row.line, text, status)


def text_at(lines: Sequence[str], number: int) -> str:
    """The command on a line, with the lines that it goes on, without secrets."""
    shown = without_secrets(" ".join(whole_at(lines, number).split("\n")))
    return shown if len(shown) <= MOST_CHARACTERS else f"{shown[: MOST_CHARACTERS - 3]}..."


def whole_at(lines: Sequence[str], number: int) -> str:
    """The command on a line as it stands, with the lines that a backslash or an open quote makes it go on."""
    if not 0 < number <= len(lines):
        return ""
    whole = lines[number - 1].strip()
    for line in lines[number:]:
        if whole.endswith("\\"):
            whole = f"{whole[:-1].rstrip()} {line.strip()}"
        elif _is_quoting(whole):
            whole = f"{whole}\n{line.strip()}"
        else:
            break
    return whole


def _is_quoting(text: str) -> bool:
    """Whether a quote is open at the end of a text."""
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return False


def without_noise(text: str) -> list[str]:
    """The lines of a text that say something: not those of a shell without a terminal."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not NOISE.match(line)]


def last_words(node: NodeStory) -> str:
    """The last line that the script wrote to standard error, else to standard output; warnings of torch only alone."""
    if node.output is None:
        return ""
    for text in (node.output.err, node.output.out):
        lines = without_noise(text)
        words = [line for line in lines if not TORCH_WARNING.match(line)]
        words = words or [text for line in lines if (text := TORCH_WARNING.sub("", line).strip(" *"))]
        if words:
            return without_secrets(words[-1])[:300]
    return ""
