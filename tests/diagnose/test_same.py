"""Is the answer the same however a log is prefixed, interleaved, doubled or quoted from?"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import re
import tarfile
import zipfile
from collections.abc import Callable

import pytest

from preflight.diagnose import diagnose, diagnose_files, diagnose_texts
from preflight.diagnose.ends.end import End
from preflight.diagnose.prefix import line_of
from tests.diagnose import test_logs
from tests.diagnose.healthy import FAILURES, logs, steps
from tests.shares import shares

RANKS = 4
QUOTES = {
    "a remark": 'note: job 4711 of yesterday ended with "{}"',
    "a comment": "# {}",
    "a mail": "> {}",
    "a message": '{{"role": "user", "content": "it says {}"}}',
    "a completion": '{{"completion": "{}", "reward": 0.1}}',
    "code": "see `{}` in the ticket",
    "a string": "'{}',",
    "another job": "The log of the other job says: {}",
}
LINES = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "n9:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.9<38560> with error 12, opcode 0, vendor err 129",
    "OSError: [Errno 28] No space left on device",
)

# As other versions of torch write the same.
OLDER = (
    (r"^\[rank\d+\]: ?", ""),
    (r"\[([WE])\d{4} [\d:.]+ (\w+\.cpp)", r"[\1 \2"),
    (r"\btorch\.OutOfMemoryError", "torch.cuda.OutOfMemoryError"),
    (r"torch\.distributed\.Dist(?:Backend|Network|Store)Error", "RuntimeError"),
    (r"\.(cpp|cc|cu|h|hpp):\d+", r".\1:7"),
)
NEWER = (
    (r"\[([WE]) (\w+\.cpp)", r"[\g<1>0302 10:20:30.123456789 \2"),
    (r"torch\.cuda\.OutOfMemoryError", "torch.OutOfMemoryError"),
    (r"\.(cpp|cc|cu|h|hpp):\d+", r".\1:2345"),
)
FORMS: dict[str, Callable[[list[str]], list[str]]] = {
    "twice": lambda lines: [*lines, *lines],
    "of an older torch": lambda lines: [worded(OLDER, line) for line in lines],
    "of a newer torch": lambda lines: [worded(NEWER, line) for line in lines],
    "by torchrun --tee": lambda lines: [f"[default3]:{line}" for line in lines],
    "by mpirun": lambda lines: [f"[1,3]<stderr>:{line}" for line in lines],
    "by Ray": lambda lines: [f"(RayTrainWorker pid=4711, ip=10.0.0.4) {line}" for line in lines],
    "by docker compose": lambda lines: [f"worker-1  | {line}" for line in lines],
    "between empty lines": lambda lines: [text for line in lines for text in (line, "")],
}
# Twice the same rank of Lightning is what two nodes print that both think to be the first.
OF_TWO = frozenset(("frameworks: lightning-of-one-node", "frameworks: lightning-failed-early"))
# Here the order of lines of different nodes or programs is what tells the cause.
ORDERED = frozenset(
    (
        "healthy: late-head-node",
        "systems: heartbeat-after-a-timeout",
        "systems: lustre-evicted",
        "systems: watchdog-thread-stuck-first",
        "versions: libfabric and its plug-in do not fit",
        "versions: a queue pair that never connects, in the words of 2.27",
    )
)


def worded(rows: tuple[tuple[str, str], ...], line: str) -> str:
    """A line in the words of another version."""
    for old, new in rows:
        line = re.sub(old, new, line)
    return line


def by_rank(lines: list[str]) -> list[list[str]]:
    """The lines of each rank or node."""
    found: dict[tuple[int, str], list[str]] = {}
    for text in lines:
        line = line_of(text)
        found.setdefault((line.rank, line.node), []).append(text)
    return list(found.values())


def told(lines: list[str]) -> tuple[int, tuple[str, ...]]:
    """The exit code and the first cause."""
    diagnosis = diagnose(lines)
    return diagnosis.outcome.exit_code, tuple(one.cause.name for one in diagnosis.causes[:1])


@pytest.mark.parametrize("share", shares(5))
@pytest.mark.parametrize("form", FORMS)
def test_every_true_log_leads_to_the_same_in_another_form(form, share):
    """Doubled, written by another version, or as another launcher prefixes it."""
    changed = {}
    for name, (_, lines) in share.of(test_logs.logs().items()):
        wanted, found = told(list(lines)), told(FORMS[form](list(lines)))
        if wanted != found and not (form == "twice" and name in OF_TWO):
            changed[name] = wanted, found
    assert changed == {}


def test_every_true_log_leads_to_its_cause_however_ranks_are_interleaved():
    """Each rank's own lines stay in order."""
    changed = {}
    for name, (causes, lines) in test_logs.logs().items():
        streams = by_rank(list(lines))
        for seed in range(3) if len(streams) > 1 and name not in ORDERED else ():
            if not test_logs.is_right(causes, diagnose(interleaved(streams, seed))):
                changed[name] = seed
    assert changed == {}


