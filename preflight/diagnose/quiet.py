"""Which lines are no failure, though they hold a failure's words?"""

from __future__ import annotations

import html
import re

# A line by which a logger of Python, UCX (DIAG: it takes another way), libfabric or Slurm only tells how it goes on.
DEBUG = re.compile(r"(?<![\w=])DEBUG(?=[ \]:|])|\bUCX +(?:TRACE|DIAG)\b|<debug>|\bdebug\d?: |\blevel=debug\b")
DEBUGGING = frozenset((b"debug", b"trace", b"diag"))
# A whole line that prints a setting, or a statistic that counted none.
SETTING = re.compile(r"[\"']?\w+[\"']? ?[:=] ?[\"']?(?:true|false|none|null)[\"']?[,;]?", re.IGNORECASE)
NONE_COUNTED = re.compile(
    r"(?!.*\b(?:rank|gpu|device|node)\b).*(?:count|number|total|failed|failures|errors)\b[^:=]*[:=] ?0[,;]?",
    re.IGNORECASE,
)
# A statement of the program, as a traceback shows it, which may be another rank's.
STATEMENT = re.compile(r" {4,}(?:from [\w.]+ import|import|raise|except) ")
# One of the settings that a line lists; with so many of them it prints a configuration.
LISTED = re.compile(r"[\w'\"]+(?:=|: )[^,=:]{0,200}, ")
MANY = 12
RAISES = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception): ")  # which lists the settings that it tells of
# What others said: prompts, completions and rewards of a model, messages that it answers, tests by their names, and
# the lines of a difference.
QUOTED = re.compile(
    r"\s*(?:\[(?:prompt|response|ground_truth|solution|reward|score|completion|answer|question|extracted\w*)\]"
    r"|#{1,4} ?(?:response|instruction|question|answer|input)\b|(?:assistant|human|user|question|answer|q|a): "
    r"|(?:prompts?|samples?|generat(?:ed|ion)|completions?|rewards?|scores?)(?: \d+)?: "
    r"|[-+] {2,}\S"
    r"|\{.*[\"'](?:prompt|completion|response|question|answer|messages|content|ground_truth|instruction|reward)[\"']: )"
    r"|.*\breceived request \S+: prompt: |.*::test_\w+.*\b(?:passed|xfailed|skipped)\b|test_\w+ \(.*\.\.\. ok$",
    re.IGNORECASE,
)
# A comment, or words about another job.
COMMENT = re.compile(r"\s*(?:#|//)+ ")
OTHER_JOB = re.compile(
    r"\b(?:(?:an)?other|previous|earlier|last|old) (?:job|run|attempt|log)\b|\b(?:job|run) \S+ (?:of|from) yesterday\b",
    re.IGNORECASE,
)
EMITS = re.compile(
    r"error|exception|fail|warn|fatal|nccl|raise|abort|[\"'](?:msg|message|log|event)[\"']:", re.IGNORECASE
)
OPENED = re.compile(r"(?<!\w)'|'(?!\w)|[\"`]")
# Parts of a library whose warnings change nothing for the job.
# NCCL's service for questions, which no rank needs; readers of images that no program for text has.
HARMLESS = re.compile(r"\bras/\w+\.cc:\d+ nccl warn\b|failed to load image python extension")
# A try that is no final word: another one follows.
TRIED = re.compile(
    r"\b(?:retry|retrying|retries|will restart|trying again|falling back|skipping|ignored|willretry=1)\b"
    r"|\battempt \d+ ?(?:of|/) ?\d+",
    re.IGNORECASE,
)
OF_A_PAGE = re.compile(r"&(?:lt|gt|amp|quot|#39|#x27);")  # a log that was taken from the source of a web page


# A program that says of an error that it leaves it at that.
IGNORES = re.compile(r"^(?:\S+ ){0,4}\W*ignor(?:e|es|ed|ing)\b", re.IGNORECASE)


def unescaped(text: str) -> str:
    """A line as it was before it became part of a web page."""
    return html.unescape(text) if "&" in text and OF_A_PAGE.search(text) else text


def is_python_warning(words: list[bytes]) -> bool:
    """Whether a library warns its programmer: nothing has failed yet."""
    return any(word.endswith(b"warning") and len(word) > len(b"warning") for word in words)


def is_for_debugging(words: list[bytes], text: str) -> bool:
    """Whether a logger only tells how it goes on."""
    return not DEBUGGING.isdisjoint(words) and DEBUG.search(text) is not None


def is_quoted(text: str) -> bool:
    """Whether a line tells what others said or wrote."""
    return QUOTED.match(text) is not None


def is_cited(before: str) -> bool:
    """Whether what follows these words of a line stands in quotation marks or a comment, or is told of another job.

    What an error or a warning quotes is its own.
    """
    if COMMENT.match(before) or OTHER_JOB.search(before):
        return True
    mark, at = "", 0
    for found in OPENED.finditer(before):
        mark, at = ("", at) if mark == found[0] else (mark, at) if mark else (found[0], found.start())
    return bool(mark) and EMITS.search(before[:at]) is None


def is_ignored(before: str) -> bool:
    """Whether these words of a line say that the program takes no notice of what follows them."""
    return IGNORES.match(before) is not None


def is_printed(text: str) -> bool:
    """Whether a line only prints settings, a statistic that counted none, or a statement of the program."""
    bare = text.strip()
    if SETTING.fullmatch(bare) or NONE_COUNTED.fullmatch(bare) or STATEMENT.match(text):
        return True
    return text.count(", ") >= MANY and RAISES.match(text) is None and len(LISTED.findall(text)) >= MANY
