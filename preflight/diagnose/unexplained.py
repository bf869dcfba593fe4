"""Where a log ends with an error that no cause explains: which line was the first, of which rank, in which stage?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from preflight.diagnose.cause import Cause, Kind
from preflight.diagnose.ends.stages import stream_of
from preflight.diagnose.found import Evidence, Finding
from preflight.diagnose.gather import Gatherer
from preflight.diagnose.pace import Mark
from preflight.diagnose.prefix import ANSI, Line, line_of
from preflight.diagnose.quiet import (
    HARMLESS,
    TRIED,
    is_for_debugging,
    is_ignored,
    is_printed,
    is_python_warning,
    is_quoted,
    unescaped,
)
from preflight.diagnose.tracebacks import CODE

# What tells of an error at the end of a log: words of a shell, a launcher, a library or the kernel.
ERROR = re.compile(
    r"\b(?:error|errors (?:in|of|occurred|found)|fatal|panic|segmentation fault|core dumped|aborted|failed|failure"
    r"|fails|exception"
    r"|can(?:not|'t) \w+|could not|unable to|not permitted|permission denied|no such \w+|no data available"
    r"|command not found|not found in|non-zero exit status|timed out|expression expected|unbound variable"
    r"|err(?:no)? \d+)\b",
    re.IGNORECASE,
)
LEVEL = re.compile(r"\b(?:ERROR|CRITICAL|FATAL)\b")  # loggers write it in front of a line
# A level below an error, as loggers write it, and counters and settings that only have the words.
BELOW = re.compile(
    r"\b(?:INFO|DEBUG|TRACE|NOTICE|WARN(?:ING)?)\b|^[IW]\d{3,4} |\b[IW]\d{4} \d\d:\d\d:\d\d"
    r"|\[[IW]\d* |\bwarning: |\bno errors?\b"
    r"|\b0 (?:errors?|failed|failures)\b|\b(?:errors?|fail\w*)\w*[=: ] ?(?:0|none|false)\b"
    r"|^Exception (?:in thread|ignored|raised from \S+ at )"
    r"|\bnccl_\w+ set (?:by|to)\b|\bcurrent value: |\berrors?(?: rate)?\W{0,3}\d+\.\d"
    r"|\w[-_](?:error|failure|failed)(?:[-_]\w+)?\b",
    re.IGNORECASE,
)
# Errors that jobs run on after: of daemons of the node, of tools that try, of files that were only wished for.
BENIGN = re.compile(
    r"^\s*frame #\d+: "
    r"|\bmlx5_cmd_out_err\b|\bunable to create tmpdir\b|\w+\.go:\d+\]|\bcontainerd\b|\bcni\b|\bkubelet\b"
    r"|\bdependency resolver\b|\bgds_ds12\w*|\bunable to determine the binding\b|\bmetric_exporter\b|\bioctl\(req="
    r"|\bunable to register cu\w+ factory\b",
    re.IGNORECASE,
)
# Lines: the words of other ranks, of a launcher and its table, which end for an error, are fewer, or errors.
SAYS_MORE = 15
# What people write, in a prompt or a manual: whole sentences without a path, a number, a colon or brackets.
PROSE = re.compile(r"[A-Z][a-z]+(?: [a-z'-]+,?){9,}[^:=/_\[\](){}<>\d]*")
MEMBER = re.compile(r'\s*"\w+": "(?:[^"\\]|\\.)*",?')  # a line of a JSON document that a program prints as its result
NCCL_WARNS = re.compile(r"\bNCCL WARN\b")
NOT_EXPLAINED = Cause(
    name="failure-not-explained",
    meaning="the log ends with an error that no known cause explains",
    patterns=(),
    fix="read the first of these lines and the 30 above it on that rank: what is asked for there, and of whom?",
    source="",
    kind=Kind.CONSEQUENCE,
)


def unexplained(gathered: Gatherer) -> Finding | None:
    """The first error near the end of a log that did not go on after it; None where there is none."""
    found: list[Evidence] = []
    for file, tail in gathered.tails.items():
        if not (gathered.has_ended(file) or file in gathered.left):
            found += _errors(gathered, file, tail)
    if not found:
        return None
    if all(one.seconds >= 0 for one in found):
        found.sort(key=lambda one: one.seconds)
    first = found[0]
    ranks = tuple(sorted({one.rank for one in found if one.rank >= 0}))
    nodes = tuple(sorted({one.node for one in found if one.node}))
    return Finding(NOT_EXPLAINED, (first, *found[1:3]), len(found), ranks, nodes)


def _errors(gathered: Gatherer, file: str, tail: Iterable[Mark]) -> list[Evidence]:
    """The errors in the last lines of a file, none where the program said much more after them."""
    found: list[Evidence] = []
    after = 0  # lines after the last of them
    steps = list(gathered.recent.get(file, ()))
    living = gathered.tracebacks.living(file)
    for number, raw in tail:
        after += bool(raw.strip())
        if (file, number) in gathered.known or _went_on(number, steps):
            continue
        text = unescaped(ANSI.sub("", raw[:1024].decode("utf-8", "backslashreplace")))
        line = line_of(text, file=file)
        if (
            not _is_error(line, text)
            or line.process in living
            or any(message in text for idle, message in gathered.tracebacks.idle if idle == file)
        ):
            continue
        stage = gathered.ways.stage_of(file, line, has_progress=file in gathered.progress)
        found.append(Evidence(file, number, line.text.strip()[:500], line.rank, line.node, line.seconds, stage))
        after = 0
    return found if after <= SAYS_MORE else []


def _went_on(number: int, steps: list[Mark]) -> bool:
    """Whether the furthest rank made a step after a line: an error that nothing is known of is no more than a word."""
    if any(number == step for step, _ in steps):
        return True
    before = Counter(stream_of(line) for step, line in steps if step < number)
    after = Counter(stream_of(line) for step, line in steps if step > number)
    return max((before + after).values(), default=0) > max(before.values(), default=0)


def _is_error(line: Line, text: str) -> bool:
    lowered = text.lower()
    if (
        not (ERROR.search(line.text) or LEVEL.search(text))
        or CODE.match(line.text)
        or TRIED.search(text)
        or BENIGN.search(line.text)
        or BENIGN.search(text)
        or PROSE.fullmatch(line.text)
        or MEMBER.fullmatch(line.text)
        or is_ignored(line.text)
    ):
        return False
    if (BELOW.search(text) or BELOW.search(line.text)) and not NCCL_WARNS.search(text):
        return False
    words = lowered.encode(errors="replace").split()
    return not (
        is_quoted(line.text)
        or is_printed(line.text)
        or is_python_warning([word.rstrip(b":") for word in words])
        or is_for_debugging(words, text)
        or HARMLESS.search(lowered)
    )