def ranks(failure: str) -> list[list[str]]:
    """The lines of each rank; the last of them fails, and the others are ended for it."""
    streams = [[line.replace("[rank0]", f"[rank{rank}]") for line in steps("torch")] for rank in range(RANKS)]
    streams[-1] += FAILURES[failure]()
    return streams


def interleaved(streams: list[list[str]], seed: int) -> list[str]:
    """The streams in one, each in its order."""
    draw, left, lines = random.Random(seed), [list(stream) for stream in streams], []
    while any(left):
        lines.append(draw.choice([stream for stream in left if stream]).pop(0))
    return lines


def first(lines: list[str]) -> tuple[str, ...]:
    """The outcome and the first cause."""
    diagnosis = diagnose(lines)
    return diagnosis.outcome.end.value, *(one.cause.name for one in diagnosis.causes[:1])


@pytest.mark.parametrize("failure", FAILURES)
def test_the_order_of_ranks_in_a_log_changes_nothing(failure):
    """Nor a prefix of each line, a second copy of the log, or a file for each rank."""
    streams = ranks(failure)
    wanted = ("failed", failure)
    for seed in range(8):
        lines = interleaved(streams, seed)
        assert first(lines) == wanted, seed
        assert first([f"2030-01-02T03:04:{n % 60:02}.123Z {line}" for n, line in enumerate(lines)]) == wanted
        assert first([f"[pod/job-0/pytorch] {line}" for line in lines]) == wanted
        assert first([*lines, *lines]) == wanted
    several = diagnose_texts({f"rank{n}.log": "\n".join(stream) for n, stream in enumerate(streams)})
    assert (several.outcome.end.value, several.causes[0].cause.name) == wanted


@pytest.mark.parametrize("share", shares(5))
@pytest.mark.parametrize("form", QUOTES)
def test_what_a_healthy_log_quotes_of_another_job_is_no_failure(form, share):
    """In its middle and as its last line; the same words without quotation fail it."""
    blamed = {}
    for number, (name, lines) in share.of(enumerate(logs())):
        if diagnose(lines).outcome.end in {End.NOTHING, End.JUST_STOPS}:  # no log of a job by itself
            continue
        line = LINES[number % len(LINES)]
        for at in (len(lines) // 2, len(lines)):
            if diagnose([*lines[:at], QUOTES[form].format(line), *lines[at:]]).has_failed:
                blamed[name] = line
    assert blamed == {}
    assert all(diagnose([*steps("torch"), line]).has_failed for line in LINES)


@pytest.mark.parametrize("failure", FAILURES)
def test_how_a_log_is_packed_changes_nothing(failure, tmp_path):
    """Nor in which encoding it is; its name says nothing of either."""
    text = "\n".join(interleaved(ranks(failure), 1)) + "\n"
    for number, form in enumerate(packed(text)):
        (tmp_path / f"{number}.log").write_bytes(form)
        diagnosis = diagnose_files([str(tmp_path / f"{number}.log")])
        assert (diagnosis.outcome.end.value, diagnosis.causes[0].cause.name) == ("failed", failure), number


def test_every_true_log_leads_to_the_same_packed(tmp_path):
    """The forms take turns."""
    changed = {}
    for number, (name, (_, lines)) in enumerate(test_logs.logs().items()):
        forms = packed("\n".join(lines) + "\n")
        path = tmp_path / f"{number}.log"
        path.write_bytes(forms[number % len(forms)])
        diagnosis = diagnose_files([str(path)])
        found = diagnosis.outcome.exit_code, tuple(one.cause.name for one in diagnosis.causes[:1])
        if found != told(list(lines)):
            changed[name] = number % len(forms), found
    assert changed == {}


def packed(text: str) -> tuple[bytes, ...]:
    """A text in every packing and encoding."""
    data = text.encode()
    member, tape = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(member, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rank0.log", text)
    with tarfile.open(fileobj=tape, mode="w:gz") as tar:
        header = tarfile.TarInfo("rank0.log")
        header.size = len(data)
        tar.addfile(header, io.BytesIO(data))
    packings = (data, gzip.compress(data), bz2.compress(data), lzma.compress(data), member.getvalue(), tape.getvalue())
    return *packings, text.encode("utf-16"), text.encode("utf-16-le"), text.encode("utf-8-sig")
