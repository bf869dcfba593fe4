"""Is the answer the same however a log is prefixed, interleaved, doubled or quoted from?"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import zipfile

import pytest

from preflight.diagnose import diagnose, diagnose_files, diagnose_texts
from preflight.diagnose.ends.end import End
from tests.diagnose.healthy import FAILURES, logs, steps

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


@pytest.mark.parametrize("form", QUOTES)
def test_what_a_healthy_log_quotes_of_another_job_is_no_failure(form):
    """In its middle and as its last line; the same words without quotation fail it."""
    blamed = {}
    for number, (name, lines) in enumerate(logs()):
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
    data = text.encode()
    member = io.BytesIO()
    with zipfile.ZipFile(member, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rank0.log", text)
    forms = (data, gzip.compress(data), bz2.compress(data), lzma.compress(data), member.getvalue())
    forms += (text.encode("utf-16"), text.encode("utf-16-le"), text.encode("utf-8-sig"))
    for number, form in enumerate(forms):
        (tmp_path / f"{number}.log").write_bytes(form)
        diagnosis = diagnose_files([str(tmp_path / f"{number}.log")])
        assert (diagnosis.outcome.end.value, diagnosis.causes[0].cause.name) == ("failed", failure), number
